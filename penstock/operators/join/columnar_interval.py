"""Interval join of columns: a whole batch meets the stored batches of the other side at once.

Records lie in panes of event time at least as wide as the interval, so a batch looks into few of them.
Same pairs, times and late records as the row operator, inner joins only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch, Times
from penstock.core.ids import MIN_TIME, EventTime
from penstock.operators.columnar.plan import event_times
from penstock.operators.join.columns import TIME, ColumnJoin, batches_of, columns_for, stores_of_both
from penstock.operators.join.interval import Interval, Side
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.outflow import LateRecords, LateTags, pieces
from penstock.state.chunks import PANE, split

_NARROWEST_MS = 1000
"""Panes are not narrower than this, or a short interval would make very many of them."""


class ColumnarIntervalJoinOperator(Operator):
    """Joins two streams of columns, keyed by field names; emits the columns of both sides."""

    def __init__(self, join: ColumnJoin, interval: Interval, late_tags: LateTags = (None, None)) -> None:
        self._join = join
        self._interval = interval
        self._late_tags = late_tags
        self._width = max(interval.upper - interval.lower + 1, _NARROWEST_MS)

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._late = LateRecords(ctx, self._late_tags)
        self._stores = stores_of_both(ctx, self._join.keys)

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
        store = self._stores[side]
        paned = table.append_column(PANE, pa.array(times // self._width * self._width))
        for pane, rows in split(paned, PANE, self._width):
            store.append(pane, store.conform(rows.drop_columns([PANE])))

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
        columns: dict[str, Any] = self._join.pick(
            left, right, (left_rows.take(picked), right_rows.take(picked))
        )
        for batch in batches_of(columns, np.maximum(left_times, right_times)[close]):
            for piece in pieces(batch, self.ctx):
                self.ctx.out.emit(piece)
                yield

    def on_watermark(self, time: EventTime) -> None:
        """Forget the panes that nothing new can meet, pass the watermark on."""
        for side, store in zip(Side, self._stores, strict=True):
            store.advance(time)
            for pane in store.panes():
                if pane + self._width - 1 + self._interval.stay(side) > time:
                    break
                store.drop(pane)
        self.ctx.out.watermark(time)
