"""A piece of another source, cut out by event time: from a time on, up to a time, or both."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.connectors.combinators.source_wrapper import ChangedSplits, WrappedReader, WrappedSource
from penstock.connectors.source import AtTime, Source, Split, SplitEnumerator, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.errors import TimestampError
from penstock.core.ids import MIN_TIME
from penstock.event_time.watermark_strategy import WatermarkStrategy

_CUT_OUT_PER_POLL = 8
"""How many batches outside the piece one poll passes: one that brings nothing makes the task wait a while."""


class CutSource(WrappedSource):
    """Records of a source whose event times are from ``start_ms`` on and before ``end_ms``.

    A source that knows the times of its records is not read from its beginning; its own timestamps must
    then not be before the event times.  A stream without times cannot be cut, and fails.
    """

    def __init__(
        self, source: Source, strategy: WatermarkStrategy, start_ms: int | None, end_ms: int | None
    ) -> None:
        super().__init__(source)
        self._strategy = strategy
        self._start_ms = start_ms
        self._end_ms = end_ms

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        inner = super().create_enumerator(parallelism)
        return inner if self._start_ms is None else _FromTime(inner, self.wrapped, AtTime(self._start_ms))

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        reader = super().open_split(split, position, clock)
        return _StrictCutReader(reader, self._strategy, self._start_ms, self._end_ms)


class _FromTime(ChangedSplits):
    def __init__(self, inner: SplitEnumerator, source: Source, start: AtTime) -> None:
        super().__init__(inner)
        self._source = source
        self._start = start

    def change(self, split: Split) -> Split:
        return self._source.between(split, self._start, None)


class CutReader(WrappedReader):
    """Leaves out records whose event times are not within the piece; those without a time are all there."""

    def __init__(
        self, reader: SplitReader, strategy: WatermarkStrategy, start_ms: int | None, end_ms: int | None
    ) -> None:
        super().__init__(reader)
        self._extractor = strategy.extractor
        self._start = MIN_TIME if start_ms is None else start_ms
        self._end = end_ms

    def poll(self, max_rows: int) -> Batch | None:
        for _ in range(_CUT_OUT_PER_POLL):
            batch = super().poll(max_rows)
            if batch is None:
                return None
            left = self._cut(batch)
            if len(left):
                return left
        return None

    def _cut(self, batch: Batch) -> Batch:
        times = batch.times if self._extractor is None or not len(batch) else self._extractor.times(batch)
        if times is None:
            return self._without_times(batch)
        inside = (times >= self._start) | (times == MIN_TIME)
        if self._end is not None:
            inside &= times < self._end
        return batch if inside.all() else batch.take(np.flatnonzero(inside))

    def _without_times(self, batch: Batch) -> Batch:
        return batch


class _StrictCutReader(CutReader):
    def _without_times(self, batch: Batch) -> Batch:
        if not len(batch):
            return batch
        raise TimestampError(
            "the records have no event times, so it cannot be told which of them are before the switching "
            "time of a backfill and which behind it; name the column that holds them (--time-column), or "
            "give the source a WatermarkStrategy with a timestamp assigner or a timestamp column"
        )
