"""A topic as a source: a split per partition, the next offset as position.

Where to start and, if bounded, where to stop is found out once, by the enumerator, and travels in the
split: so a restored job stops where the first attempt would have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.connectors.log.errors import DecodeError
from penstock.connectors.log.formats import ValueFormat, as_format
from penstock.connectors.log.offsets import LogOffsets
from penstock.connectors.log.reader import OnTruncated
from penstock.connectors.log.topic import Log, Topic
from penstock.connectors.source import EndOfSplit, FixedSplits, Source, Split, SplitEnumerator, SplitReader
from penstock.core.batch import Batch, Times
from penstock.core.clock import Clock
from penstock.core.errors import ConnectorError


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """What a split is about."""

    partition: int
    start: int
    end: int | None
    """Offset to stop before; ``None`` to go on for ever."""


class LogSource(Source):
    """Reads a topic; the records' timestamps become event times.

    ``start`` counts for partitions without a restored position.  With ``end`` the source is bounded: it
    stops at the offsets found when the job starts.  ``on_truncated`` says what to do if retention has
    overtaken the job: ``"error"``, or go on at the ``"earliest"`` record left.
    """

    def __init__(
        self,
        root: str | Path,
        topic: str,
        value_format: Any,
        start: LogOffsets | None = None,
        end: LogOffsets | None = None,
        on_truncated: OnTruncated | str = OnTruncated.ERROR,
    ) -> None:
        self._root = str(root)
        self._topic = topic
        self._format = as_format(value_format)
        self._start = start or LogOffsets.earliest()
        self._end = end
        self._on_truncated = OnTruncated(on_truncated)
        self.bounded = end is not None

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        topic = self._open()
        starts = self._start.resolve(topic)
        ends = [None] * topic.partitions if self._end is None else self._end.resolve(topic)
        ranges = map(PartitionRange, range(topic.partitions), starts, ends)
        return FixedSplits(Split(f"{self._topic}-{part.partition}", part) for part in ranges)

    def from_end(self, split: Split) -> Split:
        part: PartitionRange = split.info
        start = LogOffsets.latest().resolve(self._open())[part.partition]
        if part.end is not None:
            start = min(start, part.end)
        return replace(split, info=replace(part, start=start))

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        part: PartitionRange = split.info
        offset = part.start if position is None else int(position)
        return _LogReader(self._open(), part, offset, self._format, self._on_truncated)

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
    ) -> None:
        self._where = f"topic {topic.name!r} partition {part.partition}"
        self._reader = topic.reader(part.partition, on_truncated)
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
        return batch if len(batch) else None

    def position(self) -> Any:
        return self._offset

    def close(self) -> None:
        self._reader.close()

    def _within_end(self, read: pa.RecordBatch) -> pa.RecordBatch:
        """Without what lies behind the end: reading may have gone on ahead, at the earliest record left."""
        first = read.column(0)[0].as_py()
        if self._end is None or first + read.num_rows <= self._end:
            return read
        return read.slice(0, max(self._end - first, 0))

    def _decode(self, read: pa.RecordBatch) -> Batch:
        times = read.column(1).to_numpy()
        try:
            records = self._format.decode(read.column(3))
        except DecodeError as e:
            offset = read.column(0)[e.index].as_py()
            raise ConnectorError(f"{self._where}, offset {offset}: {e.reason}") from e
        if isinstance(records, pa.RecordBatch):
            return Batch.of_columns(records, times)
        return _without_none(records, times) if self._format.skips_none else Batch.of_rows(records, times)


def _without_none(records: list[Any], times: Times) -> Batch:
    kept = [index for index, record in enumerate(records) if record is not None]
    if len(kept) == len(records):
        return Batch.of_rows(records, times)
    return Batch.of_rows([records[index] for index in kept], times[np.array(kept, np.int64)])
