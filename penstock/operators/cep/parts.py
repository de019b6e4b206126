"""What a pattern is made of: steps and groups of steps, as plain values.

:class:`Part` is one step, one *not* or one group; a pattern is a sequence of them.  Nothing here decides
anything: ``pattern`` builds and checks, ``automaton`` gives meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

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
