"""What the pattern tests share: an operator whose matches can be compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.cep import Pattern, PatternProcessFunction
from penstock.datastream import OutputTag
from penstock.operators.cep.operator import PatternOperator
from penstock.testing import Harness, Record

TIMED_OUT = OutputTag("timed out")


class Tell(PatternProcessFunction):
    """Matches as sorted pairs of step and event; timed-out ones to a side output."""

    def process_match(self, match: Any, ctx: Any) -> Iterator[Any]:
        yield told(match)

    def process_timed_out_match(self, match: Any, ctx: Any) -> Iterator[Any]:
        yield TIMED_OUT, told(match)


def told(match: dict[str, list[Any]]) -> frozenset[Any]:
    return frozenset((name, event) for name, events in match.items() for event in events)


class Words(PatternProcessFunction):
    """``c:C1 a:A1,A2``: steps in order of their first event."""

    def process_match(self, match: Any, ctx: Any) -> Iterator[str]:
        yield words(match)

    def process_timed_out_match(self, match: Any, ctx: Any) -> Iterator[Any]:
        yield TIMED_OUT, (words(match), ctx.timestamp())


def words(match: dict[str, list[Any]]) -> str:
    return " ".join(f"{name}:{','.join(map(str, events))}" for name, events in match.items())


def found(pattern: Pattern, text: str, **options: Any) -> list[str]:
    """All matches among the words of ``text``, one event each 10 ms."""
    with Harness(
        lambda: PatternOperator(pattern, Words(), **options), keyed_by=lambda word: "one key"
    ) as harness:
        for number, word in enumerate(text.split()):
            harness.push(Record(word, number * 10))
        harness.finish()
        return harness.take()


def letter(*letters: str) -> Any:
    """A condition: the word begins with one of the letters."""
    return lambda word: word[0] in letters


def step(name: str) -> Pattern:
    """``begin(name)`` for words that begin with that letter in upper case."""
    return Pattern.begin(name).where(letter(name.upper()))
