"""Pairs of columns are made as they leave, not all at once: a window may have millions of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.batch import Batch
from penstock.operators.columnar.panes import Panes
from penstock.operators.join.columnar import ColumnarIntervalJoinOperator, ColumnarWindowJoinOperator
from penstock.operators.join.columns import ColumnJoin
from penstock.operators.join.interval import Interval
from penstock.operators.operator import Operator
from penstock.testing.operator_run import Collector, OperatorRun

ROWS, TEXT = 60, 20_000
JOIN = ColumnJoin(("k",), ("k",), ("_l", "_r"))
JOINS: dict[str, Callable[[], Operator]] = {
    "interval": lambda: ColumnarIntervalJoinOperator(JOIN, Interval(-5, 5)),
    "window": lambda: ColumnarWindowJoinOperator(JOIN, Panes.tumbling(10)),
}


class Watching(Collector):
    """Looks at the memory that columns take when results leave."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs = self.most_bytes = 0

    def emit(self, batch: Batch) -> None:
        self.pairs += len(batch)
        self.most_bytes = max(self.most_bytes, pa.total_allocated_bytes())


@pytest.mark.parametrize("how", JOINS)
def test_pairs_of_large_rows_are_made_a_few_at_a_time(how: str) -> None:
    out = Watching()
    (operator,) = OperatorRun(JOINS[how], out=out).operators
    before = pa.total_allocated_bytes()
    for side in (0, 1):
        columns = pa.record_batch({"k": ["a"] * ROWS, "text": ["x" * TEXT] * ROWS})
        operator.process(Batch.of_columns(columns, np.ones(ROWS, np.int64), ("k",)), side)
    operator.on_watermark(100)  # type: ignore[arg-type]
    assert out.pairs == ROWS * ROWS
    whole = ROWS * ROWS * 2 * TEXT
    assert out.most_bytes - before < whole / 4
