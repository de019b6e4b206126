"""Other people's sources with something about them changed: the parts that change nothing.

Whoever changes something derives from one of these and overrides just that.

One is here: a piece of another source, cut out by event time, from a time on, up to a time, or both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from penstock.connectors.source import AtOffset, AtTime, Source, Split, SplitEnumerator, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.errors import TimestampError
from penstock.core.ids import MIN_TIME
from penstock.core.metrics import MetricGroup
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.formats.bad_records import Diverted

_CUT_OUT_PER_POLL = 8
"""How many batches outside the piece one poll passes: one that brings nothing makes the task wait a while."""


class WrappedSource(Source):
    """Another source with something about it changed; splits, positions and snapshots are the other's."""

    def __init__(self, source: Source) -> None:
        self.wrapped = source
        self.bounded = source.bounded
        self.read_in_order = source.read_in_order
        self.ids_last = source.ids_last
        self.reports_finished = source.reports_finished
        self.discovery_interval_ms = source.discovery_interval_ms
        self.diverts_to = source.diverts_to

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return self.wrapped.create_enumerator(parallelism)

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        return self.wrapped.open_split(split, position, clock)

    def reads_in_order(self, split: Split) -> bool:
        return self.wrapped.reads_in_order(split)

    def awaits_end(self, split: Split) -> bool:
        return self.wrapped.awaits_end(split)

    def holds_time(self, split: Split) -> bool:
        return self.wrapped.holds_time(split)

    def check(self) -> None:
        self.wrapped.check()

    def from_end(self, split: Split) -> Split:
        return self.wrapped.from_end(split)

    def end_offset(self, split: Split) -> int | None:
        return self.wrapped.end_offset(split)

    def between(self, split: Split, start: AtTime | AtOffset | None, end: int | None) -> Split:
        return self.wrapped.between(split, start, end)

    def produced_type(self) -> Any | None:
        return self.wrapped.produced_type()


class ChangedSplits(SplitEnumerator):
    """Another enumerator whose splits are changed before they are dealt."""

    def __init__(self, inner: SplitEnumerator) -> None:
        self._inner = inner

    def change(self, split: Split) -> Split:
        """What is dealt in place of ``split``."""
        return split

    def discover(self) -> Iterable[Split]:
        return [self.change(split) for split in self._inner.discover()]

    def is_exhausted(self) -> bool:
        return self._inner.is_exhausted()

    def expects_splits(self) -> bool:
        return self._inner.expects_splits()

    def on_finished(self, split_ids: Iterable[str]) -> None:
        self._inner.on_finished(split_ids)

    def snapshot(self) -> Any:
        return self._inner.snapshot()

    def restore(self, state: Any) -> None:
        self._inner.restore(state)


class WrappedReader(SplitReader):
    """Another reader, as it is."""

    def __init__(self, reader: SplitReader) -> None:
        self._reader = reader

    def poll(self, max_rows: int) -> Batch | None:
        return self._reader.poll(max_rows)

    def position(self) -> Any:
        return self._reader.position()

    def next_poll_ms(self) -> int | None:
        return self._reader.next_poll_ms()

    def take_diverted(self) -> list[Diverted]:
        return self._reader.take_diverted()

    def pending(self) -> int | None:
        return self._reader.pending()

    def show(self, group: MetricGroup) -> None:
        self._reader.show(group)

    def on_checkpoint_complete(self, position: Any) -> None:
        self._reader.on_checkpoint_complete(position)

    def close(self) -> None:
        self._reader.close()


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
