"""An operator with two inputs as one with a single input, so that ``verify`` can run it.

Values are pairs ``(side, value)``; columns name their side in the column ``side``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import Any

from penstock.core.batch import Batch
from penstock.core.ids import Epoch, EventTime
from penstock.operators.operator import Operator, OperatorContext

LEFT, RIGHT = 0, 1


class TwoInputs(Operator):
    """Passes everything on to the operator that ``make`` gives; rows go to the input they name."""

    def __init__(self, make: Callable[[], Operator]) -> None:
        self._inner = make()

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._inner.open(ctx)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        rows, times, keys = batch.to_rows(), batch.time_list(), batch.key_list()
        records = zip([row[0] for row in rows], [row[1] for row in rows], times, keys, strict=True)
        for side, run in groupby(records, key=itemgetter(0)):
            _, values, run_times, run_keys = zip(*run, strict=True)
            self._inner.process(Batch.of_rows(list(values), list(run_times), list(run_keys)), side)

    def on_watermark(self, time: EventTime) -> None:
        self._inner.on_watermark(time)

    def prepare_barrier(self, epoch: Epoch) -> None:
        self._inner.prepare_barrier(epoch)

    def on_processing_time(self, now_ms: int) -> None:
        self._inner.on_processing_time(now_ms)

    def next_processing_time(self) -> int | None:
        return self._inner.next_processing_time()

    def finish(self) -> None:
        self._inner.finish()

    def close(self) -> None:
        self._inner.close()

    def current_record(self) -> Any:
        return self._inner.current_record()
