"""What a pattern means: after each event taken, which events may be taken next, and on what terms.

A *state* is a place in the pattern together with how often each loop around it has gone round.  From it
lead *options*: take an event for some step, or accept.  The terms of an option speak about every event
since the last one taken:

* ``contiguity``: whether events may be passed over at all, and whether also such that could be taken;
* ``barred``: conditions that no event may fulfil, neither one passed over nor the one taken (what a greedy
  loop would still take; what ends a loop that is gone through again);
* ``first``: conditions that the very first event must not fulfil (``not_next``), taken or not;
* ``between``: conditions that no event passed over may fulfil (``not_followed_by``);
* ``gap_ms``: the time since the last event taken.

So skipping an optional step, leaving a loop and going round again are decided at once when an event is
taken: each is an option of its own, and those that turn out wrong fall away as events come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from penstock.core.errors import ConfigError
from penstock.operators.cep.conditions import Condition, Judge
from penstock.operators.cep.parts import Contiguity, Part, span_of, steps_of

Place = tuple[tuple[int, int], ...]
"""From the outside in: which part of the sequence, and for the how-manieth time."""

ACCEPT = -1
"""The step of an option that ends the match instead of taking an event."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Conditions, by number, that an option puts on events since the last one taken."""

    barred: tuple[int, ...] = ()
    first: tuple[int, ...] = ()
    between: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """One way to go on. ``step`` and ``condition`` are numbers; ``target`` is the state afterwards."""

    step: int
    condition: int
    contiguity: Contiguity
    terms: Terms
    gap_ms: int | None
    target: int


@dataclass(frozen=True, slots=True)
class State:
    """Where a partial match is: its ``options`` by number, and whether it is a match as it is."""

    options: tuple[int, ...]
    final: bool


@dataclass(frozen=True, slots=True)
class Automaton:
    """A pattern made ready: everything by number. ``start`` are the options before any event."""

    steps: tuple[str, ...]
    judges: tuple[Judge, ...]
    iterative: tuple[bool, ...]
    options: tuple[Option, ...]
    states: tuple[State, ...]
    start: tuple[int, ...]
    span_ms: int | None

    @property
    def has_gaps(self) -> bool:
        """Whether time is also measured from one event to the next."""
        return any(option.gap_ms is not None for option in self.options)


def build(parts: tuple[Part, ...]) -> Automaton:
    """The automaton of a pattern that was checked."""
    return _Builder(parts).build()


