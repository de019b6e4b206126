"""Segment files: names, and reading frames out of one while others write to it.

A partition's records live in files ``<base offset, 20 digits>.log``.  The one with the highest base is
*active*; the others are sealed and never change.  A writer that dies in the middle of an append leaves a
*torn tail*: bytes after the last valid frame of the active segment, with no valid frame behind them.
Readers see a torn tail as "not there yet"; the next writer cuts it off.

Files are read with ``pread``, never mapped: cutting a torn tail off under a mapping would kill the
process that looks at it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.connectors.log.errors import CorruptLogError
from penstock.connectors.log.frame import (
    FIXED_SIZE,
    MAGIC,
    MAX_HEADER_SIZE,
    FrameHeader,
    decode_payload,
    parse_header,
    payload_crc,
)
from penstock.core.errors import ConnectorError

SUFFIX = ".log"
_WINDOW = 4 << 20
_HEADERS_WINDOW = 1 << 16


def segment_path(directory: Path, base: int) -> Path:
    """File of the segment that starts at offset ``base``."""
    return directory / f"{base:020d}{SUFFIX}"


def segment_bases(directory: Path) -> list[int]:
    """Base offsets of the segments, oldest first."""
    try:
        names = [entry.name for entry in os.scandir(directory) if entry.name.endswith(SUFFIX)]
    except FileNotFoundError:
        raise ConnectorError(f"log partition {directory} is gone: its topic was deleted") from None
    return sorted(int(name[: -len(SUFFIX)]) for name in names if name[: -len(SUFFIX)].isdigit())


@dataclass(frozen=True, slots=True)
class Frame:
    """A valid frame and where it starts in its file."""

    position: int
    header: FrameHeader
    payload: pa.Buffer | None
    """``None`` if only the header was asked for."""

    @property
    def end(self) -> int:
        """Where the next frame starts."""
        return self.position + self.header.size


class SegmentFile:
    """One segment, open for reading.

    Keeps a window of recently read bytes, so that many small frames cost one system call.  The window
    only ever serves whole valid frames, which never change; anything else is read again.
    """

    def __init__(self, directory: Path, base: int) -> None:
        self.base = base
        self.path = segment_path(directory, base)
        self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        self._window = b""
        self._window_at = 0

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def size(self) -> int:
        """Bytes in the file now."""
        return os.fstat(self._fd).st_size

    def deleted(self) -> bool:
        """Whether retention has removed the file since it was opened."""
        return os.fstat(self._fd).st_nlink == 0

    def frame_at(self, position: int, payload: bool) -> Frame | None:
        """The valid frame at ``position``; ``None`` if there is none, or no whole one, now.

        With ``payload`` its checksum is verified, else only the header's and that it is complete.
        """
        window = memoryview(self._window)[max(position - self._window_at, 0) :]
        if position >= self._window_at and len(window):
            found = self._parse(window, position, len(window), payload)
            if found is not None:
                return found
        size = self.size()
        if position + FIXED_SIZE > size:
            return None
        self._load(position, min(_WINDOW if payload else _HEADERS_WINDOW, size - position))
        header = parse_header(self._window)
        if header is None or position + header.size > size:
            return None
        if payload and header.size > len(self._window):
            self._load(position, header.size)
        return self._parse(memoryview(self._window), position, size - position, payload)

    def _load(self, position: int, length: int) -> None:
        self._window = os.pread(self._fd, length, position)
        self._window_at = position

    def _parse(self, raw: memoryview, position: int, available: int, payload: bool) -> Frame | None:
        header = parse_header(raw)
        if header is None or header.size > available:
            return None
        if not payload:
            return Frame(position, header, None)
        body = raw[header.header_size : header.size]
        if len(body) != header.payload_length or payload_crc([body]) != header.payload_crc:
            return None
        return Frame(position, header, pa.py_buffer(body))

    def frames(self, position: int, payload: bool) -> Iterator[Frame]:
        """Valid frames from ``position`` on, up to the first place that holds none."""
        while (frame := self.frame_at(position, payload)) is not None:
            yield frame
            position = frame.end

    def decode(self, frame: Frame) -> list[pa.RecordBatch]:
        """The record batches of a frame that was read with its payload."""
        assert frame.payload is not None
        return decode_payload(frame.header, frame.payload, f"{self.path} at byte {frame.position}")

    def is_cut_short(self, position: int) -> bool:
        """Whether the file ends before the frame at ``position`` does: surely a torn tail."""
        left = self.size() - position
        if left < FIXED_SIZE:
            return True
        header = parse_header(os.pread(self._fd, MAX_HEADER_SIZE, position))
        return header is not None and header.size > left

    def is_damaged(self, position: int, sealed: bool) -> bool:
        """Whether the bytes from ``position``, where no valid frame is, cannot be a torn tail.

        Nothing may follow the frames of a sealed segment; in the active one, a valid frame *behind*
        the bad place says that the place was once good.  Call it while no writer is writing.
        """
        if position >= self.size():
            return False
        if sealed:
            return True
        return not self.is_cut_short(position) and self._next_valid(position + 1, self.size()) is not None

    def _next_valid(self, position: int, size: int) -> int | None:
        """Position of the first valid frame at or behind ``position``."""
        while position + FIXED_SIZE <= size:
            chunk = os.pread(self._fd, _WINDOW, position)
            at_end = len(chunk) < _WINDOW
            hit = chunk.find(MAGIC)
            while hit >= 0 and (at_end or len(chunk) - hit >= MAX_HEADER_SIZE):
                if (
                    parse_header(memoryview(chunk)[hit : hit + MAX_HEADER_SIZE]) is not None
                    and self.frame_at(position + hit, payload=True) is not None
                ):
                    return position + hit
                hit = chunk.find(MAGIC, hit + 1)
            position += hit if hit >= 0 else max(len(chunk) - len(MAGIC) + 1, 1)
        return None

    def damage(self, position: int) -> CorruptLogError:
        """The error for a bad frame at ``position``."""
        return CorruptLogError(
            f"log segment {self.path} is damaged at byte {position}: no valid frame starts there, and it is "
            "not the end of a write that was cut short. Restore the file from a copy, or truncate it at that "
            "byte to give up the records behind it."
        )
