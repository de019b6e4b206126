"""``Pattern``: the fluent face over a sequence of parts.

A pattern is a value: every method returns a new one and leaves the old as it was, so a common beginning can
be continued in several ways, and a call whose result is not used does nothing.  What cannot mean anything
is refused here, with the line that wrote it in the traceback; the rest when the pattern meets a stream
(:meth:`Pattern.checked`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import ConfigError
from penstock.operators.cep.automaton import build
from penstock.operators.cep.conditions import Condition
from penstock.operators.cep.parts import Contiguity, Part, WithinType, check_pattern
from penstock.operators.cep.skip import AfterMatchSkipStrategy

_NO_SKIP = AfterMatchSkipStrategy.no_skip()


@dataclass(frozen=True, slots=True)
class Pattern:
    """A sequence of steps to look for. Begin with :meth:`begin`; each method speaks about the last step."""

    parts: tuple[Part, ...]
    skip: AfterMatchSkipStrategy = _NO_SKIP

    # --- steps ------------------------------------------------------------------------------

    @staticmethod
    def begin(name: str | Pattern, skip_strategy: AfterMatchSkipStrategy | None = None) -> Pattern:
        """Start a pattern with a step of this name, or with a group of steps."""
        return Pattern((_part(name, Contiguity.STRICT),), skip_strategy or _NO_SKIP)

    def next(self, name: str | Pattern) -> Pattern:
        """Then, with no event in between."""
        return self._append(_part(name, Contiguity.STRICT))

    def followed_by(self, name: str | Pattern) -> Pattern:
        """Then, as soon as an event fits; events that do not fit may lie in between."""
        return self._append(_part(name, Contiguity.RELAXED))

    def followed_by_any(self, name: str | Pattern) -> Pattern:
        """Then, at any time; events that fit may lie in between too, and each makes a match of its own."""
        return self._append(_part(name, Contiguity.ANY))

    def not_next(self, name: str) -> Pattern:
        """The event right after must not fit."""
        return self._append(Part(_name(name), Contiguity.STRICT, negated=True))

    def not_followed_by(self, name: str) -> Pattern:
        """No event before the next step's fits; at the end of a pattern: none within its time."""
        return self._append(Part(_name(name), Contiguity.RELAXED, negated=True))

    # --- conditions -------------------------------------------------------------------------

    def where(self, condition: Any) -> Pattern:
        """The event must fulfil ``condition``, besides what was asked before."""
        return self._change("where", condition=self._step("where").condition.and_(condition))

    def or_(self, condition: Any) -> Pattern:
        """Or it fulfils ``condition`` instead of all that was asked before."""
        return self._change("or_", condition=self._step("or_").condition.or_(condition))

    def subtype(self, kind: type) -> Pattern:
        """The event must be a ``kind``."""
        if not isinstance(kind, type):
            raise ConfigError(f"subtype takes a class; got {kind!r}")
        return self.where(lambda event: isinstance(event, kind))

    def until(self, condition: Any) -> Pattern:
        """An event that fulfils ``condition`` ends the loop, and is not part of it."""
        last = self.parts[-1]
        if last.most is not None or last.until is not None:
            raise ConfigError(
                f"until() ends a loop without end, and once: write it after one_or_more() or times_or_more() "
                f"of {last.name!r}, one time"
            )
        return self._change("until", until=Condition().and_(condition))

    # --- how often --------------------------------------------------------------------------

    def one_or_more(self) -> Pattern:
        """Once or more often."""
        return self.times_or_more(1)

    def times_or_more(self, times: int) -> Pattern:
        """So many times, or more."""
        return self._quantified("times_or_more", _count(times, 1), None)

    def times(self, times: int, to_times: int | None = None) -> Pattern:
        """Exactly so many times, or between so many and so many. A range from 0 makes it optional."""
        most = _count(times if to_times is None else to_times, 1)
        least = _count(times, 1 if to_times is None else 0)
        if least > most:
            raise ConfigError(f"times({times}, {to_times}) runs backwards; write the smaller number first")
        pattern = self._quantified("times", max(1, least), most)
        return pattern if least else pattern.optional()

    def optional(self) -> Pattern:
        """Or not at all."""
        if self.parts[-1].optional:
            raise ConfigError(f"{self.parts[-1].name!r} is optional already")
        return self._change("optional", optional=True)

    def greedy(self) -> Pattern:
        """As often as possible: an event that fits the loop is never left out nor given to a later step."""
        last = self._looping("greedy")
        if last.body or last.inner is Contiguity.ANY:
            other = "groups" if last.body else "allow_combinations()"
            raise ConfigError(f"greedy() does not go with {other}; see {last.name!r}")
        return self._change("greedy", greedy=True)

    def consecutive(self) -> Pattern:
        """No other event between those of the loop."""
        self._looping("consecutive")
        return self._change("consecutive", inner=Contiguity.STRICT)

    def allow_combinations(self) -> Pattern:
        """Any events between those of the loop, also such that fit: every combination makes a match."""
        if self._looping("allow_combinations").greedy:
            raise ConfigError(f"{self.parts[-1].name!r} is greedy, which rules combinations out")
        return self._change("allow_combinations", inner=Contiguity.ANY)

    def within(
        self, window_time: DurationLike, within_type: WithinType = WithinType.FIRST_AND_LAST
    ) -> Pattern:
        """A match must be complete in less than this time.

        It is measured from its first event (if given several times, the shortest counts), or with
        ``PREVIOUS_AND_CURRENT`` from the event before to each event of this step.
        """
        millis = to_millis(window_time)
        if millis <= 0:
            raise ConfigError(f"within() needs a time above 0 ms; got {window_time!r}")
        if within_type is WithinType.FIRST_AND_LAST:
            return self._change("within", span_ms=millis)
        if self.parts[-1].body:
            raise ConfigError(
                "PREVIOUS_AND_CURRENT is about single events: give it to a step inside the group"
            )
        return self._change("within", gap_ms=millis)

    # --- for the engine ---------------------------------------------------------------------

    def checked(self) -> Pattern:
        """The same pattern, if it can be run as a whole."""
        check_pattern(self.parts, self.skip.pattern_name)
        build(self.parts)
        return self

    def _append(self, part: Part) -> Pattern:
        return replace(self, parts=(*self.parts, part))

    def _step(self, method: str) -> Part:
        last = self.parts[-1]
        if last.body:
            raise ConfigError(f"{method}() is about single events: call it on a step inside the group")
        return last

    def _change(self, method: str, **changes: Any) -> Pattern:
        last = self.parts[-1]
        if last.negated and method not in ("where", "or_", "within"):
            raise ConfigError(f"{method}() makes no sense for {last.name!r}, which must not happen")
        return replace(self, parts=(*self.parts[:-1], replace(last, **changes)))

    def _quantified(self, method: str, least: int, most: int | None) -> Pattern:
        if self.parts[-1].looping or self.parts[-1].least != 1:
            raise ConfigError(
                f"{self.parts[-1].name!r} has a quantifier already; {method}() would be a second"
            )
        return self._change(method, least=least, most=most)

    def _looping(self, method: str) -> Part:
        last = self.parts[-1]
        if not last.looping:
            raise ConfigError(
                f"{method}() is about what repeats, and {last.name!r} does not: write it after "
                "one_or_more(), times() or times_or_more()"
            )
        return last


def _part(name: str | Pattern, contiguity: Contiguity) -> Part:
    if isinstance(name, Pattern):
        return Part("(" + " ".join(part.name for part in name.parts) + ")", contiguity, body=name.parts)
    return Part(_name(name), contiguity)


def _name(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigError(f"a step of a pattern needs a name, a string that is not empty; got {name!r}")
    return name


def _count(times: int, least: int) -> int:
    if not isinstance(times, int) or times < least:
        raise ConfigError(f"how often a step is taken must be a number from {least} on; got {times!r}")
    return times
