"""Operators that have something pending between two calls, such as requests to another system."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.operators.chain import OperatorInput
from penstock.operators.operator import Operator


class PendingOperators:
    """Those of one chain; the other operators are not asked each time.

    An operator is one of them if its class says how much it can take, or when it is drained.
    """

    def __init__(self, operators: Iterable[OperatorInput]) -> None:
        self._inputs = [each for each in operators if _may_be_pending(each.operator)]
        self._operators = [each.operator for each in self._inputs]

    def __bool__(self) -> bool:
        return bool(self._operators)

    def __iter__(self) -> Iterator[OperatorInput]:
        return iter(self._inputs)

    def room(self, most: int) -> int:
        """How many of ``most`` records they can take now; below 1 if they can take none."""
        for operator in self._operators:
            left = operator.room()
            most = most if left is None else min(most, left)
        return most

    def are_drained(self) -> bool:
        """Whether nothing is pending any more."""
        return all(operator.is_drained() for operator in self._operators)


def _may_be_pending(operator: Operator) -> bool:
    kind = type(operator)
    return kind.is_drained is not Operator.is_drained or kind.room is not Operator.room
