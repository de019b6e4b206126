"""Appending to a partition, from many processes at once.

Every change happens under the partition's lock, on this ladder:

1. *catch up*: walk the frames others have appended since, move on to the newest segment;
2. *repair*: cut off a torn tail, so that a frame always starts where the last valid one ends;
3. *roll* to a new segment if the active one is full: fsync it, write the producers' sidecar, create the
   file, apply retention;
4. *write* the frame, in one go; fsync if asked.

A crash between any two leaves a partition that the next writer's steps 1 and 2 put right.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from penstock.connectors.log.errors import CorruptLogError
from penstock.connectors.log.files import partition_lock, write_all
from penstock.connectors.log.frame import FrameHeader, describe_batches
from penstock.connectors.log.pending import staged_runs
from penstock.connectors.log.producers import Producers, drop_older, load_producers, save_producers
from penstock.connectors.log.retention import Limits, apply_retention
from penstock.connectors.log.segment import SegmentFile, segment_bases, segment_path
from penstock.core.clock import Clock
from penstock.core.errors import ConnectorError
from penstock.storage.own_files import FILE, sync_path

_COPY_CHUNK = 8 << 20


class PartitionWriter:
    """Appends frames to one partition.

    Used by one thread; any number of writers, in any number of processes, may share the partition.
    Opening is lazy: the first append walks the active segment.

    ``append`` and ``retain`` take the lock themselves.  ``append_frame``, ``append_file``,
    ``committed_epoch``, ``has_forgotten`` and ``sync`` are for use inside ``with writer.locked():`` only;
    outside, what they know may be out of date.
    """

    def __init__(self, directory: Path, limits: Limits, clock: Clock) -> None:
        self.directory = directory
        self._limits = limits
        self._clock = clock
        self._segment: SegmentFile | None = None
        self._fd = -1
        self._end = 0
        self._next = 0
        self._producers = Producers()

    def append(self, batches: Sequence[pa.RecordBatch], fsync: bool = False) -> int:
        """Append records, at least one, as one frame; returns the offset of the first."""
        messages = [batch.serialize() for batch in batches]
        header = describe_batches(batches, messages)
        with self.locked():
            offset = self.append_frame(header, [memoryview(message) for message in messages])
            if fsync:
                self.sync()
        return offset

    def retain(self) -> int:
        """Apply retention now; returns how many segments were deleted."""
        with partition_lock(self.directory):
            return apply_retention(self.directory, self._limits, self._clock.now_ms())

    def close(self) -> None:
        """Close the files. Everything appended stays."""
        if self._segment is not None:
            self._segment.close()
            os.close(self._fd)
        self._segment = None
        self._fd = -1

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock, caught up and repaired."""
        try:
            with partition_lock(self.directory):
                self._catch_up()
                yield
        except OSError as e:
            raise ConnectorError(f"cannot write to the log partition {self.directory}: {e}") from e

    def committed_epoch(self, producer: str) -> int | None:
        """The highest epoch ``producer`` has in this partition, if any."""
        return self._producers.epoch_of(producer)

    def has_forgotten(self, producer: str, epoch: int) -> bool:
        """Whether records of that time were deleted, so that nobody can tell if these were among them."""
        return self._producers.has_forgotten(producer, epoch)

    def append_frame(self, header: FrameHeader, payload: Sequence[memoryview]) -> int:
        """Append one frame held in memory; returns the offset of its first record."""
        header = self._place(header)
        with self._undone_on_error():
            write_all(self._fd, [header.encode(), *payload], self._end)
        self._note(header)
        return header.base_offset

    def append_file(self, header: FrameHeader, source: Path) -> int:
        """Append one frame, copying its payload from the file ``source`` that holds just that frame."""
        header = self._place(header)
        crc = 0
        with self._undone_on_error(), source.open("rb") as staged:
            staged.seek(header.header_size)
            end = write_all(self._fd, [header.encode()], self._end)
            while chunk := staged.read(_COPY_CHUNK):
                crc = zlib.crc32(chunk, crc)
                end = write_all(self._fd, [chunk], end)
            if end != self._end + header.size or crc != header.payload_crc:
                raise CorruptLogError(f"staged transaction {source} is damaged: its checksum does not match")
        self._note(header)
        return header.base_offset

    def sync(self) -> None:
        """Make everything appended durable."""
        os.fsync(self._fd)

    def _active(self) -> SegmentFile:
        assert self._segment is not None
        return self._segment

    def _open(self, base: int) -> None:
        """Make the segment at ``base`` the one to append to, creating it if need be."""
        self.close()
        self._producers = load_producers(self.directory, base)
        path = segment_path(self.directory, base)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE)
        self._segment = SegmentFile(self.directory, base)
        self._end = 0
        self._next = base

    def _catch_up(self) -> None:
        if self._segment is None or self._segment.deleted():
            bases = segment_bases(self.directory)
            self._open(bases[-1] if bases else 0)
        self._walk()
        if self._next > self._active().base and segment_path(self.directory, self._next).exists():
            # Straight to the last one: the sidecars of those between are gone.
            self._open(segment_bases(self.directory)[-1])
            self._walk()
        if self._active().size() != self._end:
            self._repair()

    def _walk(self) -> None:
        for frame in self._active().frames(self._end, payload=True):
            if frame.header.base_offset != self._next:
                raise self._active().damage(frame.position)
            self._note(frame.header)

    def _repair(self) -> None:
        segment = self._active()
        sealed = segment_bases(self.directory)[-1] != segment.base
        if segment.size() < self._end or segment.is_damaged(self._end, sealed):
            raise segment.damage(self._end)
        os.ftruncate(self._fd, self._end)

    def _note(self, header: FrameHeader) -> None:
        self._end += header.size
        self._next = header.next_offset
        if header.producer:
            self._producers.note(header.producer, header.epoch, header.base_offset)

    def _place(self, header: FrameHeader) -> FrameHeader:
        if self._end and self._end + header.size > self._limits.segment_bytes:
            self._roll()
        return header.at(self._next)

    def _roll(self) -> None:
        os.fsync(self._fd)
        base = self._next
        self._producers.forget_before(segment_bases(self.directory)[0], staged_runs(self.directory))
        save_producers(self.directory, base, self._producers)
        self._open(base)
        sync_path(self.directory)
        drop_older(self.directory, base)
        apply_retention(self.directory, self._limits, self._clock.now_ms())

    @contextmanager
    def _undone_on_error(self) -> Iterator[None]:
        """Cut off what a failed append has written; should that fail too, the next writer will."""
        try:
            yield
        except BaseException:
            with suppress(OSError):
                os.ftruncate(self._fd, self._end)
            raise
