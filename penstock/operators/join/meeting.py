"""How a record meets its partners, call by call: the inner loop of the interval join of rows.

A :data:`Meet` is made once for a side and called for each new record that has partners.  What user code
gets is its own: the record goes into state as well, and each partner stays there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.core.copying import Copier
from penstock.core.ids import MIN_TIME
from penstock.operators.join.functions import (
    FlatJoinFunction,
    JoinFunction,
    Pair,
    ProcessJoinFunction,
    pair_call,
)
from penstock.operators.outflow import Results

Item = tuple[int, Any, bool]
"""A stored record: its time, itself, and whether it has met a partner."""
Meet = Callable[[Any, int, Sequence[Item]], None]
"""Takes a new record, its time, and some stored records of the other side."""


class Pairing:
    """Calls the user's function for pairs; results are gathered with the later of the two times."""

    def __init__(self, function: Any) -> None:
        self._user = function
        self._context = _Context()
        self._several: Pair | None = None
        self._one: Callable[[Any, Any], Any] | None = None
        if not isinstance(function, ProcessJoinFunction):
            self._several = pair_call(function)
            if not isinstance(function, FlatJoinFunction):
                self._one = function.join if isinstance(function, JoinFunction) else function

    def meeting(self, gathered: Results, is_left: bool, mine: Copier, guard: Copier) -> Meet:
        """What a record of one side does with its partners."""
        if self._one is not None:
            return _one_result(self._one, gathered, is_left, mine, guard)
        call = self.call

        def meet(value: Any, time: int, partners: Sequence[Item]) -> None:
            for other_time, other, _ in partners:
                later = time if time > other_time else other_time
                if is_left:
                    call(gathered, mine(value), guard(other), time, other_time, later)
                else:
                    call(gathered, guard(other), mine(value), other_time, time, later)

        return meet

    def call(
        self, gathered: Results, left: Any, right: Any, left_time: int, right_time: int, time: int
    ) -> None:
        """One pair; ``None`` and ``MIN_TIME`` stand for a record that has no partner."""
        if self._several is not None:
            results = self._several(left, right)
        else:
            context = self._context
            context.left, context.right, context.time = left_time, right_time, time
            results = self._user.process_element(left, right, context)
        gathered.add_all(results, time)


def _one_result(
    call: Callable[[Any, Any], Any], gathered: Results, is_left: bool, mine: Copier, guard: Copier
) -> Meet:
    """The same for functions that give one result a pair, which most do, with fewer calls in between."""
    add = gathered.add

    def meet_as_left(value: Any, time: int, partners: Sequence[Item]) -> None:
        for other_time, other, _ in partners:
            add(call(mine(value), guard(other)), time if time > other_time else other_time)

    def meet_as_right(value: Any, time: int, partners: Sequence[Item]) -> None:
        for other_time, other, _ in partners:
            add(call(guard(other), mine(value)), time if time > other_time else other_time)

    return meet_as_left if is_left else meet_as_right


class _Context(ProcessJoinFunction.Context):
    __slots__ = ("left", "right", "time")

    def __init__(self) -> None:
        self.left: int = MIN_TIME
        self.right: int = MIN_TIME
        self.time: int = MIN_TIME

    def get_left_timestamp(self) -> int:
        return self.left

    def get_right_timestamp(self) -> int:
        return self.right

    def get_timestamp(self) -> int:
        return self.time
