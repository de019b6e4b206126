"""Conditions: what makes an event fit a step of a pattern.

A condition is a callable of the event, or of the event and a context through which it sees the events that
the partial match has taken so far (an *iterative* condition).  Those of the first kind are asked once per
event however many partial matches wait; those of the second once per partial match.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.core.errors import ConfigError

Judge = Callable[[Any, "ConditionContext"], Any]
"""A condition with its combinations resolved: event and context to something true or false."""


class ConditionContext(ABC):
    """What an iterative condition may know beside the event."""

    @abstractmethod
    def get_events_for_pattern(self, name: str) -> list[Any]:
        """The events that this partial match has taken for the step ``name``, in order; may be none."""

    @abstractmethod
    def timestamp(self) -> int:
        """Time of the event: its event time, or with processing time the clock when it came."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The clock."""


class IterativeCondition(ABC):
    """A condition as a class; sees the partial match so far."""

    @abstractmethod
    def filter(self, value: Any, ctx: ConditionContext) -> bool:
        """Whether ``value`` fits."""


class SimpleCondition(ABC):
    """A condition as a class; sees the event alone."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Whether ``value`` fits."""


class _Join(Enum):
    AND = "and"
    OR = "or"


@dataclass(frozen=True, slots=True)
class _Test:
    join: _Join
    call: Callable[..., Any]
    iterative: bool


@dataclass(frozen=True, slots=True)
class Condition:
    """Tests in the order they were given, each joined to the result of all before it."""

    tests: tuple[_Test, ...] = ()

    def and_(self, user: Any) -> Condition:
        """Both this and ``user``'s."""
        return Condition((*self.tests, _test(_Join.AND, user)))

    def or_(self, user: Any) -> Condition:
        """Either this or ``user``'s; without any so far, ``user``'s alone."""
        return Condition((*self.tests, _test(_Join.OR if self.tests else _Join.AND, user)))

    @property
    def iterative(self) -> bool:
        """Whether the answer may depend on the partial match."""
        return any(test.iterative for test in self.tests)

    def judge(self) -> Judge:
        """One callable for all tests."""
        if not self.tests:
            return lambda event, ctx: True
        judge = _judge(self.tests[0])
        for test in self.tests[1:]:
            judge = _joined(test.join, judge, _judge(test))
        return judge


def _judge(test: _Test) -> Judge:
    call = test.call
    return call if test.iterative else lambda event, ctx: call(event)


def _joined(join: _Join, first: Judge, second: Judge) -> Judge:
    if join is _Join.AND:
        return lambda event, ctx: first(event, ctx) and second(event, ctx)
    return lambda event, ctx: first(event, ctx) or second(event, ctx)


def _test(join: _Join, user: Any) -> _Test:
    if isinstance(user, IterativeCondition | SimpleCondition):
        return _Test(join, user.filter, isinstance(user, IterativeCondition))
    if not callable(user) or isinstance(user, type):
        raise ConfigError(
            "a condition is a function of the event, or of the event and a context, a SimpleCondition or an "
            f"IterativeCondition; got {user!r}"
        )
    return _Test(join, user, _takes_context(user))


def _takes_context(user: Callable[..., Any]) -> bool:
    """Whether a callable must be given the context too; built-in ones without a signature are not."""
    try:
        parameters = inspect.signature(user).parameters.values()
    except ValueError:
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.kind in kinds and p.default is inspect.Parameter.empty]
    if len(needed) > 2:
        raise ConfigError(
            f"condition {user!r} takes {len(needed)} arguments; it is called with the event, or with the "
            "event and a context"
        )
    return len(needed) == 2
