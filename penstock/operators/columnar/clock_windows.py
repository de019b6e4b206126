"""Windows of the clock with columnar aggregates: a record is in the windows of the moment it arrives at.

The store of event-time windows does it: the clock takes the place of the watermark, and passes it by.
Results have no event time.  When the input ends, the windows that are still open are shown: their rows would
be lost.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.ids import MAX_TIME, EventTime
from penstock.operators.columnar.plan import columns_of
from penstock.operators.columnar.window_agg import ColumnarWindowOperator
from penstock.operators.outflow import pieces

_BATCH_ROWS = 65536


class ColumnarClockWindowOperator(ColumnarWindowOperator):
    """Aggregates named columns per key and window of processing time."""

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Store the records, as of now."""
        if not len(batch):
            return
        # A clock that was set back, or that of another machine before a restore, reopens no window.
        now = max(self.ctx.clock.now_ms(), self._store.watermark + 1)
        columns = columns_of(batch, self._plan.inputs)
        partials = self._folder.fold(columns, np.full(len(batch), now, np.int64))[0]
        for pane, rows in self._by_pane(partials).items():
            self._running.touch(pane)
            self._store.append(pane, rows)

    def on_watermark(self, time: EventTime) -> None:
        """Pass it on; the last one ends all windows."""
        if time == MAX_TIME:
            self.work(self._end(time))
        else:
            self.ctx.out.watermark(time)

    def _end(self, time: EventTime) -> Iterator[None]:
        yield from self._until(time)
        self.ctx.out.watermark(time)

    def on_processing_time(self, now_ms: int) -> None:
        """Show the windows that have ended."""
        self.work(self._until(now_ms - 1))

    def _until(self, time: int) -> Iterator[None]:
        store = self._store
        for start in self._panes.due(store.panes(), store.watermark, time):
            yield from self._fire(start)
        store.advance(time)
        for pane in store.panes():
            if not self._panes.is_late(pane, 0, time):
                break
            store.drop(pane)

    def next_processing_time(self) -> int | None:
        """The end of the first window that holds something."""
        first = next(self._panes.due(self._store.panes(), self._store.watermark, MAX_TIME), None)
        return None if first is None else self._panes.max_time(first) + 1

    def _emit(self, start: int, merged: pa.Table) -> Iterator[None]:
        result = self._plan.finish(merged, *self._panes.bounds(start))
        for columns in result.combine_chunks().to_batches(_BATCH_ROWS):
            for piece in pieces(Batch.of_columns(columns, None), self.ctx):
                self.ctx.out.emit(piece)
                yield
