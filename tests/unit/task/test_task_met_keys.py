"""What kinds of keys an operator has met."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.key_kinds import MOST_KINDS, Kind
from penstock.operators.operator import Operator
from penstock.task.met_keys import remember_kinds


class Noting(Operator):
    def __init__(self) -> None:
        self.kinds: dict[Kind, None] = {}
        self.ctx: Any = SimpleNamespace(keyed=SimpleNamespace(met_kinds=self.kinds))
        self.given: list[tuple[int, int]] = []
        remember_kinds(self)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        self.given.append((len(batch), input_index))


def of(*keys: Any) -> Batch:
    return Batch.of_rows([None] * len(keys), None, list(keys))


def test_all_kinds_are_noted_wherever_in_a_batch_they_are() -> None:
    operator = Noting()
    operator.process(of(1, 2.5, True))
    assert list(operator.kinds) == ["number"]
    operator.process(of(*range(5000), "late"), 1)
    assert set(operator.kinds) == {"number", "str"}
    assert operator.given == [(3, 0), (5001, 1)]


def test_keys_with_parts_are_looked_at_in_each_batch() -> None:
    operator = Noting()
    operator.process(of(("a", 1)))
    operator.process(of(("a", "b")))
    operator.process(of(dt.datetime(2024, 1, 1)))  # noqa: DTZ001
    operator.process(of(dt.datetime(2024, 1, 1, tzinfo=dt.UTC)))
    assert set(operator.kinds) == {
        ("tuple", "str", "number"),
        ("tuple", "str", "str"),
        "datetime",
        "datetime with a time zone",
    }


def test_columns_say_it_by_their_types() -> None:
    operator = Noting()
    for column in (pa.array([1, 2]), pa.array(["a"]), pa.array(["a"])):
        columns = pa.RecordBatch.from_arrays([column], names=["k"])
        operator.process(Batch.of_columns(columns, None, ("k",)))
    operator.process(Batch.of_columns(pa.RecordBatch.from_arrays([pa.array([1])], names=["k"])))
    assert set(operator.kinds) == {"number", "str"} and len(operator.given) == 4


def test_kinds_without_end_are_not_all_kept() -> None:
    operator = Noting()
    for width in range(3 * MOST_KINDS):
        operator.process(of((1,) * (width + 1)))
    assert len(operator.kinds) == MOST_KINDS + 1
