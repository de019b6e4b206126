"""After a match: which other matches that share events with it are still wanted.

All but ``no_skip`` make matches come out in the order of their first events: one that is complete waits as
long as a partial match that began earlier may still become one.  When a match has come out, everything
that began up to a certain event is given up, whether partial or complete and waiting.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, PenstockError


class SkipTo(Enum):
    """Where looking for matches goes on after one."""

    NOWHERE = "no skip"
    NEXT = "skip to next"
    PAST_LAST = "skip past last event"
    FIRST_OF = "skip to first"
    LAST_OF = "skip to last"


class SkipError(PenstockError):
    """A match holds no event to skip to, and the strategy was asked to throw then."""

    code = Code.CEP_SKIP


@dataclass(frozen=True, slots=True)
class AfterMatchSkipStrategy:
    """What to do with other matches after one was found. Built by its static methods."""

    to: SkipTo = SkipTo.NOWHERE
    pattern_name: str | None = None
    throws: bool = False

    @staticmethod
    def no_skip() -> AfterMatchSkipStrategy:
        """Every possible match comes out. The default."""
        return AfterMatchSkipStrategy()

    @staticmethod
    def skip_to_next() -> AfterMatchSkipStrategy:
        """Of the matches that begin with the same event only the first comes out."""
        return AfterMatchSkipStrategy(SkipTo.NEXT)

    @staticmethod
    def skip_past_last_event() -> AfterMatchSkipStrategy:
        """No match begins within another, up to and with its last event."""
        return AfterMatchSkipStrategy(SkipTo.PAST_LAST)

    @staticmethod
    def skip_to_first(pattern_name: str) -> AfterMatchSkipStrategy:
        """No match begins within another before the first event of the step ``pattern_name``."""
        return AfterMatchSkipStrategy(SkipTo.FIRST_OF, _named(pattern_name))

    @staticmethod
    def skip_to_last(pattern_name: str) -> AfterMatchSkipStrategy:
        """No match begins within another before the last event of the step ``pattern_name``."""
        return AfterMatchSkipStrategy(SkipTo.LAST_OF, _named(pattern_name))

    def throw_exception_on_miss(self) -> AfterMatchSkipStrategy:
        """Fail if a match has no event of that step, or begins with the event to skip to."""
        if self.pattern_name is None:
            raise ConfigError(
                f"throw_exception_on_miss() belongs to skip_to_first and skip_to_last; {self.to.value} "
                "cannot miss"
            )
        return AfterMatchSkipStrategy(self.to, self.pattern_name, throws=True)

    def is_skip_strategy(self) -> bool:
        """Whether anything is ever skipped."""
        return self.to is not SkipTo.NOWHERE

    def first_wanted(self, events: tuple[int, ...], names: tuple[str, ...]) -> int:
        """The number of the first event that another match may still begin with, after this match.

        ``events`` are the numbers of the match's events in order, ``names`` the steps they were taken for.
        """
        if self.to is SkipTo.PAST_LAST:
            return events[-1] + 1
        if self.to is SkipTo.NEXT:
            return events[0] + 1
        mine = [event for event, name in zip(events, names, strict=True) if name == self.pattern_name]
        if not mine and self.throws:
            raise SkipError(
                f"{self.to.value} {self.pattern_name!r}: the match has no event of that step; leave out "
                "throw_exception_on_miss() if such matches are to skip nothing"
            )
        if not mine:
            return events[0]
        target = mine[0] if self.to is SkipTo.FIRST_OF else mine[-1]
        if target == events[0] and self.throws:
            raise SkipError(
                f"{self.to.value} {self.pattern_name!r}: the match begins with that event, so nothing would "
                "be skipped; choose another step, or leave out throw_exception_on_miss()"
            )
        return target


def _named(pattern_name: str) -> str:
    if not isinstance(pattern_name, str) or not pattern_name:
        raise ConfigError(f"skip_to_first and skip_to_last take the name of a step; got {pattern_name!r}")
    return pattern_name
