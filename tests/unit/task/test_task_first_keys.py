"""Keys of another kind than those in the snapshot: when it is told, and when not."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.batch import Batch
from penstock.core.errors import KeyError_
from penstock.core.ids import Epoch
from penstock.core.key_kinds import kinds_of
from penstock.operators.operator import Operator
from penstock.task.first_keys import watch_first_keys


class Noting(Operator):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def process(self, batch: Batch, input_index: int = 0) -> None:
        self.calls += batch.to_rows()

    def prepare_barrier(self, epoch: Epoch) -> None:
        self.calls.append("barrier")

    def finish(self) -> None:
        self.calls.append("end")


def watched(*stored: Any) -> Noting:
    operator = Noting()
    watch_first_keys(operator, kinds_of(list(stored)), {0})
    return operator


def of(*keys: Any) -> Batch:
    return Batch.of_rows([str(key) for key in keys], None, list(keys))


def test_a_first_key_of_another_kind_may_be_one_of_several() -> None:
    operator = watched(1, 2)
    operator.process(of("late"))
    operator.process(of("late", 3))
    operator.prepare_barrier(Epoch(1))
    operator.process(of("late"))
    operator.finish()
    assert operator.calls == ["late", "late", "3", "barrier", "late", "end"]


def test_many_keys_of_another_kind_are_an_error() -> None:
    operator = watched(1, 2)
    with pytest.raises(KeyError_, match="of type str now and of type number in the snapshot"):
        for key in range(16):
            operator.process(of(str(key)))
    assert len(operator.calls) == 15


def test_few_keys_of_another_kind_are_in_no_snapshot_and_in_no_result() -> None:
    for end in (lambda operator: operator.prepare_barrier(Epoch(1)), lambda operator: operator.finish()):
        operator = watched(1, 2)
        operator.process(of("a", "b"))
        with pytest.raises(KeyError_):
            end(operator)
        assert operator.calls == ["a", "b"]
