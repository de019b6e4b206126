"""Operators that have something under way between two calls, such as requests to elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.operators.operator import Operator


class Beside:
    """Those of one chain; the other operators are not asked each time."""

    def __init__(self, operators: Iterable[Operator]) -> None:
        self._operators = [op for op in operators if type(op).is_drained is not Operator.is_drained]

    def room(self, most: int) -> int:
        """How many of ``most`` records they can take now."""
        for operator in self._operators:
            left = operator.room()
            most = most if left is None else min(most, left)
        return most

    def are_drained(self) -> bool:
        """Whether nothing is under way any more."""
        return all(operator.is_drained() for operator in self._operators)
