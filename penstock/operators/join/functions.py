"""What users write for joins, and the kinds of join there are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Generic

from penstock.core.errors import ConfigError
from penstock.core.type_vars import IN1, IN2, OUT, T, V
from penstock.operators.functions import Function, Results

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


class JoinFunction(Function, Generic[IN1, IN2, OUT]):
    """One result for each pair of a join. A plain function of two records does as well.

    >>> class Paid(JoinFunction[tuple[str, int], tuple[str, int], tuple[str, int]]):
    ...     def join(self, first, second):
    ...         return first[0], first[1] * second[1]
    >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: 1)
    >>> orders = env.from_collection([("tea", 3)]).assign_timestamps_and_watermarks(by_time)
    >>> prices = env.from_collection([("tea", 5)]).assign_timestamps_and_watermarks(by_time)
    >>> joined = orders.join(prices).where(lambda o: o[0]).equal_to(lambda p: p[0])
    >>> list(joined.window(TumblingEventTimeWindows.of("1 min")).apply(Paid()).execute_and_collect())
    [('tea', 15)]
    """

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> OUT:
        """The result of a pair; in outer joins one of the two may be ``None``."""


class FlatJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Any number of results for each pair of a join.

    >>> class Larger(FlatJoinFunction):
    ...     def join(self, first, second):
    ...         if second > first:
    ...             yield first, second
    >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r)
    >>> one = env.from_collection([1, 5]).assign_timestamps_and_watermarks(by_time)
    >>> two = env.from_collection([2]).assign_timestamps_and_watermarks(by_time)
    >>> pairs = one.key_by(lambda n: "all").interval_join(two.key_by(lambda n: "all")).between(-9, 9)
    >>> list(pairs.process(Larger()).execute_and_collect())
    [(1, 2)]
    """

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> Iterable[OUT] | None:
        """The results of a pair: ``None``, an iterable, or a generator."""


class CoGroupFunction(Function, Generic[T, V, OUT]):
    """Sees all records of both sides that share a key and a window.

    >>> class Sizes(CoGroupFunction):
    ...     def co_group(self, first, second):
    ...         yield len(first), len(second)
    >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r)
    >>> one = env.from_collection([1, 2]).assign_timestamps_and_watermarks(by_time)
    >>> two = env.from_collection([3]).assign_timestamps_and_watermarks(by_time)
    >>> groups = one.co_group(two).where(lambda n: "all").equal_to(lambda n: "all")
    >>> list(groups.window(TumblingEventTimeWindows.of("1 s")).apply(Sizes()).execute_and_collect())
    [(2, 1)]
    """

    @abstractmethod
    def co_group(self, first: list[T], second: list[V]) -> Iterable[OUT] | None:
        """The results; either list may be empty, but not both."""


class ProcessJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Sees each pair of an interval join, with the times of both.

    >>> class Apart(ProcessJoinFunction):
    ...     def process_element(self, left, right, ctx):
    ...         yield ctx.get_right_timestamp() - ctx.get_left_timestamp()
    >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r)
    >>> one = env.from_collection([10]).assign_timestamps_and_watermarks(by_time).key_by(lambda n: "all")
    >>> two = env.from_collection([12, 99]).assign_timestamps_and_watermarks(by_time).key_by(lambda n: "all")
    >>> list(one.interval_join(two).between(-5, 5).process(Apart()).execute_and_collect())
    [2]
    """

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
    def process_element(self, left: IN1, right: IN2, ctx: Context) -> Results[OUT]:
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