class _Builder:
    def __init__(self, parts: tuple[Part, ...]) -> None:
        self._parts = parts
        self._span = span_of(parts)
        self._steps = [part.name for part in steps_of(parts) if not part.body and not part.negated]
        self._judges: list[Judge] = []
        self._iterative: list[bool] = []
        self._conditions: dict[tuple[str, tuple[int, ...]], int] = {}
        self._options: list[Option] = []
        self._numbers: dict[Place, int] = {}

    def build(self) -> Automaton:
        """Number all states that can be reached, in a fixed order: snapshots hold these numbers."""
        start = self._numbered(self._then((), 0, Terms()))
        states: list[State] = []
        places = list(self._numbers)
        while len(states) < len(places):
            options = list(self._after(places[len(states)]))
            final = any(self._accepts_at_once(option) for option in options)
            waiting = (option for option in options if not self._accepts_at_once(option))
            states.append(State(self._numbered(waiting), final))
            places = list(self._numbers)
        return Automaton(
            tuple(self._steps),
            tuple(self._judges),
            tuple(self._iterative),
            tuple(self._options),
            tuple(states),
            tuple(number for number in start if self._options[number].step != ACCEPT),
            self._span,
        )

    def _numbered(self, options: Iterator[Option]) -> tuple[int, ...]:
        first = len(self._options)
        self._options.extend(dict.fromkeys(options))
        return tuple(range(first, len(self._options)))

    @staticmethod
    def _accepts_at_once(option: Option) -> bool:
        return option.step == ACCEPT and option.terms == Terms()

    # --- ways through the pattern -----------------------------------------------------------

    def _after(self, place: Place) -> Iterator[Option]:
        """What may follow the event just taken at ``place``."""
        outer, (index, count) = place[:-1], place[-1]
        part = self._sequence(outer)[index]
        again = part.most is None or count < part.most
        if again:
            yield self._take(outer, index, count + 1, part.inner, self._again(Terms(), outer, index))
        if count >= part.least:
            yield from self._then(outer, index + 1, self._left(Terms(), outer, index) if again else Terms())

    def _then(
        self, outer: Place, index: int, terms: Terms, contiguity: Contiguity | None = None
    ) -> Iterator[Option]:
        """Go on with part ``index`` of the sequence at ``outer``."""
        sequence = self._sequence(outer)
        if index == len(sequence):
            yield from self._end(outer, terms)
            return
        part = sequence[index]
        if part.negated:
            yield from self._then(outer, index + 1, self._forbidding(terms, outer, index))
            return
        yield from self._enter(outer, index, 1, contiguity or part.contiguity, terms)
        if part.optional:
            yield from self._then(outer, index + 1, self._left(terms, outer, index))

    def _enter(
        self, outer: Place, index: int, count: int, contiguity: Contiguity, terms: Terms
    ) -> Iterator[Option]:
        if self._sequence(outer)[index].body:
            yield from self._then((*outer, (index, count)), 0, terms, contiguity)
        else:
            yield self._take(outer, index, count, contiguity, terms)

    def _end(self, outer: Place, terms: Terms) -> Iterator[Option]:
        """The sequence at ``outer`` is through: the pattern is, or one round of a group."""
        if not outer:
            yield self._accept(terms)
            return
        above, (index, count) = outer[:-1], outer[-1]
        group = self._sequence(above)[index]
        if group.most is None or count < group.most:
            more = _counted(group, count + 1)
            yield from self._enter(above, index, more, group.inner, self._again(terms, above, index))
        if count >= group.least:
            yield from self._then(above, index + 1, terms)

    def _take(self, outer: Place, index: int, count: int, contiguity: Contiguity, terms: Terms) -> Option:
        part = self._sequence(outer)[index]
        place = (*outer, (index, _counted(part, count)))
        target = self._numbers.setdefault(place, len(self._numbers))
        condition = self._fits(outer, index)
        return Option(self._steps.index(part.name), condition, contiguity, terms, part.gap_ms, target)

    def _accept(self, terms: Terms) -> Option:
        last = self._parts[-1]
        gap = last.gap_ms if last.negated else None
        if terms.between and self._span is None and gap is None:
            raise ConfigError(
                "the pattern can end with a not_followed_by(), which is only sure when time has run out: add "
                "within()"
            )
        return Option(ACCEPT, -1, Contiguity.ANY, terms, gap, -1)

    # --- terms and conditions ---------------------------------------------------------------

    def _left(self, terms: Terms, outer: Place, index: int) -> Terms:
        """A loop is left, or not entered, that could have taken more: if greedy, nothing may fit it."""
        if not self._sequence(outer)[index].greedy:
            return terms
        return replace(terms, barred=_with(terms.barred, self._fits(outer, index)))

    def _again(self, terms: Terms, outer: Place, index: int) -> Terms:
        """A loop goes round again: nothing may have ended it."""
        until = self._sequence(outer)[index].until
        if until is None:
            return terms
        number = self._condition("until", outer, index, until.judge(), until.iterative)
        return replace(terms, barred=_with(terms.barred, number))

    def _forbidding(self, terms: Terms, outer: Place, index: int) -> Terms:
        number = self._fits(outer, index)
        if self._sequence(outer)[index].contiguity is Contiguity.STRICT:
            return replace(terms, first=_with(terms.first, number))
        return replace(terms, between=_with(terms.between, number))

    def _fits(self, outer: Place, index: int) -> int:
        """The condition under which an event fits a step: its own, and that it does not end its loop."""
        part = self._sequence(outer)[index]
        judge, iterative = _fitting(part.condition, part.until)
        return self._condition("fits", outer, index, judge, iterative)

    def _condition(self, what: str, outer: Place, index: int, judge: Judge, iterative: bool) -> int:
        name = (what, (*(i for i, _ in outer), index))
        if name not in self._conditions:
            self._conditions[name] = len(self._judges)
            self._judges.append(judge)
            self._iterative.append(iterative)
        return self._conditions[name]

    def _sequence(self, outer: Place) -> tuple[Part, ...]:
        parts = self._parts
        for index, _ in outer:
            parts = parts[index].body
        return parts


def _counted(part: Part, count: int) -> int:
    """How often a part was taken, as far as that matters: a loop without end counts to its least."""
    return count if part.most is not None else min(count, part.least)


def _with(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
    return numbers if number in numbers else (*numbers, number)


def _fitting(condition: Condition, until: Condition | None) -> tuple[Judge, bool]:
    fits = condition.judge()
    if until is None:
        return fits, condition.iterative
    ends = until.judge()
    return (lambda event, ctx: fits(event, ctx) and not ends(event, ctx)), (
        condition.iterative or until.iterative
    )
