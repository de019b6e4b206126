"""Appending to a partition, from many processes at once.

Every change happens under the partition's lock, in this order:

1. *catch up*: walk the frames others have appended since, move on to the newest segment;
2. *repair*: cut off a torn tail, so that a frame always starts where the last valid one ends;
3. *roll* to a new segment if the active one is full: fsync it, write the producers' sidecar, create the
   file, apply retention;
4. *write* the frame, in one go; fsync if asked.

A crash between any two leaves a partition that the next writer's steps 1 and 2 put right.

Of transactional producers a partition remembers the highest epoch that each has committed.  The truth is in
the frame headers.  So that they need not all be walked, a sidecar file ``<base>.producers`` beside each new
segment holds the state as it was before that segment's first record; the rest comes from the headers of the
active segment.

A sidecar is written before its segment is created.  One without a segment (a crash in between) has a
base above the active segment's and is never looked at.

Every writer of every attempt is a producer, so they are forgotten with their records: once retention has
deleted the last frame of one, nobody can see whether it was ever there.  The newest writer of each place
(subtask of a sink of a job) stays, and up to which epoch those before it were forgotten.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.connectors.log.errors import CorruptLogError
from penstock.connectors.log.files import partition_lock, write_all
from penstock.connectors.log.frame import FrameHeader, describe_batches
from penstock.connectors.log.segment import SegmentFile, segment_bases, segment_path
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.storage.own_files import FILE, sync_path, write_durably

PENDING = "pending"
NAME = re.compile(
    r"(?P<sink>[0-9a-f]{16})-(?P<subtask>\d+)-(?P<run>\w+)-(?P<generation>\d+)(-(?P<epoch>\d+))?\.\w+"
)
_SUFFIX = ".producers"
_VERSION = 2
_COPY_CHUNK = 8 << 20


def staged_runs(partition: Path) -> set[str]:
    """The runs of all writers that have a file there."""
    names = (NAME.fullmatch(path.name) for path in (partition / PENDING).iterdir())
    return {name["run"] for name in names if name is not None}


@dataclass(frozen=True, slots=True)
class Limits:
    """A topic's sizes and ages. Segments are deleted whole, oldest first, never the active one."""

    segment_bytes: int = 64 << 20
    """A frame that would make the segment larger starts a new one."""
    retention_bytes: int | None = None
    """Delete while what stays still holds at least this many bytes."""
    retention_ms: int | None = None
    """Delete what was last appended to longer ago. Not by the records' own times."""

    def __post_init__(self) -> None:
        for name in ("segment_bytes", "retention_bytes", "retention_ms"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigError(f"{name} must be positive, not {value}")

    def expired(self, bytes_left: int, idle_ms: int) -> bool:
        """Whether a segment may go, given what stays without it and how long ago it was written to."""
        too_big = self.retention_bytes is not None and bytes_left >= self.retention_bytes
        too_old = self.retention_ms is not None and idle_ms > self.retention_ms
        return too_big or too_old


def apply_retention(directory: Path, limits: Limits, now_ms: int) -> int:
    """Delete expired segments of a partition whose lock is held; returns how many."""
    bases = segment_bases(directory)
    paths = [segment_path(directory, base) for base in bases]
    stats = [path.stat() for path in paths]
    total = sum(stat.st_size for stat in stats)
    deleted = 0
    for path, stat in zip(paths[:-1], stats, strict=False):
        if not limits.expired(total - stat.st_size, now_ms - stat.st_mtime_ns // 1_000_000):
            break
        path.unlink()
        total -= stat.st_size
        deleted += 1
    return deleted


@dataclass(slots=True)
class Producers:
    """Producers by name, ``<job>/<sink>/<subtask>@<run>``."""

    committed: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The highest epoch of each, and the offset of its last frame."""
    forgotten: dict[str, int] = field(default_factory=dict)
    """By all of the name but the run: the highest epoch of any that was forgotten."""

    def note(self, producer: str, epoch: int, offset: int) -> None:
        """A frame of ``producer`` is in the log."""
        known = self.committed.get(producer, (epoch, offset))
        self.committed[producer] = (max(epoch, known[0]), max(offset, known[1]))

    def epoch_of(self, producer: str) -> int | None:
        """The highest epoch that is known to be in the log."""
        known = self.committed.get(producer)
        return None if known is None else known[0]

    def has_forgotten(self, producer: str, epoch: int) -> bool:
        """Whether it cannot be told if this epoch was committed: it was so long ago."""
        return epoch <= self.forgotten.get(_place(producer), -1)

    def forget_before(self, start: int, still_staged: Set[str]) -> None:
        """Forget producers without a record from offset ``start`` on, if others came after them.

        Not those of runs that have staged files: their commits are to be repeated.
        """
        newest: dict[str, int] = {}
        for producer, (_, offset) in self.committed.items():
            newest[_place(producer)] = max(offset, newest.get(_place(producer), offset))
        for producer, (epoch, offset) in list(self.committed.items()):
            place, run = _place(producer), producer.rpartition("@")[2]
            if offset < min(start, newest[place]) and run not in still_staged:
                del self.committed[producer]
                self.forgotten[place] = max(epoch, self.forgotten.get(place, epoch))


def _place(producer: str) -> str:
    return producer.rpartition("@")[0]


def _path(directory: Path, base: int) -> Path:
    return directory / f"{base:020d}{_SUFFIX}"


def save_producers(directory: Path, base: int, producers: Producers) -> None:
    """Store the state before offset ``base``."""
    stored = {"version": _VERSION, "committed": producers.committed, "forgotten": producers.forgotten}
    write_durably(_path(directory, base), json.dumps(stored).encode())


def load_producers(directory: Path, base: int) -> Producers:
    """The state before the segment that starts at ``base``. The first segment of all has none."""
    path = _path(directory, base)
    if base == 0 and not path.exists():
        return Producers()
    try:
        return _parsed(json.loads(path.read_bytes()), base)
    except (OSError, ValueError, TypeError, KeyError) as e:
        raise CorruptLogError(
            f"{path} is missing or unreadable ({e}): without it nobody can say which transactions are "
            "already in the partition, so nothing can be appended. Restore the file from a copy; if no "
            'exactly-once sink writes to the topic, a file with the text "{}" will do.'
        ) from e


def _parsed(stored: dict[str, Any], base: int) -> Producers:
    if stored.get("version") != _VERSION or not isinstance(stored.get("committed"), dict):
        # As older versions wrote it: epochs by producer. Their frames are somewhere before.
        return Producers({producer: (int(epoch), base - 1) for producer, epoch in stored.items()})
    committed = {producer: (int(epoch), int(at)) for producer, (epoch, at) in stored["committed"].items()}
    return Producers(committed, {place: int(epoch) for place, epoch in stored["forgotten"].items()})


def drop_older(directory: Path, base: int) -> None:
    """Remove sidecars of segments before ``base``; only the active segment's is ever read."""
    for path in directory.glob(f"*{_SUFFIX}"):
        if int(path.name[: -len(_SUFFIX)]) < base:
            path.unlink(missing_ok=True)


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
