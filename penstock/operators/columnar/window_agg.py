"""Tumbling and sliding event-time windows with columnar aggregates and the default trigger.

Records live in panes (see :mod:`panes`), a pane in immutable Arrow chunks (see
:mod:`penstock.state.chunks`).  There are no timers per key: the panes that hold data say which windows a
watermark makes due, and all keys of a window fire together, as one batch.

Same results as the row window operator, with one difference in form: a record that is late but allowed
fires its windows again at the end of its batch, not once per record, with the full contents of the keys
that the batch touched.

Invariant, on which snapshots rely: between two calls, every row in the store has been emitted by every
window that the watermark has passed.  (No snapshot is taken while the operator is suspended.)

Merged panes of overlapping windows are kept while the window moves on, for all keys at once: the idea of
:class:`penstock.operators.window.running.Running`, with tables in place of accumulators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.errors import ConfigError
from penstock.core.ids import MIN_TIME, EventTime
from penstock.core.metrics import LATE_COUNTER, Counter
from penstock.operators.columnar.aggregates import ROWS, Aggregate
from penstock.operators.columnar.fold import Folder
from penstock.operators.columnar.panes import Mask, Panes
from penstock.operators.columnar.plan import AggregatePlan, columns_of, event_times
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.outflow import pieces
from penstock.state.chunks import PANE, Chunk, ChunkStore, split

Merge = Callable[[Sequence[pa.Table]], pa.Table]
ReadPane = Callable[[int], Sequence[pa.Table]]


class RunningMerge:
    """The merge of the panes of one window after the other.

    Before a boundary the merge of each suffix of panes is at hand, behind it one merge that new panes go
    into.  It is derived from the store and no state; whoever changes a pane that is part of it calls
    :meth:`touch`.
    """

    def __init__(self, panes: Panes, merge: Merge, read: ReadPane) -> None:
        self._panes = panes
        self._merge = merge
        self._read = read
        self.reset()

    def reset(self) -> None:
        """Forget everything: begin with the stored panes at the next window."""
        self._suffixes: list[tuple[int, pa.Table]] = []
        self._rest: list[pa.Table] = []
        self._boundary: int = MIN_TIME
        self._until: int = MIN_TIME

    def touch(self, pane: int) -> None:
        """A pane is about to change."""
        if pane < self._until:
            self.reset()

    def at(self, window: int) -> pa.Table:
        """All panes of a window, merged; at least one of them holds rows."""
        start, end = self._panes.bounds(window)
        if start > self._boundary or end < self._until:
            self._start_over(start, end)
        else:
            fresh = self._tables(self._until, end)
            if fresh:
                self._rest = [self._merge([*self._rest, *fresh])]
            self._until = end
            while self._suffixes and self._suffixes[-1][0] < start:
                self._suffixes.pop()
        parts = [table for _, table in self._suffixes[-1:]] + self._rest
        return parts[0] if len(parts) == 1 else self._merge(parts)

    def _start_over(self, start: int, end: int) -> None:
        self.reset()
        width = self._panes.width
        for pane in range(end - width, start - 1, -width):
            tables = list(self._read(pane))
            if tables:
                later = [table for _, table in self._suffixes[-1:]]
                self._suffixes.append((pane, self._merge([*tables, *later])))
        self._boundary = self._until = end

    def _tables(self, low: int, high: int) -> list[pa.Table]:
        return [table for pane in range(low, high, self._panes.width) for table in self._read(pane)]


STATE_NAME = "window-partials"
_BATCH_ROWS = 65536


class ColumnarInput(Enum):
    """What arrives at the window operator."""

    RECORDS = "records"
    """Raw records with event times."""
    PARTIALS = "partials"
    """What a :class:`PreAggregateOperator` with the same arguments emitted."""


class ColumnarWindowOperator(Operator):
    """Aggregates named columns per key and window; emits key columns, window bounds, results.

    ``late_tag`` sends records that come too late to that side output and therefore needs
    ``ColumnarInput.RECORDS``; without it they are dropped and counted in ``numLateRecordsDropped``.
    """

    _store: ChunkStore
    _late: Counter

    def __init__(
        self,
        keys: Sequence[str],
        panes: Panes,
        aggregates: Sequence[Aggregate],
        *,
        accepts: ColumnarInput = ColumnarInput.RECORDS,
        allowed_lateness: int = 0,
        late_tag: str | None = None,
        null_is_key: bool = False,
    ) -> None:
        if allowed_lateness < 0:
            raise ConfigError(f"the allowed lateness must not be negative, but is {allowed_lateness} ms")
        if late_tag is not None and accepts is ColumnarInput.PARTIALS:
            raise ConfigError("a side output for late records needs the records: leave out pre-aggregation")
        self._plan = AggregatePlan(keys, aggregates, null_is_key)
        self._panes = panes
        self._folder = Folder(self._plan, panes)
        self._accepts = accepts
        self._lateness = allowed_lateness
        self._late_tag = late_tag

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        plan = self._plan
        self._late = ctx.metrics.counter(LATE_COUNTER)
        most, divided = ctx.info.max_parallelism, self._panes.described
        self._store = ChunkStore(STATE_NAME, plan.keys, plan.columns, plan.merge, most, divided)
        ctx.keyed.register_chunks(STATE_NAME, self._store)
        self._running = RunningMerge(self._panes, plan.merge, self._tables)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Store the records, and fire again the windows they come late to."""
        if not len(batch):
            return
        partials = self._from_records(batch) if self._accepts is ColumnarInput.RECORDS else self._taken(batch)
        if partials is None:
            return
        self.work(self._store_and_fire(self._by_pane(partials)))

    def _by_pane(self, partials: pa.Table) -> dict[int, pa.Table]:
        """Partials as the store keeps them."""
        known = self._store.schema
        fresh = {pane: self._store.conform(rows) for pane, rows in split(partials, PANE, self._panes.width)}
        if self._store.schema is not known:
            self._running.reset()  # what it has merged has other types
        return fresh

    def _store_and_fire(self, fresh: dict[int, pa.Table]) -> Iterator[None]:
        yield from self._fire_again(fresh)
        for pane, rows in fresh.items():
            self._running.touch(pane)
            self._store.append(pane, rows)

    def on_watermark(self, time: EventTime) -> None:
        """Fire the windows that end, forget the panes that no window needs, pass the watermark on."""
        self.work(self._advance(time))

    def _advance(self, time: EventTime) -> Iterator[None]:
        store = self._store
        for start in self._panes.due(store.panes(), store.watermark, time):
            yield from self._fire(start)
        store.advance(time)
        for pane in store.panes():
            if not self._panes.is_late(pane, self._lateness, time):
                break
            store.drop(pane)
        self.ctx.out.watermark(time)

    def forget_keys(self) -> None:
        super().forget_keys()
        self._running.reset()

    def _from_records(self, batch: Batch) -> pa.Table | None:
        """Partials of the records that are not late."""
        columns, times = columns_of(batch, self._plan.inputs), event_times(batch)
        verdict = self._panes.judge(times, self._lateness, self._store.watermark)
        if verdict is not None:
            late, keep = verdict
            if late.any():
                self._divert(batch, late)
            if not keep.any():
                return None
            columns, times = columns.filter(pa.array(keep)), times[keep]
        return self._folder.fold(columns, times)[0]

    def _taken(self, batch: Batch) -> pa.Table | None:
        """The partials of an upstream pre-aggregation that are not late."""
        columns = columns_of(batch, (*self._plan.columns, PANE))
        self._plan.require_partials(columns)
        table = pa.Table.from_batches([columns])
        panes = columns.column(PANE).to_numpy()
        verdict = self._panes.judge(panes, self._lateness, self._store.watermark)
        if verdict is None:
            return table
        late, keep = verdict
        self._late.inc(int(columns.column(ROWS).to_numpy()[late].sum()))
        return table.filter(pa.array(keep)) if keep.any() else None

    def _divert(self, batch: Batch, late: Mask) -> None:
        if self._late_tag is None:
            self._late.inc(int(late.sum()))
        else:
            self.ctx.out.side(self._late_tag, batch.take(np.flatnonzero(late)))

    def _fire_again(self, fresh: dict[int, pa.Table]) -> Iterator[None]:
        """Emit the windows that have fired already and get ``fresh`` rows, which are not stored yet."""
        if not self._lateness:
            return
        panes, watermark = self._panes, self._store.watermark
        passed = {
            start for pane in fresh for start in panes.windows_of(pane) if panes.max_time(start) <= watermark
        }
        for start in sorted(passed):
            if panes.cleanup_time(start, self._lateness) > watermark:
                touched = [fresh[pane] for pane in panes.of_window(start) if pane in fresh]
                rest = [chunk.table for chunk in self._contents(start)]
                yield from self._emit(start, self._plan.merge_touched(rest, touched))

    def _fire(self, start: int) -> Iterator[None]:
        """Emit a window that the watermark passes, except keys that it was emitted for before a restore."""
        if self._panes.per_window > 1:
            for pane in self._panes.of_window(start):
                self._store.compact(pane)
        if self._panes.slide < self._panes.size and not self._holds_restored(start):
            yield from self._emit(start, self._running.at(start))
            return
        self._running.reset()
        chunks = self._contents(start)
        pending = [chunk.table for chunk in chunks if chunk.fired_to < self._panes.max_time(start)]
        if not pending:
            return
        if len(pending) == len(chunks):
            yield from self._emit(start, self._plan.merge(pending))
        else:
            done = [chunk.table for chunk in chunks if chunk.fired_to >= self._panes.max_time(start)]
            yield from self._emit(start, self._plan.merge_touched(done, pending))

    def _contents(self, start: int) -> list[Chunk]:
        """The window's chunks, without rows that were in it when it was cleaned up before a restore."""
        closes = self._panes.cleanup_time(start, self._lateness)
        chunks = (chunk for pane in self._panes.of_window(start) for chunk in self._store.chunks(pane))
        return [chunk for chunk in chunks if chunk.fired_to < closes]

    def _holds_restored(self, start: int) -> bool:
        """Whether the window has rows that event time has not caught up with since a restore."""
        return any(
            chunk.fired_to != MIN_TIME
            for pane in self._panes.of_window(start)
            for chunk in self._store.chunks(pane)
        )

    def _tables(self, pane: int) -> list[pa.Table]:
        return [chunk.table for chunk in self._store.chunks(pane)]

    def _emit(self, start: int, merged: pa.Table) -> Iterator[None]:
        result = self._plan.finish(merged, *self._panes.bounds(start))
        for columns in result.combine_chunks().to_batches(_BATCH_ROWS):
            times = np.full(columns.num_rows, self._panes.max_time(start), np.int64)
            for piece in pieces(Batch.of_columns(columns, times), self.ctx):
                self.ctx.out.emit(piece)
                yield
