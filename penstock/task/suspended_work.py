"""Work that the operators of a task left over because its outputs were full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from penstock.operators.chain import OperatorInput

_is_suspended = attrgetter("is_suspended")


class LeftOver:
    """What the operators of one chain have left over."""

    def __init__(self, operators: Sequence[OperatorInput]) -> None:
        self._last_first = tuple(reversed(operators))

    def __bool__(self) -> bool:
        return any(map(_is_suspended, self._last_first))

    def resume(self, writable: Callable[[], bool]) -> bool:
        """Let operators go on while there is room, those at the end of the chain first; whether one did."""
        worked = False
        for operator in self._last_first:
            while operator.is_suspended:
                if not writable():
                    return worked
                operator.resume()
                worked = True
        return worked

    def drop(self) -> None:
        """The task ends here: generators of user code are closed before their functions are."""
        for operator in self._last_first:
            operator.drop()

    def waiting_bytes(self) -> int:
        """Records that wait for an operator to be done."""
        return sum(operator.waiting_bytes() for operator in self._last_first)
