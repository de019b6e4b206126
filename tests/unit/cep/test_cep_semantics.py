"""What patterns mean, statement by statement: contiguity, quantifiers, nots, groups, skipping."""

from __future__ import annotations

from typing import Any

import pytest
from cep_rig import found, letter, step

from penstock.cep import AfterMatchSkipStrategy as Skip
from penstock.cep import IterativeCondition, Pattern, SimpleCondition, SkipError
from penstock.core.errors import ConfigError


def then(pattern: Pattern, name: str, link: str = "followed_by") -> Pattern:
    return getattr(pattern, link)(name).where(letter(name.upper()))


# --- contiguity -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("next", []),
        ("followed_by", ["a:A b:B1"]),
        ("followed_by_any", ["a:A b:B1", "a:A b:B2"]),
    ],
)
def test_what_may_lie_between_two_steps(link: str, expected: list[str]) -> None:
    assert found(then(step("a"), "b", link), "A C B1 B2") == expected


def test_an_event_may_be_in_several_matches() -> None:
    assert found(then(step("a"), "b"), "A1 A2 B") == ["a:A1 b:B", "a:A2 b:B"]


# --- quantifiers ----------------------------------------------------------------------------------

LOOP = step("c").followed_by("a").where(letter("A")).one_or_more()
LOOP_INPUT = "C D A1 A2 A3 D A4 B"


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        (LOOP, ["A1,A2,A3,A4", "A1,A2,A3", "A1,A2", "A1"]),
        (LOOP.consecutive(), ["A1,A2,A3", "A1,A2", "A1"]),
        (
            LOOP.allow_combinations(),
            ["A1,A2,A3,A4", "A1,A2,A3", "A1,A2,A4", "A1,A2", "A1,A3,A4", "A1,A3", "A1,A4", "A1"],
        ),
        (LOOP.greedy(), ["A1,A2,A3,A4"]),
    ],
    ids=["relaxed", "consecutive", "combinations", "greedy"],
)
def test_contiguity_within_a_loop(loop: Pattern, expected: list[str]) -> None:
    assert found(then(loop, "b"), LOOP_INPUT) == [f"c:C a:{taken} b:B" for taken in expected]


def test_times_takes_exactly_so_many() -> None:
    assert found(step("a").times(2), "A1 A2 B A3") == ["a:A1,A2", "a:A2,A3"]
    assert found(step("a").times(2).consecutive(), "A1 A2 B A3") == ["a:A1,A2"]


def test_times_with_a_range_and_times_or_more() -> None:
    assert found(step("a").times(1, 2), "A1 A2 A3") == ["a:A1", "a:A1,A2", "a:A2", "a:A2,A3", "a:A3"]
    assert found(step("a").times_or_more(2), "A1 A2 A3") == ["a:A1,A2", "a:A1,A2,A3", "a:A2,A3"]


def test_times_from_zero_is_optional() -> None:
    pattern = then(step("c").followed_by("a").where(letter("A")).times(0, 1), "b")
    assert found(pattern, "C A B") == ["c:C a:A b:B", "c:C b:B"]


def test_optional_matches_with_and_without() -> None:
    assert found(then(then(step("a"), "b").optional(), "c"), "A B C") == ["a:A b:B c:C", "a:A c:C"]


def test_greedy_takes_an_event_that_a_later_step_would_take_too() -> None:
    pattern = step("a").one_or_more().greedy().next("b").where(letter("A", "B"))
    assert found(pattern, "A1 A2 B")[0] == "a:A1,A2 b:B"
    assert "a:A1 b:A2" not in found(pattern, "A1 A2 B")
    assert "a:A1 b:A2" in found(step("a").one_or_more().next("b").where(letter("A", "B")), "A1 A2 B")


def test_until_ends_a_loop_and_is_not_part_of_it() -> None:
    pattern = then(step("c").followed_by("a").where(letter("A")).one_or_more().until(letter("X")), "b")
    assert found(pattern, "C A1 A2 X A3 B") == ["c:C a:A1,A2 b:B", "c:C a:A1 b:B"]


# --- nots -----------------------------------------------------------------------------------------


def test_not_next_is_about_the_very_next_event() -> None:
    pattern = then(step("a").not_next("n").where(letter("N")), "b")
    assert found(pattern, "A N B") == []
    assert found(pattern, "A C N B") == ["a:A b:B"]
    assert found(pattern, "A B") == ["a:A b:B"]


def test_not_next_at_the_end_waits_for_the_next_event() -> None:
    pattern = step("a").not_next("n").where(letter("N"))
    assert found(pattern, "A N") == []
    assert found(pattern, "A") == []
    assert found(pattern, "A C") == ["a:A"]


def test_not_followed_by_is_about_all_events_between() -> None:
    pattern = then(step("a").not_followed_by("n").where(letter("N")), "b")
    assert found(pattern, "A C N B") == []
    assert found(pattern, "A C B N") == ["a:A b:B"]


def test_not_followed_by_at_the_end_needs_within() -> None:
    pattern = step("a").not_followed_by("n").where(letter("N"))
    with pytest.raises(ConfigError, match="add within"):
        pattern.checked()
    assert found(pattern.within(25), "A1 C C A2 N") == ["a:A1"]


# --- conditions -----------------------------------------------------------------------------------


def test_where_adds_and_or_offers_an_alternative() -> None:
    pattern = (
        Pattern.begin("x").where(letter("A", "B")).where(lambda word: word.endswith("1")).or_(letter("C"))
    )
    assert found(pattern, "A1 A2 B1 C2 D1") == ["x:A1", "x:B1", "x:C2"]


