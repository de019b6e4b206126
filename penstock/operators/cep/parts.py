"""What a pattern is made of: steps and groups of steps, as plain values, and what they must fulfil.

:class:`Part` is one step, one *not* or one group; a pattern is a sequence of them.  ``pattern`` builds them,
``automaton`` gives them meaning; :func:`check_pattern` sees the whole, beyond what each call could see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from penstock.core.errors import ConfigError
from penstock.operators.cep.conditions import Condition


class Contiguity(Enum):
    """Which events may lie between an event that is taken and the one taken before."""

    STRICT = "next"
    """None."""
    RELAXED = "followed by"
    """Events that would not be taken."""
    ANY = "followed by any"
    """All events."""


class WithinType(Enum):
    """Between which events a ``within`` measures."""

    FIRST_AND_LAST = "first and last"
    PREVIOUS_AND_CURRENT = "previous and current"


_ALWAYS = Condition()


@dataclass(frozen=True, slots=True)
class Part:
    """A step, a *not*, or a group (which has a ``body``). ``most`` is ``None`` for a loop without end."""

    name: str
    contiguity: Contiguity
    negated: bool = False
    condition: Condition = _ALWAYS
    body: tuple[Part, ...] = ()
    least: int = 1
    most: int | None = 1
    inner: Contiguity = Contiguity.RELAXED
    optional: bool = False
    greedy: bool = False
    until: Condition | None = None
    span_ms: int | None = None
    gap_ms: int | None = None

    @property
    def looping(self) -> bool:
        """Whether it can be taken more than once."""
        return self.most != 1

    @property
    def may_be_absent(self) -> bool:
        """Whether a match may hold no event of it."""
        return self.optional or self.negated


def steps_of(parts: tuple[Part, ...]) -> Iterator[Part]:
    """All parts in order; a group's own before what is in it."""
    for part in parts:
        yield part
        yield from steps_of(part.body)


def description(parts: tuple[Part, ...]) -> str:
    """What stored partial matches depend on, as text: names, order, quantifiers; not conditions and times."""
    shown = []
    for part in parts:
        quantifier = f"{part.least}-{part.most} {part.inner.value}" if part.looping else "once"
        flags = [word for word, on in (("optional", part.optional), ("greedy", part.greedy)) if on]
        if part.until is not None:
            flags.append("until")
        kind = f"not {part.contiguity.value}" if part.negated else part.contiguity.value
        inside = f" ({description(part.body)})" if part.body else ""
        shown.append(" ".join([kind, repr(part.name), quantifier, *flags]) + inside)
    return "; ".join(shown)


def span_of(parts: tuple[Part, ...]) -> int | None:
    """The time from first to last event: the shortest that was given anywhere."""
    return min((part.span_ms for part in steps_of(parts) if part.span_ms is not None), default=None)


def check_pattern(parts: tuple[Part, ...], skip_to: str | None) -> None:
    """Raise ``ConfigError`` with the first thing that cannot be run."""
    _check_names(parts, skip_to)
    for group in [parts, *(part.body for part in steps_of(parts) if part.body)]:
        _check_sequence(group, whole=group is parts)
    _check_greedy(parts, last=True)
    for part in steps_of(parts):
        if part.negated and part.gap_ms is not None and part is not parts[-1]:
            raise ConfigError(
                f"within(..., PREVIOUS_AND_CURRENT) on {part.name!r} has no effect before the end of the "
                "pattern: give it to the step that follows"
            )


def _check_names(parts: tuple[Part, ...], skip_to: str | None) -> None:
    names = Counter(part.name for part in steps_of(parts) if not part.body)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise ConfigError(f"the pattern has several steps called {twice[0]!r}; each needs its own name")
    taken = {part.name for part in steps_of(parts) if not part.body and not part.negated}
    if skip_to is not None and skip_to not in taken:
        raise ConfigError(
            f"the skip strategy goes to {skip_to!r}, but the pattern's steps are {', '.join(sorted(taken))}"
        )


def _check_sequence(parts: tuple[Part, ...], whole: bool) -> None:
    if not whole and all(part.may_be_absent for part in parts):
        raise ConfigError(
            f"all steps of the group ({', '.join(part.name for part in parts)}) may be absent; make the "
            "group optional and one of its steps not"
        )
    if not whole and parts[-1].negated:
        raise ConfigError(f"{parts[-1].name!r} stands at the end of a group: put it behind the group")
    for place, part in enumerate(parts):
        if part.negated and all(before.may_be_absent for before in parts[:place]):
            raise ConfigError(
                f"{part.name!r} must not happen after steps that may all be absent, so it is not said after "
                "what; make one of them mandatory, or use two patterns"
            )


def _check_greedy(parts: tuple[Part, ...], last: bool) -> None:
    for part in reversed(parts):
        if last and part.greedy:
            raise ConfigError(
                f"{part.name!r} is greedy and may be the last of a match: nothing would tell that it has had "
                "its most; leave greedy() out, or end the pattern with a step that is not optional"
            )
        if part.body:
            _check_greedy(part.body, last)
        last = last and part.may_be_absent
