"""Reading a partition: by offset, by time, and on and on as it grows.

A :class:`PartitionReader` keeps its place, so reading on costs no search, and asking again at the end
costs a few system calls.

It goes over frames, from segment to segment, as the partition grows, and takes no
lock, except for one moment before it calls a file damaged: then no writer may be in the middle of something.
If one is, the verdict waits for the next call.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.connectors.log.errors import OffsetTruncatedError
from penstock.connectors.log.files import if_unlocked
from penstock.connectors.log.frame import SCHEMA
from penstock.connectors.log.segment import Frame, SegmentFile, segment_bases, segment_path
from penstock.connectors.source import OnTruncated
from penstock.core.errors import ConnectorError

READ_SCHEMA = pa.schema([pa.field("offset", pa.int64(), nullable=False), *SCHEMA])
"""Columns of what :meth:`PartitionReader.read` returns."""
_LOOKED_AT = 2000
"""Frames that one look at the end passes: little enough to be done between two batches."""
_NOTHING = pa.RecordBatch.from_pylist([], schema=READ_SCHEMA)


class Cursor:
    """Walks the frames of a partition.

    ``payload`` says whether a frame's payload is read and verified, or only its header.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._segment: SegmentFile | None = None
        self._position = 0
        self._known_torn = (-1, -1)
        self.offset = 0
        """Offset of the first record of the next frame."""

    def close(self) -> None:
        """Close the file."""
        if self._segment is not None:
            self._segment.close()
        self._segment = None

    @property
    def segment(self) -> SegmentFile:
        """The segment the cursor is in; there is one as soon as a frame was seen."""
        assert self._segment is not None
        return self._segment

    def jump(self, base: int) -> bool:
        """Go to the start of the segment at ``base``; ``False``, without moving, if it is not there."""
        try:
            segment = SegmentFile(self._directory, base)
        except FileNotFoundError:
            return False
        self.close()
        self._segment = segment
        self._position = 0
        self.offset = base
        return True

    def jump_to_start(self) -> None:
        """Go to the oldest record that is left."""
        while (bases := segment_bases(self._directory)) and not self.jump(bases[0]):
            pass

    def is_lost(self) -> bool:
        """Whether retention has deleted what comes next."""
        if self._segment is None:
            return min(segment_bases(self._directory), default=0) > self.offset
        return self._segment.deleted() and self.peek(payload=False) is None

    def next(self, payload: bool) -> Frame | None:
        """The next frame, moving past it; ``None`` at the end of what is there."""
        frame = self.peek(payload)
        if frame is not None:
            self._position = frame.end
            self.offset = frame.header.next_offset
        return frame

    def peek(self, payload: bool) -> Frame | None:
        """The next frame, without moving past it, though into the segment it is in."""
        if self._segment is None and not self.jump(self.offset):
            return None
        frame = self._here(payload)
        if frame is None and self.offset > self.segment.base:
            # Asked in this order: once a next segment exists, this one is complete.
            following = segment_path(self._directory, self.offset).exists()
            frame = self._here(payload)
            if frame is None and following:
                self._check_damage()
                frame = self._here(payload) if self.jump(self.offset) else None
        if frame is None:
            self._check_damage()
        return frame

    def _here(self, payload: bool) -> Frame | None:
        frame = self.segment.frame_at(self._position, payload)
        if frame is not None and frame.header.base_offset != self.offset:
            raise self.segment.damage(self._position)
        return frame

    def _check_damage(self) -> None:
        segment, position = self.segment, self._position
        seen = (position, segment.size())
        if position >= seen[1] or seen == self._known_torn or segment.deleted():
            return
        with if_unlocked(self._directory) as stable:
            if not stable or segment.frame_at(position, payload=True) is not None:
                return
            sealed = max(segment_bases(self._directory), default=0) > segment.base
            if segment.is_damaged(position, sealed):
                raise segment.damage(position)
        self._known_torn = seen


