"""What users write to turn matches into results.

A match is a dict from the name of each step that took events to the list of these events, in order.  Results
are returned or yielded, as everywhere; ``yield tag, value`` goes to a side output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from penstock.core.errors import ConfigError
from penstock.operators.cep.matcher import Match
from penstock.operators.functions import Function
from penstock.operators.output_tag import OutputTag
from penstock.operators.runtime_context import RuntimeContext
from penstock.operators.user_function import bind


class PatternProcessFunction(Function):
    """Called for each match, and if it says so for partial matches that ran out of time."""

    class Context(ABC):
        """What is known about a match beside its events."""

        @abstractmethod
        def timestamp(self) -> int:
            """Time of the event that completed the match, or when the partial match's time ran out."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The clock."""

    @abstractmethod
    def process_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Iterable[Any] | None:
        """The results of a match."""

    def process_timed_out_match(
        self, match: Match, ctx: PatternProcessFunction.Context
    ) -> Iterable[Any] | None:
        """The results of a partial match whose time is over. Not called unless overridden."""
        return None


class PatternSelectFunction(Function):
    """One result per match."""

    @abstractmethod
    def select(self, pattern: Match) -> Any:
        """The result."""


class PatternFlatSelectFunction(Function):
    """Any number of results per match."""

    @abstractmethod
    def flat_select(self, pattern: Match) -> Iterable[Any] | None:
        """The results."""


class PatternTimeoutFunction(Function):
    """One result per partial match whose time is over."""

    @abstractmethod
    def timeout(self, pattern: Match, timeout_timestamp: int) -> Any:
        """The result; ``timeout_timestamp`` is when the time was over."""


class EventComparator(ABC):
    """Orders events of a key that have the same event time."""

    @abstractmethod
    def compare(self, first: Any, second: Any) -> int:
        """Below 0 if ``first`` comes first, above 0 if ``second`` does, 0 to keep the order of arrival."""


class Select(PatternProcessFunction):
    """Runs a select function. ``flat`` says that it gives an iterable of results."""

    def __init__(self, function: Any, flat: bool) -> None:
        kind, method = (
            (PatternFlatSelectFunction, "flat_select") if flat else (PatternSelectFunction, "select")
        )
        self._functions = [function]
        self._select = bind(function, kind, method)
        self._flat = flat

    def open(self, runtime_context: RuntimeContext) -> None:
        for function in self._functions:
            if isinstance(function, Function):
                function.open(runtime_context)

    def close(self) -> None:
        for function in self._functions:
            if isinstance(function, Function):
                function.close()

    def process_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Iterable[Any] | None:
        found = self._select(match)
        return found if self._flat else (found,)


class SelectWithTimeout(Select):
    """Also sends what ``timeout`` makes of timed-out partial matches to a side output."""

    def __init__(self, function: Any, flat: bool, tag: OutputTag, timeout: Any) -> None:
        super().__init__(function, flat)
        if not isinstance(tag, OutputTag) or timeout is None:
            raise ConfigError("results of timed-out matches need both an OutputTag and a timeout function")
        self._functions.append(timeout)
        self._tag = tag
        self._timeout: Callable[..., Any] = bind(timeout, PatternTimeoutFunction, "timeout")

    def process_timed_out_match(
        self, match: Match, ctx: PatternProcessFunction.Context
    ) -> Iterable[Any] | None:
        return ((self._tag, self._timeout(match, ctx.timestamp())),)


def hears_of_timeouts(function: PatternProcessFunction) -> bool:
    """Whether the function overrides ``process_timed_out_match``."""
    return type(function).process_timed_out_match is not PatternProcessFunction.process_timed_out_match
