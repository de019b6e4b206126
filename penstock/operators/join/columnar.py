"""Joins of columns: a whole batch, or all keys of a window, at once.

Records of each side lie in panes of event time.  Interval joins have panes at least as wide as the interval,
so a batch looks into few of them.  Window joins (tumbling and sliding event-time windows) have those of
columnar aggregation; a window that the watermark passes joins the panes it is made of.

Same pairs, times and late records as the row operators, inner joins only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch, Times
from penstock.core.ids import MIN_TIME, EventTime
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.plan import WINDOW_END, WINDOW_START, event_times
from penstock.operators.join.columns import (
    TIME,
    ColumnJoin,
    RowChunks,
    batches_of,
    columns_for,
    stores_of_both,
)
from penstock.operators.join.interval import Interval, Side
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.outflow import LateRecords, LateTags, pieces
from penstock.state.chunks import PANE, split

_NARROWEST_MS = 1000
"""Panes are not narrower than this, or a short interval would make very many of them."""


class _ColumnarJoin(Operator):
    """Joins two streams of columns, keyed by field names."""

    def __init__(self, join: ColumnJoin, late_tags: LateTags) -> None:
        self._join = join
        self._late_tags = late_tags

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._late = LateRecords(ctx, self._late_tags)
        self._stores = stores_of_both(ctx, self._join.keys)

    def _keep(self, side: int, table: pa.Table, width: int) -> None:
        """Store rows that have a column ``PANE``."""
        store = self._stores[side]
        for pane, rows in split(table, PANE, width):
            store.append(pane, store.conform(rows.drop_columns([PANE])))

    def _emit(self, columns: dict[str, Any], times: Times) -> Iterator[None]:
        for batch in batches_of(columns, times):
            for piece in pieces(batch, self.ctx):
                self.ctx.out.emit(piece)
                yield


class ColumnarIntervalJoinOperator(_ColumnarJoin):
    """Interval join: emits the columns of both sides."""

    def __init__(self, join: ColumnJoin, interval: Interval, late_tags: LateTags = (None, None)) -> None:
        super().__init__(join, late_tags)
        self._interval = interval
        self._width = max(interval.upper - interval.lower + 1, _NARROWEST_MS)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        side = Side(input_index)
        if not len(batch):
            return
        times = event_times(batch)
        late = times < self._stores[side].watermark
        if late.any():
            self._late.send(side, batch.take(np.flatnonzero(late)))
            batch = batch.take(np.flatnonzero(~late))
            times = times[~late]
            if not len(batch):
                return
        table = columns_for(batch, self._join.keys[side]).append_column(TIME, pa.array(times))
        self.work(self._meet_and_store(side, table, times))

    def _meet_and_store(self, side: Side, table: pa.Table, times: Times) -> Iterator[None]:
        yield from self._meet(side, table, times)
        paned = table.append_column(PANE, pa.array(times // self._width * self._width))
        self._keep(side, paned, self._width)

    def _meet(self, side: Side, mine: pa.Table, times: Times) -> Iterator[None]:
        """Emit the pairs of a new batch with what is stored of the other side."""
        lower, upper = self._interval.seen_from(side)
        first, last = times + lower, times + upper
        earliest, latest = int(first.min()), int(last.max())
        for pane in self._stores[1 - side].panes():
            if pane > latest or pane + self._width <= earliest:
                continue
            others = self._alive(Side(1 - side), pane)
            reaching = np.flatnonzero((last >= pane) & (first < pane + self._width))
            if others is not None and len(reaching):
                yield from self._emit_pairs(side, mine.take(pa.array(reaching)), others)

    def _alive(self, side: Side, pane: int) -> pa.Table | None:
        """The stored rows of a pane that have not expired, also not before a restore."""
        store, stay = self._stores[side], self._interval.stay(side)
        found = []
        for chunk in store.chunks(pane):
            expired = max(chunk.fired_to, store.watermark) - stay
            table = chunk.table
            if expired > MIN_TIME and pane <= expired:
                alive = table.column(TIME).to_numpy() > expired
                table = table.filter(pa.array(alive))
            if table.num_rows:
                found.append(table)
        return pa.concat_tables(found) if found else None

    def _emit_pairs(self, side: Side, mine: pa.Table, others: pa.Table) -> Iterator[None]:
        left, right = (mine, others) if side is Side.LEFT else (others, mine)
        left_rows, right_rows = self._join.match(left, right)
        left_times = left.column(TIME).to_numpy()[left_rows.to_numpy()]
        right_times = right.column(TIME).to_numpy()[right_rows.to_numpy()]
        apart = right_times - left_times
        close = (apart >= self._interval.lower) & (apart <= self._interval.upper)
        if not close.any():
            return
        picked = pa.array(np.flatnonzero(close))
        columns = self._join.pick(left, right, (left_rows.take(picked), right_rows.take(picked)))
        yield from self._emit(columns, np.maximum(left_times, right_times)[close])

    def on_watermark(self, time: EventTime) -> None:
        """Forget the panes that nothing new can meet, pass the watermark on."""
        for side, store in zip(Side, self._stores, strict=True):
            store.advance(time)
            for pane in store.panes():
                if pane + self._width - 1 + self._interval.stay(side) > time:
                    break
                store.drop(pane)
        self.ctx.out.watermark(time)


class ColumnarWindowJoinOperator(_ColumnarJoin):
    """Window join: emits the columns of both sides and the window, all keys of it at once."""

    def __init__(self, join: ColumnJoin, panes: Panes, late_tags: LateTags = (None, None)) -> None:
        super().__init__(join, late_tags)
        self._panes = panes

    def process(self, batch: Batch, input_index: int = 0) -> None:
        if not len(batch):
            return
        panes = self._panes
        times = event_times(batch)
        table = columns_for(batch, self._join.keys[input_index])
        table = table.append_column(PANE, pa.array(panes.floor(times)))
        verdict = panes.judge(times, 0, self._stores[input_index].watermark)
        if verdict is not None:
            late, keep = verdict
            table = table.filter(pa.array(keep))
            if late.any():
                self._late.send(input_index, batch.take(np.flatnonzero(late)))
        self._keep(input_index, table, panes.width)

    def on_watermark(self, time: EventTime) -> None:
        """Join the windows that end, forget the panes that no window needs, pass the watermark on."""
        self.work(self._advance(time))

    def _advance(self, time: EventTime) -> Iterator[None]:
        left, panes = self._stores[Side.LEFT], self._panes
        for start in panes.due(left.panes(), left.watermark, time):
            yield from self._fire(start)
        for store in self._stores:
            store.advance(time)
            for pane in store.panes():
                if not panes.is_late(pane, 0, time):
                    break
                store.drop(pane)
        self.ctx.out.watermark(time)

    def _fire(self, start: int) -> Iterator[None]:
        left, right = (self._contents(store, start) for store in self._stores)
        if left is None or right is None:
            return
        rows = self._join.match(left, right)
        count = len(rows[0])
        if not count:
            return
        columns = self._join.pick(left, right, rows)
        columns[WINDOW_START] = np.full(count, start, np.int64)
        columns[WINDOW_END] = np.full(count, start + self._panes.size, np.int64)
        yield from self._emit(columns, np.full(count, self._panes.max_time(start), np.int64))

    def _contents(self, store: RowChunks, start: int) -> pa.Table | None:
        """The rows of one side of a window, without those that it was joined with before a restore."""
        chunks = (chunk for pane in self._panes.of_window(start) for chunk in store.chunks(pane))
        found = [chunk.table for chunk in chunks if chunk.fired_to < self._panes.max_time(start)]
        return pa.concat_tables(found) if found else None
