"""The operator against matches by definition: random patterns, random events, random times."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from cep_brute import Brute, Event, Spec, to_pattern
from cep_rig import TIMED_OUT, Tell
from hypothesis import event, given, settings
from hypothesis import strategies as st

from penstock.cep import AfterMatchSkipStrategy as Skip
from penstock.core.errors import ConfigError
from penstock.operators.cep.operator import PatternOperator
from penstock.testing import EndOfInput, Harness, Record, WatermarkTo, verify

LINKS = ("next", "followed_by", "followed_by_any")
LETTERS = ("a", "b", "ab", "bc", "c", "abc")
SEEDS = st.integers(0, 2**32 - 1)
"""Cases are made from a seed: all kinds of patterns are then equally likely."""


def quantified(draw: Random, spec: Spec) -> Spec:
    """The same part, perhaps taken several times or not at all."""
    kind = draw.choice(["once", "once", "times", "range", "loop"])
    least = draw.randint(1, 2)
    optional = draw.random() < 0.3
    if kind == "once":
        return replace(spec, optional=optional)
    most = {"times": 2, "range": least + 1, "loop": None}[kind]
    least = 2 if kind == "times" else least
    inner = draw.choice(LINKS)
    greedy = not spec.body and inner != "followed_by_any" and draw.random() < 0.5
    until = draw.choice(["", "c"]) if kind == "loop" else ""
    return replace(spec, least=least, most=most, inner=inner, optional=optional, greedy=greedy, until=until)


def sequence(draw: Random, prefix: str = "", depth: int = 0) -> tuple[Spec, ...]:
    parts = []
    for number in range(draw.randint(1, 3 - depth)):
        name, link = f"{prefix}{number}", draw.choice(LINKS)
        kind = draw.choice(["step", "step", "step", "not", "group"])
        if kind == "not" and number:
            parts.append(Spec(name, draw.choice(LETTERS), draw.choice(LINKS[:2]), negated=True))
        elif kind == "group" and depth == 0:
            parts.append(quantified(draw, Spec(name, link=link, body=sequence(draw, name + "-", 1))))
        else:
            gap, rising = draw.choice([None, None, None, 2]), draw.random() < 0.3
            parts.append(quantified(draw, Spec(name, draw.choice(LETTERS), link, gap=gap, rising=rising)))
    if depth == 1 or any(part.negated for part in parts):
        parts[0] = replace(parts[0], optional=False)
    if depth == 1 and parts[-1].negated:
        parts.append(Spec(f"{prefix}end", draw.choice(LETTERS), draw.choice(LINKS)))
    return tuple(parts)


def runnable(specs: tuple[Spec, ...], span: int | None) -> tuple[Spec, ...]:
    """The same, if a pattern may end like this; else with one step more."""
    try:
        to_pattern(specs, None, span).checked()
    except ConfigError:
        return (*specs, Spec("end", "ab"))
    return specs


def skip_for(draw: Random, specs: tuple[Spec, ...]) -> Skip:
    names = [s.name for spec in specs for s in (spec, *spec.body) if not s.negated and not s.body]
    name = draw.choice(names)
    named = [Skip.skip_to_first(name), Skip.skip_to_last(name)]
    return draw.choice(
        [Skip.no_skip(), Skip.no_skip(), Skip.skip_to_next(), Skip.skip_past_last_event(), *named]
    )


def make_case(seed: int, length: int) -> tuple[Any, ...]:
    draw = Random(seed)
    span = draw.choice([None, 2, 4, 6])
    specs = runnable(sequence(draw), span)
    skip = skip_for(draw, specs)
    # Numbers make events distinct, so that a match tells which of two equal ones it has.
    events: list[Event] = [(draw.choice("abcabd"), draw.randint(0, 2) * 100 + i) for i in range(length)]
    times = [0]
    while len(times) < length:
        times.append(times[-1] + draw.choice([0, 1, 1, 2]))
    return specs, to_pattern(specs, skip, span).checked(), skip, span, events, times


def expected(specs: Any, skip: Skip, span: int | None, events: list[Event], times: list[int]) -> Any:
    matches, timed_out = Brute(specs, events, times, span).outcome(skip)
    return (
        [Record(frozenset(match), time) for match, time in matches],
        [Record(frozenset(match), time) for match, time in timed_out],
    )


@settings(max_examples=200, deadline=None)
@given(SEEDS, st.sets(st.integers(0, 10)))
def test_matches_are_those_of_the_definition(seed: int, stops: set[int]) -> None:
    """Whatever order events of different times arrive in, and however the watermark moves."""
    specs, pattern, skip, span, events, times = make_case(seed, 6)
    matches, timed_out = expected(specs, skip, span, events, times)
    event("matches" if matches else "no match")
    with Harness(lambda: PatternOperator(pattern, Tell()), keyed_by=lambda value: 0) as harness:
        waiting = list(zip(events, times, strict=True))
        for stop in sorted(stops):
            due = [record for record in waiting if record[1] <= stop]
            waiting = waiting[len(due) :]
            for value, time in sorted(due, key=lambda record: -record[1]):
                harness.push(Record(value, time))
            harness.watermark(stop)
        for value, time in waiting:
            harness.push(Record(value, time))
        harness.finish()
        assert harness.take_records() == matches
        assert harness.take_records(TIMED_OUT) == timed_out
        assert [entry for table in harness_tables(harness) for entry in table] == []


def harness_tables(harness: Harness) -> list[list[Any]]:
    """What is still stored, but for partial matches that have no end in time."""
    keyed = harness._stages[0].trial.operators[0].ctx.keyed
    runs = keyed.table("_cep/runs")
    if len(runs):
        (key,) = runs.entries()
        stored = runs.peek(key)
        check_counts(stored, keyed.table("_cep/links").peek(key), keyed.table("_cep/holders").peek(key))
        return []
    return [keyed.table(f"_cep/{name}").entries() for name in ("links", "holders", "runs")]


def check_counts(stored: Any, links: dict[int, Any], holders: dict[int, int]) -> None:
    """Reference counts are what they say, and nothing is stored that nobody can reach."""
    held = [partial[0] for partial in stored[2]] + list(stored[3])
    for number, (_, _, _, count) in links.items():
        assert count == held.count(number) + sum(link[0] == number for link in links.values())
        assert count
    for number, count in holders.items():
        assert count == sum(link[2] == number for link in links.values()) > 0
    assert {link[2] for link in links.values()} == set(holders)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(SEEDS)
def test_snapshots_and_rescaling_change_nothing(seed: int) -> None:
    """Two keys; every way that verify knows to interrupt, split and join."""
    specs, pattern, skip, span, events, times = make_case(seed, 5)
    matches, timed_out = expected(specs, skip, span, events, times)
    items: list[Any] = []
    for number, (value, time) in enumerate(zip(events, times, strict=True)):
        items += [Record(value, time), Record((value[0], value[1] + 50), time)]
        if number % 2 and times[number + 1 :][:1] != [time]:
            items.append(WatermarkTo(time))
    doubled = [shifted(records) for records in (matches, timed_out)]
    verify(lambda: PatternOperator(pattern, Tell()), keyed_by=lambda value: value[1] % 100 // 50).input(
        [*items, EndOfInput()]
    ).expect(matches + doubled[0], side={TIMED_OUT.tag_id: timed_out + doubled[1]})


def shifted(records: list[Record]) -> list[Record]:
    """The same for the other key's events."""
    return [Record(frozenset((n, (e[0], e[1] + 50)) for n, e in r.value), r.time) for r in records]