class TailLook:
    """Where a partition ends, from the headers of its frames: for people to see, not to be relied upon."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._cursor: Cursor | None = None

    def end_offset(self) -> int | None:
        """About the offset of the next record to come; ``None`` if that is not known yet.

        Goes over a bounded number of frames and takes no lock: the end may be that of another time.
        """
        try:
            cursor = self._cursor = self._cursor or Cursor(self._directory)
            newest = max(segment_bases(self._directory), default=0)
            if newest > cursor.offset:
                cursor.jump(newest)
            for _ in range(_LOOKED_AT):
                if cursor.next(payload=False) is None:
                    return cursor.offset
        except (ConnectorError, OSError):  # a reader will say so, if it is true
            self.close()
        return None

    def close(self) -> None:
        """Close the file; the next look begins anew."""
        if self._cursor is not None:
            self._cursor.close()
        self._cursor = None


class PartitionReader:
    """Reads one partition. Any number of readers are independent of each other; each is one thread's."""

    def __init__(self, directory: Path, on_truncated: OnTruncated = OnTruncated.ERROR) -> None:
        self._directory = directory
        self._on_truncated = on_truncated
        self._cursor = Cursor(directory)
        self._tail = Cursor(directory)
        self._ready: deque[pa.RecordBatch] = deque()
        self._next = -1

    def close(self) -> None:
        """Close the files."""
        self._cursor.close()
        self._tail.close()

    def start_offset(self) -> int:
        """Offset of the oldest record that is still there (or of the first to come)."""
        return min(segment_bases(self._directory), default=0)

    def end_offset(self) -> int:
        """Offset that the next record to be appended will get."""
        while (newest := max(segment_bases(self._directory), default=0)) > self._tail.offset:
            self._tail.jump(newest)
        while self._tail.next(payload=True) is not None:
            pass
        return self._tail.offset

    def read(self, offset: int, max_records: int) -> pa.RecordBatch:
        """Records from ``offset`` on, at most ``max_records``; none if they are not there yet.

        The result has a column ``offset`` beside timestamp, key and value: the next call's ``offset`` is
        the last one plus 1.
        """
        if offset != self._next or (not self._ready and self._cursor.is_lost()):
            offset = self._seek(offset)
        picked: list[pa.RecordBatch] = []
        count = 0
        while count < max_records and self._fill():
            batch = self._ready.popleft()
            room = max_records - count
            if batch.num_rows > room:
                self._ready.appendleft(batch.slice(room))
                batch = batch.slice(0, room)
            picked.append(batch)
            count += batch.num_rows
        self._next = offset + count
        return _with_offsets(offset, picked)

    def offset_for_timestamp(self, timestamp: int) -> int:
        """Offset of the first record at or after ``timestamp``; the end offset if there is none.

        First by place, not by time: where times are out of order, earlier ones may follow.
        """
        cursor = Cursor(self._directory)
        cursor.jump_to_start()
        try:
            while (frame := cursor.peek(payload=False)) is not None:
                if frame.header.max_timestamp >= timestamp:
                    break
                cursor.next(payload=False)
            if cursor.is_lost():
                return self.offset_for_timestamp(timestamp)
            found = None if frame is None else cursor.peek(payload=True)
            if found is None:
                return self.end_offset()
            times = np.concatenate([batch.column(0).to_numpy() for batch in cursor.segment.decode(found)])
            return cursor.offset + int(np.argmax(times >= timestamp))
        finally:
            cursor.close()

    def _fill(self) -> bool:
        """Whether a decoded batch is ready, after trying to read one."""
        while not self._ready:
            frame = self._cursor.next(payload=True)
            if frame is None:
                return False
            self._ready.extend(batch for batch in self._cursor.segment.decode(frame) if batch.num_rows)
        return True

    def _seek(self, offset: int) -> int:
        """Make ``offset`` the next to be read; returns the offset that really is, after truncation."""
        self._ready.clear()
        while bases := segment_bases(self._directory):
            if offset < bases[0]:
                offset = self._truncated(offset, bases[0])
            if self._cursor.jump(bases[bisect_right(bases, offset) - 1]):
                break
        self._skip_to(offset)
        return offset

    def _skip_to(self, offset: int) -> None:
        cursor = self._cursor
        while cursor.offset < offset:
            header = cursor.peek(payload=False)
            inside = header is not None and header.header.next_offset > offset
            frame = cursor.next(payload=inside)
            if frame is None:
                raise OffsetTruncatedError(
                    f"offset {offset} of {self._directory} was asked for, but the partition ends at "
                    f"{cursor.offset}: was the topic deleted and created again? Start at earliest or latest."
                )
            if inside:
                merged = pa.Table.from_batches(cursor.segment.decode(frame), SCHEMA)
                self._ready.extend(merged.slice(offset - frame.header.base_offset).to_batches())

    def _truncated(self, offset: int, start: int) -> int:
        if self._on_truncated is OnTruncated.EARLIEST:
            return start
        raise OffsetTruncatedError(
            f"offset {offset} of {self._directory} is gone: retention has deleted everything before {start}. "
            'Raise the topic\'s retention, or read with on_truncated="earliest" to go on at the first record '
            "that is left."
        )


def _with_offsets(offset: int, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if not batches:
        return _NOTHING
    merged = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    offsets = pa.array(np.arange(offset, offset + merged.num_rows, dtype=np.int64))
    return pa.RecordBatch.from_arrays([offsets, *merged.columns], schema=READ_SCHEMA)
