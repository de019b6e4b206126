"""What happened before the live stream: a bounded source made to look like it, and the two as one.

A record belongs to history if its event time is before the switching time, and to the live stream
otherwise, wherever else it may be as well: so nothing is read twice and nothing falls between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.connectors.combinators.hybrid import HybridSource
from penstock.connectors.combinators.source_wrapper import (
    ChangedSplits,
    CutSource,
    WrappedReader,
    WrappedSource,
)
from penstock.connectors.source import Source, Split, SplitEnumerator, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError, ConnectorError, FormatVersionError
from penstock.event_time.timestamp_assigners import TimestampExtractor
from penstock.event_time.watermark_strategy import WatermarkStrategy


def backfilled(history: Source, live: Source, switch_at_ms: int, strategy: WatermarkStrategy) -> HybridSource:
    """``history`` before the switching time, then ``live`` from it on; ``strategy`` is the stream's own.

    Event time stands still while history is read, so its order does not matter: windows and timers of
    that time wait in state and fire, in order, when the live stream begins.  Once the switch is over,
    snapshots are as if ``live`` had been read alone from that time.
    """
    if not history.bounded:
        raise ConfigError("the history of a backfill must end: give a bounded source")
    before = _Past(history, strategy, None, switch_at_ms)
    after = CutSource(live, strategy, switch_at_ms, None)
    return HybridSource([before, after])


class _Past(CutSource):
    """Files of the past may be read in any order, so nothing is late before all of them are read."""

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        assert self._end_ms is not None
        return _UpTo(super().create_enumerator(parallelism), self._end_ms)

    def holds_time(self, split: Split) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class _Switching:
    """State of the enumerator of a history: what was read was cut at this time."""

    at_ms: int
    inner: Any


class _UpTo(ChangedSplits):
    def __init__(self, inner: SplitEnumerator, at_ms: int) -> None:
        super().__init__(inner)
        self._at_ms = at_ms

    def snapshot(self) -> Any:
        return _Switching(self._at_ms, super().snapshot())

    def restore(self, state: Any) -> None:
        if isinstance(state, _Switching):
            if state.at_ms != self._at_ms:
                raise FormatVersionError(
                    f"the job has read some of its history up to {state.at_ms} (event time, ms), and is now "
                    f"told to switch at {self._at_ms}: what lies between would be lost, or counted twice. "
                    "Give the time that it was started with, or begin anew under another name"
                )
            state = state.inner
        super().restore(state)


class Shaped(WrappedSource):
    """A columnar source with some of its columns, one of which is the records' timestamps."""

    def __init__(self, source: Source, time_column: str | None, columns: Sequence[str] | None) -> None:
        super().__init__(source)
        self._times = None if time_column is None else TimestampExtractor.of_column(time_column)
        self._time_column = time_column
        self._columns = None if columns is None else list(columns)

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        return _ShapedReader(super().open_split(split, position, clock), self)

    def shape(self, batch: Batch) -> Batch:
        """The batch as the live stream has it."""
        columns, times = batch.columns, batch.times
        if columns is None:
            raise ConnectorError(
                "columns can only be chosen from a history that has some: Parquet, CSV, a table"
            )
        if self._times is not None:
            times = self._times.times(batch)
        return Batch(columns=columns.select(self._chosen(columns)), times=times)

    def _chosen(self, columns: pa.RecordBatch) -> list[str]:
        names: list[str] = columns.schema.names
        if self._columns is None:
            return [name for name in names if name != self._time_column]
        missing = [name for name in self._columns if name not in names]
        if missing:
            raise ConnectorError(
                f"the history has no columns {', '.join(missing)}; it has {', '.join(names)}"
            )
        return self._columns


class _ShapedReader(WrappedReader):
    def __init__(self, reader: SplitReader, shaped: Shaped) -> None:
        super().__init__(reader)
        self._shaped = shaped

    def poll(self, max_rows: int) -> Batch | None:
        batch = super().poll(max_rows)
        return batch if batch is None else self._shaped.shape(batch)
