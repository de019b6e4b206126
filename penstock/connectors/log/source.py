"""A topic as a source: a split per partition, the next offset as position.

Where to start and, if bounded, where to stop is found out once, by the enumerator, and travels in the
split: so a restored job stops where the first attempt would have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.connectors.log.errors import OffsetTruncatedError
from penstock.connectors.log.offsets import LogOffsets
from penstock.connectors.log.reader import TailLook
from penstock.connectors.log.topic import Log, Topic
from penstock.connectors.source import (
    AtOffset,
    AtTime,
    EndOfSplit,
    FixedSplits,
    OnTruncated,
    Source,
    Split,
    SplitEnumerator,
    SplitReader,
)
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.discreet import log_of
from penstock.formats.bad_records import BadRecords, Diverted, ErrorPolicy, OnError, Records, decode_batch
from penstock.formats.value_format import ValueFormat, as_format

_log = log_of(__name__)


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """What a split is about."""

    partition: int
    start: int
    end: int | None
    """Offset to stop before; ``None`` to go on for ever."""
    topic_id: str | None = None
    """Of the topic that these offsets belong to, if it has one."""

    def __setstate__(self, state: list[Any]) -> None:
        # Snapshots of older versions do not have the id.
        for name, value in zip(self.__slots__, [*state, None], strict=False):
            object.__setattr__(self, name, value)


class LogSource(Source):
    """Reads a topic; the records' timestamps become event times.

    ``start`` counts for partitions without a restored position.  With ``end`` the source is bounded: it
    stops at the offsets found when the job starts.  ``on_truncated`` says what to do if retention has
    overtaken the job: ``"error"``, or go on at the ``"earliest"`` record left.  ``on_error`` says what to do
    with values that the format cannot decode: ``"fail"``, ``"skip"``, or ``"divert"`` them to the side output
    ``divert_to``, an ``OutputTag``.
    """

    def __init__(
        self,
        root: str | Path,
        topic: str,
        value_format: Any,
        start: LogOffsets | None = None,
        end: LogOffsets | None = None,
        on_truncated: OnTruncated | str = OnTruncated.ERROR,
        on_error: OnError | str = OnError.FAIL,
        divert_to: Any = None,
    ) -> None:
        self._root = str(root)
        self._topic = topic
        self._format = as_format(value_format)
        self._start = start or LogOffsets.earliest()
        self._end = end
        self._on_truncated = OnTruncated(on_truncated)
        self._policy = ErrorPolicy.of(on_error, divert_to)
        self.diverts_to = self._policy.tag
        self.bounded = end is not None

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        topic = self._open()
        starts = self._start.resolve(topic)
        ends = [None] * topic.partitions if self._end is None else self._end.resolve(topic)
        ranges = map(PartitionRange, range(topic.partitions), starts, ends, repeat(topic.id))
        return FixedSplits(Split(f"{self._topic}-{part.partition}", part) for part in ranges)

    def from_end(self, split: Split) -> Split:
        part: PartitionRange = split.info
        start = LogOffsets.latest().resolve(self._open())[part.partition]
        if part.end is not None:
            start = min(start, part.end)
        return replace(split, info=replace(part, start=start))

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        part: PartitionRange = split.info
        topic = self._open()
        offset, part = self._in_topic(topic, part, position)
        where = f"topic {topic.name!r} partition {part.partition}, offset"
        bad = BadRecords(self._policy, topic.name, split.id, where)
        is_another = part.topic_id != split.info.topic_id
        return _LogReader(topic, part, offset, self._format, self._on_truncated, bad, is_another)

    def _in_topic(self, topic: Topic, part: PartitionRange, position: Any) -> tuple[int, PartitionRange]:
        """The offset to read from; a topic made anew since is an error, or read from its beginning."""
        if isinstance(position, tuple):  # in a topic that was made anew before
            position, known = position
        else:
            known = part.topic_id
        offset = part.start if position is None else int(position)
        if known is None or topic.id == known:
            return offset, replace(part, topic_id=known)
        if self._on_truncated is OnTruncated.ERROR:
            raise OffsetTruncatedError(
                f"the topic {topic.name!r} was deleted and made anew: the job was at offset {offset} of the "
                "old one, and what it had not read of it is gone. To read the new one from its beginning, "
                'give on_truncated="earliest", or give the source a new uid'
            )
        _log.error(
            "DATA LOSS: the topic %r was deleted and made anew; what was not read of the old one is gone, "
            "and the new one is read from its beginning",
            topic.name,
        )
        return 0, replace(part, topic_id=topic.id)

    def end_offset(self, split: Split) -> int:
        part: PartitionRange = split.info
        end = LogOffsets.latest().resolve(self._open())[part.partition]
        return end if part.end is None else min(end, part.end)

    def between(self, split: Split, start: AtTime | AtOffset | None, end: int | None) -> Split:
        part: PartitionRange = split.info
        begin = part.start
        if isinstance(start, AtTime):
            begin = LogOffsets.timestamp(start.ms).resolve(self._open())[part.partition]
        elif start is not None:
            begin = start.offset
        return replace(split, info=replace(part, start=begin, end=part.end if end is None else end))

    def check(self) -> None:
        self._open()

    def _open(self) -> Topic:
        return Log(self._root).topic(self._topic)


class _LogReader(SplitReader):
    def __init__(
        self,
        topic: Topic,
        part: PartitionRange,
        offset: int,
        value_format: ValueFormat,
        on_truncated: OnTruncated,
        bad: BadRecords,
        is_another: bool,
    ) -> None:
        self._bad = bad
        self._topic_id = part.topic_id if is_another else None
        self._reader = topic.reader(part.partition, on_truncated)
        self._tail = TailLook(topic.partition_path(part.partition))
        self._end = part.end
        self._offset = offset
        self._format = value_format

    def poll(self, max_rows: int) -> Batch | None:
        if self._end is not None:
            max_rows = min(max_rows, self._end - self._offset)
            if max_rows <= 0:
                raise EndOfSplit
        read = self._reader.read(self._offset, max_rows)
        if read.num_rows == 0:
            return None
        batch = self._decode(self._within_end(read))
        self._offset = read.column(0)[-1].as_py() + 1
        return batch

    def position(self) -> Any:
        return self._offset if self._topic_id is None else (self._offset, self._topic_id)

    def pending(self) -> int | None:
        end = self._tail.end_offset()
        if end is None:
            return None
        return max(0, (end if self._end is None else min(end, self._end)) - self._offset)

    def close(self) -> None:
        self._reader.close()
        self._tail.close()

    def _within_end(self, read: pa.RecordBatch) -> pa.RecordBatch:
        """Without what lies behind the end: reading may have gone on ahead, at the earliest record left."""
        first = read.column(0)[0].as_py()
        if self._end is None or first + read.num_rows <= self._end:
            return read
        return read.slice(0, max(self._end - first, 0))

    def take_diverted(self) -> list[Diverted]:
        return self._bad.take()

    def _decode(self, read: pa.RecordBatch) -> Batch | None:
        offsets, values = read.column(0), read.column(3)

        def decode(start: int, stop: int) -> Records:
            return self._format.decode(values.slice(start, stop - start))

        def at(index: int) -> tuple[int, bytes]:
            return offsets[index].as_py(), values[index].as_py()

        return decode_batch(decode, read.column(1).to_numpy(), self._bad, at, self._format.skips_none)
