"""Which operators of a chain are asked for room and for what is pending."""

from __future__ import annotations

from penstock.operators.async_io.operator import AsyncWaitOperator
from penstock.operators.chain import OperatorInput, PendingOperators
from penstock.operators.operator import Operator
from penstock.operators.stateless import MapOperator


class Narrow(Operator):
    """Says only how much it can take."""

    def room(self) -> int | None:
        return 3


class Slow(Operator):
    """Says only whether it is drained."""

    drained = False

    def is_drained(self) -> bool:
        return self.drained


def pending(*operators: Operator) -> PendingOperators:
    return PendingOperators(OperatorInput(operator, lambda error, _: error) for operator in operators)


def test_either_answer_makes_an_operator_one_of_them() -> None:
    narrow, slow = Narrow(), Slow()
    found = pending(MapOperator(str), narrow, slow)
    assert [entry.operator for entry in found] == [narrow, slow] and found
    assert (found.room(10), found.room(2)) == (3, 2)
    assert not found.are_drained()
    slow.drained = True
    assert found.are_drained()


def test_a_chain_without_any_has_all_the_room() -> None:
    found = pending(MapOperator(str))
    assert not found and found.room(7) == 7 and found.are_drained()


def test_asynchronous_calls_are_among_them() -> None:
    assert pending(AsyncWaitOperator.__new__(AsyncWaitOperator))
