"""Window join of columns: tumbling and sliding event-time windows, all keys of a window at once.

Records of each side lie in panes, as in columnar aggregation; a window that the watermark passes joins
the panes it is made of.  Same pairs, times and late records as the row operator, inner joins only.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.ids import EventTime
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.plan import WINDOW_END, WINDOW_START, event_times
from penstock.operators.join.columns import ColumnJoin, RowChunks, batches_of, columns_for, stores_of_both
from penstock.operators.join.interval import Side
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.outflow import LateRecords, LateTags, pieces
from penstock.state.chunks import PANE, split


class ColumnarWindowJoinOperator(Operator):
    """Joins two streams of columns, keyed by field names; emits both sides' columns and the window."""

    def __init__(self, join: ColumnJoin, panes: Panes, late_tags: LateTags = (None, None)) -> None:
        self._join = join
        self._panes = panes
        self._late_tags = late_tags

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._late = LateRecords(ctx, self._late_tags)
        self._stores = stores_of_both(ctx, self._join.keys)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        if not len(batch):
            return
        store, panes = self._stores[input_index], self._panes
        times = event_times(batch)
        table = columns_for(batch, self._join.keys[input_index])
        table = table.append_column(PANE, pa.array(panes.floor(times)))
        verdict = panes.judge(times, 0, store.watermark)
        if verdict is not None:
            late, keep = verdict
            table = table.filter(pa.array(keep))
            if late.any():
                self._late.send(input_index, batch.take(np.flatnonzero(late)))
        for pane, rows in split(table, PANE, panes.width):
            store.append(pane, store.conform(rows.drop_columns([PANE])))

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
        for batch in batches_of(columns, np.full(count, self._panes.max_time(start), np.int64)):
            for piece in pieces(batch, self.ctx):
                self.ctx.out.emit(piece)
                yield

    def _contents(self, store: RowChunks, start: int) -> pa.Table | None:
        """The rows of one side of a window, without those that it was joined with before a restore."""
        chunks = (chunk for pane in self._panes.of_window(start) for chunk in store.chunks(pane))
        found = [chunk.table for chunk in chunks if chunk.fired_to < self._panes.max_time(start)]
        return pa.concat_tables(found) if found else None
