"""Names of columns that would hide one another in a join are refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.batch import Batch
from penstock.core.errors import ConfigError
from penstock.operators.columnar.panes import Panes
from penstock.operators.join.columnar import ColumnarIntervalJoinOperator, ColumnarWindowJoinOperator
from penstock.operators.join.columns import ColumnJoin
from penstock.operators.join.functions import JoinKind
from penstock.operators.join.interval import Interval
from penstock.testing.operator_run import OperatorRun


def of(**columns: list[int]) -> Batch:
    return Batch.of_columns(pa.record_batch(columns), np.ones(1, np.int64), ("k",))


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("name", ["window_start", "window_end"])
def test_a_window_hides_no_column_of_a_stream(name: str, side: int) -> None:
    join = ColumnJoin(("k",), ("k",), ("_l", "_r"))
    (operator,) = OperatorRun(lambda: ColumnarWindowJoinOperator(join, Panes.tumbling(10))).operators
    operator.process(of(k=[1], **{name: [-1]}), side)
    operator.process(of(k=[1], v=[2]), 1 - side)
    with pytest.raises(ConfigError, match=f"two columns '{name}'.*rename that of the stream"):
        operator.on_watermark(100)  # type: ignore[arg-type]


def test_a_key_is_not_hidden_either_nor_in_what_is_alone() -> None:
    schemas = pa.schema([("window_end", pa.int64())]), pa.schema([("k", pa.int64())])
    join = ColumnJoin(("window_end",), ("k",), ("_l", "_r"), JoinKind.FULL, schemas)
    (operator,) = OperatorRun(lambda: ColumnarWindowJoinOperator(join, Panes.tumbling(10))).operators
    operator.process(of(k=[1]), 1)
    with pytest.raises(ConfigError, match="two columns 'window_end'"):
        operator.on_watermark(100)  # type: ignore[arg-type]


def test_both_sides_may_have_windows_if_they_are_told_apart() -> None:
    join = ColumnJoin(("k",), ("k",), ("_l", "_r"))
    trial = OperatorRun(lambda: ColumnarWindowJoinOperator(join, Panes.tumbling(10)))
    for side in (0, 1):
        trial.operators[0].process(of(k=[1], window_start=[side]), side)
    trial.finish()
    assert [result.value.as_dict() for result in trial.results] == [
        {"k": 1, "window_start_l": 0, "window_start_r": 1, "window_start": 0, "window_end": 10}
    ]


def test_a_stream_with_two_columns_of_one_name_is_refused() -> None:
    join = ColumnJoin(("k",), ("k",), ("_l", "_r"))
    (operator,) = OperatorRun(lambda: ColumnarIntervalJoinOperator(join, Interval(-5, 5))).operators
    columns = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["k", "v", "v"])
    with pytest.raises(ConfigError, match="two columns 'v'"):
        operator.process(Batch.of_columns(columns, np.ones(1, np.int64), ("k",)), 0)
