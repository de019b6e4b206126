"""Keys of columns of different types meet where Python holds them equal, as keys of rows do."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.batch import Batch
from penstock.core.errors import KeyError_
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.operators.columnar.panes import Panes
from penstock.operators.join.cogroup import window_join
from penstock.operators.join.columnar import ColumnarIntervalJoinOperator, ColumnarWindowJoinOperator
from penstock.operators.join.columnar_temporal import ColumnarTemporalJoinOperator
from penstock.operators.join.columns import ColumnJoin
from penstock.operators.join.functions import JoinKind
from penstock.operators.join.interval import Interval, IntervalJoinOperator
from penstock.operators.join.temporal import TemporalJoinOperator
from penstock.operators.operator import Operator
from penstock.testing.operator_run import OperatorRun, owners_of

NAN = float("nan")
BIG = 2**60 + 1
DAY = dt.datetime(2024, 1, 1)  # noqa: DTZ001
MICRO = DAY + dt.timedelta(microseconds=1)
TYPES: dict[str, tuple[pa.DataType, list[Any], pa.DataType, list[Any]]] = {
    "small and large integers": (pa.int32(), [1, 2], pa.int64(), [1, 2**40, 2]),
    "more than fits": (pa.int64(), [1, -1], pa.uint64(), [1, 2**64 - 1]),
    "integers and doubles": (pa.int64(), [1, 2, BIG], pa.float64(), [1.0, 1.5, float(BIG), NAN]),
    "doubles and integers": (pa.float64(), [1.0, NAN, float(2**60)], pa.int64(), [1, BIG, 2**60]),
    "floats": (pa.float32(), [0.5, -0.0, NAN], pa.float64(), [0.5, 0.1, 0.0, NAN]),
    "truth and numbers": (pa.bool_(), [True, False], pa.int64(), [1, 2, 0]),
    "decimals": (pa.int64(), [1, 2], pa.decimal128(6, 2), [Decimal("1.00"), Decimal("1.50")]),
    "moments": (pa.timestamp("ms"), [DAY], pa.timestamp("us"), [DAY, MICRO]),
    "texts": (pa.string(), ["a", "b"], pa.large_string(), ["b", "c"]),
}


def both(left: Any, right: Any) -> Any:
    return (left, right)


OPERATORS: dict[str, tuple[Any, Any]] = {
    "interval": (
        lambda join: ColumnarIntervalJoinOperator(join, Interval(-5, 5)),
        lambda: IntervalJoinOperator(both, Interval(-5, 5)),
    ),
    "window": (
        lambda join: ColumnarWindowJoinOperator(join, Panes(100, 100)),
        lambda: window_join(TumblingEventTimeWindows.of(100), both, JoinKind.INNER),
    ),
    "temporal": (ColumnarTemporalJoinOperator, lambda: TemporalJoinOperator(both)),
}


def columns(kind: pa.DataType, keys: list[Any], side: str) -> Batch:
    named = {"k": pa.array(keys, kind), side: pa.array(range(len(keys)))}
    times = pa.array([10] * len(keys)).to_numpy()
    return Batch.of_columns(pa.record_batch(named), times, ("k",))


def rows(kind: pa.DataType, keys: list[Any], side: str) -> Batch:
    batch = columns(kind, keys, side)
    return Batch.of_rows(list(range(len(keys))), [10] * len(keys), batch.key_list())


def pairs(make: Any, left: Batch, right: Batch) -> Counter[tuple[int, int]]:
    """Which record met which, over two subtasks."""
    trial = OperatorRun(make, 2)
    for side, batch in ((1, right), (0, left)):
        owners = owners_of(batch.key_list(), 2)
        for number, operator in enumerate(trial.operators):
            mine = (owners == number).nonzero()[0]
            if len(mine):
                operator.process(batch.take(mine), side)
    trial.finish()
    found = [result.value for result in trial.results]
    return Counter(it if isinstance(it, tuple) else (it["left"], it["right"]) for it in found)


@pytest.mark.parametrize("how", OPERATORS)
@pytest.mark.parametrize("types", TYPES)
def test_columns_meet_whom_rows_meet(types: str, how: str) -> None:
    kind, keys, other_kind, other_keys = TYPES[types]
    of_columns, of_rows = OPERATORS[how]
    join = ColumnJoin(("k",), ("k",), ("_l", "_r"))
    make = lambda: of_columns(join)  # noqa: E731
    found = pairs(make, columns(kind, keys, "left"), columns(other_kind, other_keys, "right"))
    wanted = pairs(of_rows, rows(kind, keys, "left"), rows(other_kind, other_keys, "right"))
    assert found == wanted and wanted


@pytest.mark.parametrize("how", OPERATORS)
@pytest.mark.parametrize(
    ("kind", "key"), [(pa.string(), "1"), (pa.timestamp("ms"), DAY), (pa.binary(), b"1")]
)
def test_keys_of_which_none_can_be_equal_are_refused(how: str, kind: pa.DataType, key: Any) -> None:
    """A number read out of a text met the rows of another key, and of one that another subtask has."""
    operator: Operator = OperatorRun(
        lambda: OPERATORS[how][0](ColumnJoin(("k",), ("k",), ("_l", "_r")))
    ).operators[0]
    operator.process(columns(pa.int64(), [1], "left"), 0)
    with pytest.raises(
        KeyError_, match="'k' of the left stream is number and 'k' of the right one is .*Cast"
    ):
        operator.process(columns(kind, [key], "right"), 1)
        operator.on_watermark(1000)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "key"), [(pa.float64(), 1.5), (pa.int64(), 2**40)])
def test_a_key_alone_that_the_result_has_no_type_for_is_an_error_that_says_so(
    kind: pa.DataType, key: Any
) -> None:
    schemas = (
        pa.schema([("k", pa.int32()), ("left", pa.int64())]),
        pa.schema([("k", kind), ("right", pa.int64())]),
    )
    join = ColumnJoin(("k",), ("k",), ("_l", "_r"), JoinKind.FULL, schemas)
    operator = OperatorRun(lambda: ColumnarIntervalJoinOperator(join, Interval(-5, 5))).operators[0]
    operator.process(columns(kind, [key], "right"), 1)
    with pytest.raises(KeyError_, match="cannot be shown in the key column 'k' of the result"):
        operator.on_watermark(1000)  # type: ignore[arg-type]
