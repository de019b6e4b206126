"""The first rows of each group of a window, when it has ended: top-N, and one of each.

Rows lie in panes; when a pane has grown it is thinned to what can still be among the first, so state is
bounded by groups, not by rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.ids import EventTime
from penstock.core.metrics import LATE_COUNTER, Counter
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.plan import WINDOW_END, WINDOW_START, columns_of, event_times
from penstock.operators.columnar.ranking import SortKeys, first_of_each, ranked
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.outflow import pieces
from penstock.state.chunks import PANE, ChunkStore, split

TIME = "$time"
"""The column with event times, for orders that ask for it."""
_STATE = "window-rows"
_BATCH_ROWS = 65536


@dataclass(frozen=True)
class Ranking:
    """The ``most`` first rows by ``order`` of each group ``by``; their rank is shown as ``rank``."""

    by: tuple[str, ...]
    order: SortKeys
    most: int
    rank: str | None = None


class WindowRanksOperator(Operator):
    """Keeps whole rows of ``schema``, keyed by ``keys``; emits them with the bounds of their window."""

    _store: ChunkStore
    _late: Counter

    def __init__(self, schema: pa.Schema, keys: Sequence[str], panes: Panes, ranking: Ranking) -> None:
        self._schema = schema.append(pa.field(TIME, pa.int64()))
        self._keys = tuple(keys)
        self._panes = panes
        self._ranking = ranking

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._late = ctx.metrics.counter(LATE_COUNTER)
        names, parallelism = self._schema.names, ctx.info.max_parallelism
        divided = self._panes.described
        self._store = ChunkStore(_STATE, self._keys, names, self._thinned, parallelism, divided)
        ctx.keyed.register_chunks(_STATE, self._store)

    def _thinned(self, tables: Sequence[pa.Table]) -> pa.Table:
        whole = pa.concat_tables(tables).combine_chunks()
        return first_of_each(whole, self._ranking.by, self._ranking.order, self._ranking.most)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Store the rows that are not late."""
        if not len(batch):
            return
        times = event_times(batch)
        table = pa.Table.from_batches([columns_of(batch, self._schema.names[:-1])])
        table = table.append_column(TIME, pa.array(times))
        table = table.append_column(PANE, pa.array(self._panes.floor(times)))
        verdict = self._panes.judge(times, 0, self._store.watermark)
        if verdict is not None:
            late, keep = verdict
            self._late.inc(int(late.sum()))
            table = table.filter(pa.array(keep))
        for pane, rows in split(table, PANE, self._panes.width):
            self._store.append(pane, self._store.conform(rows.drop_columns([PANE])))

    def on_watermark(self, time: EventTime) -> None:
        """Show the windows that end, forget the panes that no window needs, pass the watermark on."""
        self.work(self._advance(time))

    def _advance(self, time: EventTime) -> Iterator[None]:
        store = self._store
        for window in self._panes.due(store.panes(), store.watermark, time):
            yield from self._fire(window)
        store.advance(time)
        for pane in store.panes():
            if not self._panes.is_late(pane, 0, time):
                break
            store.drop(pane)
        self.ctx.out.watermark(time)

    def _fire(self, window: int) -> Iterator[None]:
        last = self._panes.max_time(window)
        chunks = (chunk for pane in self._panes.of_window(window) for chunk in self._store.chunks(pane))
        # What was there when a snapshot was taken behind this window has been shown.
        found = [chunk.table for chunk in chunks if chunk.fired_to < last]
        if found:
            yield from self._emit(pa.concat_tables(found).combine_chunks(), self._panes.bounds(window), last)

    def _emit(self, whole: pa.Table, bounds: tuple[int, int], last: int) -> Iterator[None]:
        rows, ranks = ranked(whole, self._ranking.by, self._ranking.order)
        among = ranks <= self._ranking.most
        shown = whole.take(pa.array(rows[among])).drop_columns([TIME])
        if self._ranking.rank is not None:
            shown = shown.append_column(self._ranking.rank, pa.array(ranks[among]))
        for name, bound in zip((WINDOW_START, WINDOW_END), bounds, strict=True):
            if name not in shown.schema.names:
                shown = shown.append_column(name, pa.array(np.full(shown.num_rows, bound, np.int64)))
        for columns in shown.combine_chunks().to_batches(_BATCH_ROWS):
            times = np.full(columns.num_rows, last, np.int64)
            for piece in pieces(Batch.of_columns(columns, times), self.ctx):
                self.ctx.out.emit(piece)
                yield
