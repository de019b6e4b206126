"""Batches of a stream whose columns have other types than the first: what is taken, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.batch import Batch
from penstock.core.errors import ConfigError
from penstock.core.row import Row
from penstock.operators.columnar.aggregates import Aggregate, Avg, Count, Max, Min, Sum
from penstock.operators.columnar.distinct import Distinct
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.session_agg import ColumnarSessionOperator
from penstock.operators.columnar.window_agg import ColumnarWindowOperator
from penstock.operators.join.columnar import ColumnarIntervalJoinOperator, ColumnarWindowJoinOperator
from penstock.operators.join.columnar_temporal import ColumnarTemporalJoinOperator
from penstock.operators.join.columns import ColumnJoin
from penstock.operators.join.interval import Interval
from penstock.operators.operator import Operator
from penstock.testing.operator_run import OperatorRun

NOTHING = pa.nulls(1)
SOMETHING: dict[str, pa.Array] = {
    "whole": pa.array([7]),
    "double": pa.array([1.5]),
    "text": pa.array(["x"]),
    "decimal": pa.array([Decimal("1.25")]),
    "list": pa.array([[1, 2]]),
    "list of nothing": pa.array([[None]]),
    "codes": pa.array(["x"]).dictionary_encode(),
}
WINDOWS: dict[str, Callable[..., Operator]] = {
    "tumbling": lambda *aggregates: ColumnarWindowOperator(["k"], Panes.tumbling(10), aggregates),
    "sliding": lambda *aggregates: ColumnarWindowOperator(
        ["k"], Panes(20, 10), aggregates, allowed_lateness=50
    ),
    "sessions": lambda *aggregates: ColumnarSessionOperator(["k"], 10, aggregates),
}


def joined() -> ColumnJoin:
    return ColumnJoin(("k",), ("k",), ("_l", "_r"))


JOINS: dict[str, Callable[[], Operator]] = {
    "interval": lambda: ColumnarIntervalJoinOperator(joined(), Interval(-5, 5)),
    "window": lambda: ColumnarWindowJoinOperator(joined(), Panes.tumbling(10)),
    "temporal": lambda: ColumnarTemporalJoinOperator(joined()),
}


def of(keys: Any, values: pa.Array, time: int = 1) -> Batch:
    columns = pa.record_batch({"k": pa.array(keys), "v": values})
    return Batch.of_columns(columns, np.full(len(values), time, np.int64), ("k",))


def shown(trial: OperatorRun, name: str) -> list[Any]:
    return [result.value.as_dict()[name] for result in trial.results]


@pytest.mark.parametrize("kind", SOMETHING)
@pytest.mark.parametrize("how", JOINS)
@pytest.mark.parametrize("side", [0, 1])
def test_a_side_may_begin_with_nothing_but_nulls(how: str, kind: str, side: int) -> None:
    trial = OperatorRun(JOINS[how])
    (operator,) = trial.operators
    for batch in (of(["a"], NOTHING), of(["b"], SOMETHING[kind]), of(["c"], NOTHING)):
        operator.process(batch, side)
    operator.process(of(["a", "b", "c"], pa.array([1, 2, 3])), 1 - side)
    trial.finish()
    found = {result.value["k"]: result.value["v" + ("_l", "_r")[side]] for result in trial.results}
    assert found == {"a": None, "b": SOMETHING[kind][0].as_py(), "c": None}


@pytest.mark.parametrize("kind", SOMETHING)
@pytest.mark.parametrize("how", JOINS)
def test_subtasks_of_which_one_had_nothing_but_nulls_are_restored_as_one(how: str, kind: str) -> None:
    trial = OperatorRun(JOINS[how], 2)
    first, second = trial.operators
    first.process(of(["a"], NOTHING), 0)
    second.process(of(["b"], SOMETHING[kind]), 0)
    trial.load(trial.snapshot(), 1)
    (operator,) = trial.operators
    operator.process(of(["a", "b"], pa.array([1, 2])), 1)
    trial.finish()
    found = {result.value["k"]: result.value["v_l"] for result in trial.results}
    assert found == {"a": None, "b": SOMETHING[kind][0].as_py()}


AGGREGATES: list[tuple[Aggregate, Any, Any]] = [
    *((Max("v", "x"), value, value) for value in (1.5, "x", Decimal("1.25"), 7)),
    (Min("v", "x"), "x", "x"),
    *((Sum("v", "x"), value, value) for value in (1.5, Decimal("1.25"), 7)),
    *((Avg("v", "x"), value, value) for value in (1.5, 7)),
    *((Distinct("count", "v", "x"), value, 1) for value in (1.5, "x")),
    *((Distinct("sum", "v", "x"), value, value) for value in (1.5, 7)),
]


@pytest.mark.parametrize(("aggregate", "value", "wanted"), AGGREGATES)
@pytest.mark.parametrize("how", WINDOWS)
def test_windows_may_begin_with_nothing_but_nulls(
    how: str, aggregate: Aggregate, value: Any, wanted: Any
) -> None:
    trial = OperatorRun(lambda: WINDOWS[how](aggregate, Count("n")))
    for one, time in ((None, 1), (None, 12), (value, 13), (None, 22), (value, 33)):
        trial.process(Batch.of_rows([Row(k="a", v=one)], [time], ["a"]))
        trial.watermark(time - 2)
    trial.finish()
    found = {row["window_start"]: row["x"] for row in (it.value.as_dict() for it in trial.results)}
    last = {"tumbling": 30, "sliding": 30, "sessions": 12}[how]
    assert found[last] == wanted


@pytest.mark.parametrize(("aggregate", "value", "wanted"), AGGREGATES)
@pytest.mark.parametrize("how", WINDOWS)
def test_windows_of_subtasks_of_which_one_had_nothing_but_nulls_are_restored_as_one(
    how: str, aggregate: Aggregate, value: Any, wanted: Any
) -> None:
    trial = OperatorRun(lambda: WINDOWS[how](aggregate), 2)
    for operator, key, one in zip(trial.operators, "ab", (None, value), strict=True):
        operator.process(Batch.of_rows([Row(k=key, v=one)], [1], [key]))
    trial.load(trial.snapshot(), 1)
    trial.process(Batch.of_rows([Row(k="c", v=None)], [1], ["c"]))
    trial.finish()
    found = {row["k"]: row["x"] for row in (it.value.as_dict() for it in trial.results)}
    nothing = 0 if wanted == 1 else None
    assert found == {"a": nothing, "b": wanted, "c": nothing}


OTHER_KEYS: dict[str, tuple[pa.Array, pa.Array]] = {
    "every number but 0 is True": (pa.array([True]), pa.array([5])),
    "the nearest float": (pa.array([0.5], pa.float32()), pa.array([0.1])),
    "the nearest double": (pa.array([0.5]), pa.array([Decimal("0.1")])),
    "the nearest decimal": (pa.array([Decimal("0.5")], pa.decimal128(3, 1)), pa.array([0.1])),
}


@pytest.mark.parametrize("kind", OTHER_KEYS)
@pytest.mark.parametrize("how", [*JOINS, *WINDOWS])
def test_keys_that_would_become_others_are_refused(how: str, kind: str) -> None:
    make = JOINS[how] if how in JOINS else lambda: WINDOWS[how](Count("n"))
    (operator,) = OperatorRun(make).operators
    first, other = OTHER_KEYS[kind]
    operator.process(of(first, pa.array([1])), 0)
    with pytest.raises(ConfigError, match="'k' from .*a key would become another one"):
        operator.process(of(other, pa.array([1])), 0)


SAME_KEYS: dict[str, tuple[pa.Array, pa.Array]] = {
    "truth": (pa.array([True]), pa.array([1])),
    "floats": (pa.array([0.5], pa.float32()), pa.array([0.5])),
    "decimals": (pa.array([0.5]), pa.array([Decimal("0.50")])),
    "integers": (pa.array([7], pa.int32()), pa.array([7])),
    "texts": (pa.array(["x"]), pa.array(["x"], pa.large_string())),
    "codes": (pa.array(["x"]), pa.array(["x"]).dictionary_encode()),
}


@pytest.mark.parametrize("kind", SAME_KEYS)
@pytest.mark.parametrize("how", JOINS)
def test_keys_that_stay_the_same_are_taken_in_any_type(how: str, kind: str) -> None:
    trial = OperatorRun(JOINS[how])
    (operator,) = trial.operators
    first, other = SAME_KEYS[kind]
    operator.process(of(first, pa.array([1])), 0)
    operator.process(of(other, pa.array([2])), 0)
    operator.process(of(first, pa.array([9])), 1)
    trial.finish()
    assert sorted(shown(trial, "v_l")) == [1, 2]


OTHER_VALUES: dict[str, tuple[pa.Array, pa.Array]] = {
    "a number as text": (pa.array(["x"]), pa.array([5])),
    "a text as number": (pa.array([5]), pa.array(["7"])),
    "a number as truth": (pa.array([True]), pa.array([5])),
    "a double as float": (pa.array([0.5], pa.float32()), pa.array([0.1])),
    "a number as time": (pa.array([0], pa.timestamp("ms")), pa.array([5])),
    "a time as number": (pa.array([0]), pa.array([5], pa.timestamp("ms"))),
}


@pytest.mark.parametrize("kind", OTHER_VALUES)
@pytest.mark.parametrize("how", JOINS)
def test_values_that_would_become_others_are_refused(how: str, kind: str) -> None:
    (operator,) = OperatorRun(JOINS[how]).operators
    first, other = OTHER_VALUES[kind]
    operator.process(of(["a"], first), 0)
    with pytest.raises(ConfigError, match=r"'v' from .*\((\w+ is not \w+|a value would .*)\)"):
        operator.process(of(["a"], other), 0)


SAME_VALUES: dict[str, tuple[pa.Array, pa.Array]] = {
    "integers": (pa.array([7], pa.int64()), pa.array([5], pa.int16())),
    "floats": (pa.array([0.5], pa.float32()), pa.array([float("nan"), 0.25, None, -0.0])),
    "doubles": (pa.array([0.5]), pa.array([3])),
    "codes": (
        pa.array(["a"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), pa.array(["a", "b"])),
    ),
    "nested": (pa.array([{"a": 1}]), pa.array([{"a": 2}], pa.struct({"a": pa.int32()}))),
}


@pytest.mark.parametrize("kind", SAME_VALUES)
@pytest.mark.parametrize("how", JOINS)
def test_values_that_stay_the_same_are_taken_in_any_type(how: str, kind: str) -> None:
    trial = OperatorRun(JOINS[how])
    (operator,) = trial.operators
    first, other = SAME_VALUES[kind]
    operator.process(of(["a"], first), 0)
    operator.process(of(["a"] * len(other), other), 0)
    operator.process(of(["a"], pa.array([9])), 1)
    trial.finish()
    found, wanted = shown(trial, "v_l"), [*first.to_pylist(), *other.to_pylist()]
    assert sorted(map(comparable, found)) == sorted(map(comparable, wanted))


def comparable(value: Any) -> str:
    return repr(float(value) if isinstance(value, int) else value)
