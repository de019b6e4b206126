"""What users write for joins, and the kinds of join there are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from penstock.core.errors import ConfigError
from penstock.operators.functions import Function

Pair = Callable[[Any, Any], Iterable[Any] | None]
"""From a left and a right record to an iterable of results, or ``None``."""


class JoinKind(Enum):
    """Which records without a partner appear in the result, with ``None`` in the partner's place."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"

    @property
    def keeps_left(self) -> bool:
        """Whether a left record without a partner appears."""
        return self in (JoinKind.LEFT, JoinKind.FULL)

    @property
    def keeps_right(self) -> bool:
        """Whether a right record without a partner appears."""
        return self in (JoinKind.RIGHT, JoinKind.FULL)

    @staticmethod
    def of(how: str, *allowed: JoinKind) -> JoinKind:
        """The kind called ``how``; only those in ``allowed`` if some are given."""
        choice = allowed or tuple(JoinKind)
        for kind in choice:
            if kind.value == how:
                return kind
        names = ", ".join(repr(kind.value) for kind in choice)
        raise ConfigError(f"this join cannot be done as {how!r}; how= takes one of {names}")


class JoinFunction(Function):
    """One result for each pair."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """The result of a pair; in outer joins one of the two may be ``None``."""


class FlatJoinFunction(Function):
    """Any number of results for each pair."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """The results of a pair: ``None``, an iterable, or a generator."""


class CoGroupFunction(Function):
    """Sees all records of both sides that share a key and a window."""

    @abstractmethod
    def co_group(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        """The results; either list may be empty, but not both."""


class ProcessJoinFunction(Function):
    """Sees each pair of an interval join, with the times of both."""

    class Context(ABC):
        """The times of the pair; of a record that is missing in an outer join, ``MIN_TIME``."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """Event time of the left record."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """Event time of the right record."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Event time of the results."""

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: Context) -> Iterable[Any] | None:
        """The results of a pair: ``None``, an iterable, or a generator; ``yield tag, value`` as usual."""


def pair_call(user: Any) -> Pair:
    """``user`` as a function of a pair that gives an iterable of results."""
    if isinstance(user, FlatJoinFunction):
        return user.join
    call = user.join if isinstance(user, JoinFunction) else user
    if isinstance(user, type) or not callable(call):
        raise ConfigError(
            f"a join takes a JoinFunction, a FlatJoinFunction or a function of two records, not {user!r}"
        )
    return lambda first, second: (call(first, second),)
