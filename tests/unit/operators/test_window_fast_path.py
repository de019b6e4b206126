"""The fast path and the general path give the same results, whatever comes in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import OperatorHarness
from window_samples import Average, Listing, PlainEventTimeTrigger, Show, ShowProcess, Sum, dropped

from penstock.core.ids import MAX_TIME
from penstock.operators.window.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.operators.window.fixed_windows import fixed_assigner
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.triggers import EventTimeTrigger
from penstock.operators.window.window_state import AggregateContents, ListContents, ReduceContents

ASSIGNERS = [
    TumblingEventTimeWindows(10, 0),
    TumblingEventTimeWindows(7, -3),
    SlidingEventTimeWindows(12, 4, 1),
    SlidingEventTimeWindows(10, 10, 0),
]
KINDS: list[Any] = [
    lambda: (ListContents(), Show()),
    lambda: (ListContents(), ShowProcess()),
    lambda: (ReduceContents(Sum()), None),
    lambda: (AggregateContents(Average()), None),
    lambda: (AggregateContents(Listing()), None),
]

element = st.tuples(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), st.integers(-40, 80))
steps = st.lists(
    st.one_of(
        st.lists(element, min_size=1, max_size=8),
        st.integers(0, 25),
        st.sampled_from(["snapshot", "swap", "freeze"]),
    ),
    max_size=25,
)


def build(assigner: Any, kind: Any, trigger: Any, late_tag: str | None) -> WindowOperator:
    contents, function = kind()
    return WindowOperator(assigner, contents, function, trigger=trigger, late_tag=late_tag)


def play(script: list[Any], assigner: Any, kind: Any, late_tag: str | None, fast: bool, swap: bool) -> Any:
    """Everything that comes out, step by step; ``swap`` changes paths at each snapshot marked so.

    From shared panes there is no way back to the general path.
    """
    triggers = [EventTimeTrigger(), PlainEventTimeTrigger()]
    at = 0 if fast else 1
    shared = build(assigner, kind, triggers[0], late_tag).shares_panes
    harness = OperatorHarness(build(assigner, kind, triggers[at], late_tag))
    watermark = -50
    log: list[Any] = []
    for step in [*script, MAX_TIME + 50]:
        if isinstance(step, list):
            harness.send(*step)
        elif isinstance(step, int):
            watermark = min(watermark + step, MAX_TIME)
            harness.watermark(watermark)
        elif step == "freeze":
            harness.keyed.freeze()
        else:
            stays = shared and at == 0
            at = 1 - at if step == "swap" and swap and not stays else at
            log.append(dropped(harness))
            harness = OperatorHarness(
                build(assigner, kind, triggers[at], late_tag), restored=harness.snapshot()
            )
            harness.watermark(watermark)
        results = harness.take()
        if shared:
            # Ties between keys have no order, and panes are merged in the order of time.
            results = [(sorted(value) if isinstance(value, list) else value, time) for value, time in results]
            results.sort(key=lambda result: (result[1], repr(result)))
        log.append((results, harness.take_side("late"), dropped(harness)))
    assert harness.table_sizes() == {}
    return log


@settings(max_examples=150, deadline=None)
@given(
    script=steps,
    assigner=st.sampled_from(ASSIGNERS),
    kind=st.sampled_from(KINDS),
    late_tag=st.sampled_from([None, "late"]),
)
def test_both_paths_agree_step_by_step(script: Any, assigner: Any, kind: Any, late_tag: Any) -> None:
    general = play(script, assigner, kind, late_tag, fast=False, swap=False)
    assert play(script, assigner, kind, late_tag, fast=True, swap=False) == general
    assert play(script, assigner, kind, late_tag, fast=True, swap=True) == general
    assert play(script, assigner, kind, late_tag, fast=False, swap=True) == general


@settings(max_examples=60, deadline=None)
@given(elements=st.lists(element, min_size=1, max_size=20), assigner=st.sampled_from(ASSIGNERS))
def test_batching_does_not_matter(elements: Any, assigner: Any) -> None:
    def run(size: int) -> list[Any]:
        harness = OperatorHarness(WindowOperator(assigner, ListContents(), Show()))
        for at in range(0, len(elements), size):
            harness.send(*elements[at : at + size])
        harness.watermark(MAX_TIME)
        return harness.take()

    assert run(1) == run(3) == run(len(elements))


@pytest.mark.parametrize("assigner", ASSIGNERS)
def test_the_fast_path_serves_the_common_case(assigner: Any) -> None:
    assert fixed_assigner(assigner) is assigner


def test_anything_uncommon_takes_the_general_path() -> None:
    class Mine(TumblingEventTimeWindows[Any]):
        pass

    assert fixed_assigner(Mine(10, 0)) is None
    assert fixed_assigner(SlidingEventTimeWindows(10, 3, 0)) is None


def test_a_snapshot_taken_with_lateness_is_wound_up_without_repeating_results() -> None:
    before = OperatorHarness(WindowOperator(ASSIGNERS[0], ReduceContents(Sum()), allowed_lateness_ms=100))
    before.send((("a", 1), 5), (("a", 2), 15))
    before.watermark(9)
    assert before.take_values() == [("a", 1)]
    after = OperatorHarness(WindowOperator(ASSIGNERS[0], ReduceContents(Sum())), restored=before.snapshot())
    after.watermark(MAX_TIME)
    assert after.take_values() == [("a", 2)]
    assert after.table_sizes() == {}