def test_subtype_asks_for_a_class() -> None:
    class Loud(str):
        pass

    pattern = Pattern.begin("x").subtype(Loud)
    condition = pattern.parts[0].condition.judge()
    assert condition(Loud("A"), None) and not condition("A", None)  # type: ignore[arg-type]


def test_an_iterative_condition_sees_what_was_taken() -> None:
    def larger(word: str, ctx: Any) -> bool:
        taken = ctx.get_events_for_pattern("a")
        return word[0] == "A" and all(word > earlier for earlier in taken)

    pattern = then(Pattern.begin("a").where(larger).one_or_more().greedy(), "b")
    assert found(pattern, "A1 A3 A2 A4 B")[0] == "a:A1,A3,A4 b:B"


def test_conditions_may_be_classes() -> None:
    class Fits(SimpleCondition):
        def filter(self, value: Any) -> bool:
            return value == "A"

    class Repeats(IterativeCondition):
        def filter(self, value: Any, ctx: Any) -> bool:
            return [value] == ctx.get_events_for_pattern("a") and ctx.timestamp() >= 10

    assert found(Pattern.begin("a").where(Fits()).next("b").where(Repeats()), "A A B") == ["a:A b:A"]


# --- groups ---------------------------------------------------------------------------------------


def test_a_group_can_be_repeated() -> None:
    pair = then(step("a"), "b")
    pattern = then(step("s").followed_by(pair).times(2), "c")
    assert found(pattern, "S A1 B1 X A2 B2 C") == ["s:S a:A1,A2 b:B1,B2 c:C"]
    assert found(then(step("s").followed_by(pair).times(2).consecutive(), "c"), "S A1 B1 X A2 B2 C") == []


def test_a_group_can_be_optional_or_begin() -> None:
    pair = then(step("a"), "b")
    assert found(then(step("s").followed_by(pair).optional(), "c"), "S A B C") == [
        "s:S a:A b:B c:C",
        "s:S c:C",
    ]
    assert found(then(Pattern.begin(pair).one_or_more(), "c"), "A B C") == ["a:A b:B c:C"]


# --- after a match --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        (Skip.no_skip(), ["B1,B2,B3", "B1,B2", "B1", "B2,B3", "B2", "B3"]),
        (Skip.skip_to_next(), ["B1,B2,B3", "B2,B3", "B3"]),
        (Skip.skip_past_last_event(), ["B1,B2,B3"]),
        (Skip.skip_to_first("b"), ["B1,B2,B3", "B1,B2", "B1", "B2,B3", "B2", "B3"]),
        (Skip.skip_to_last("b"), ["B1,B2,B3", "B3"]),
    ],
    ids=lambda value: value.to.value if isinstance(value, Skip) else "",
)
def test_skip_strategies(skip: Skip, expected: list[str]) -> None:
    pattern = then(Pattern.begin("b", skip).where(letter("B")).one_or_more().consecutive(), "c")
    assert found(pattern, "B1 B2 B3 C") == [f"b:{taken} c:C" for taken in expected]


def test_a_match_waits_for_earlier_partial_ones_if_something_may_be_skipped() -> None:
    """The short match is complete first, but the long one began before it."""
    pattern = Pattern.begin("x", Skip.skip_past_last_event()).where(letter("A", "B")).followed_by("y")
    pattern = pattern.where(
        lambda word, ctx: (word, ctx.get_events_for_pattern("x")) in [("D", ["A"]), ("C", ["B"])]
    )
    assert found(pattern, "A B C D") == ["x:A y:D"]


def test_skipping_to_a_step_without_events_can_be_an_error() -> None:
    def pattern(skip: Skip) -> Pattern:
        return then(then(Pattern.begin("a", skip).where(letter("A")), "b").optional(), "c", "next")

    assert found(pattern(Skip.skip_to_first("b")), "A C") == ["a:A c:C"]
    with pytest.raises(SkipError, match="no event of that step"):
        found(pattern(Skip.skip_to_first("b").throw_exception_on_miss()), "A C")
    with pytest.raises(SkipError, match="begins with that event"):
        found(pattern(Skip.skip_to_last("a").throw_exception_on_miss()), "A C")


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: step("a").followed_by("a").checked(), "several steps called 'a'"),
        (lambda: step("a").greedy(), "about what repeats"),
        (lambda: step("a").one_or_more().greedy().checked(), "greedy and may be the last"),
        (lambda: step("a").one_or_more().allow_combinations().greedy(), "does not go with"),
        (lambda: step("a").times(2).times(3), "has a quantifier already"),
        (lambda: step("a").times(3, 2), "runs backwards"),
        (lambda: step("a").times(2).until(letter("X")), "loop without end"),
        (lambda: step("a").not_next("n").one_or_more(), "must not happen"),
        (lambda: step("a").optional().not_next("n").next("b").checked(), "may all be absent"),
        (lambda: Pattern.begin(step("a").optional()).checked(), "may be absent"),
        (lambda: Pattern.begin(step("a").not_next("n")).next("b").checked(), "behind the group"),
        (lambda: Pattern.begin(step("a")).where(letter("A")), "inside the group"),
        (lambda: step("a").within(0), "above 0 ms"),
        (lambda: step("a").where(lambda a, b, c: True), "takes 3 arguments"),
        (lambda: step("a").where("A"), "a condition is a function"),
        (lambda: Pattern.begin(""), "needs a name"),
        (lambda: Pattern.begin("a", Skip.skip_to_last("z")).checked(), "the pattern's steps are a"),
        (lambda: Skip.no_skip().throw_exception_on_miss(), "cannot miss"),
    ],
)
def test_what_cannot_mean_anything_is_refused(build: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build()
