"""Session windows through the operator: growing, joining, lateness, snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import OperatorHarness
from window_samples import Listing, Show, ShowProcess, Sum, dropped, showing, summing

from penstock.core.errors import ConfigError
from penstock.core.ids import MAX_TIME
from penstock.operators.window.assigners import MergingWindowAssigner
from penstock.operators.window.continuous import ContinuousEventTimeTrigger
from penstock.operators.window.functions import ProcessWindowFunction
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.sessions import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from penstock.operators.window.triggers import CountTrigger, EventTimeTrigger, PurgingTrigger
from penstock.operators.window.window_state import AggregateContents, ListContents, ReduceContents
from penstock.operators.window.windows import TimeWindow
from penstock.state.descriptors import ValueStateDescriptor

SESSIONS = EventTimeSessionWindows(3000)


@pytest.mark.parametrize("contents", [ListContents, lambda: ReduceContents(Sum())])
def test_sessions_grow_close_and_survive_a_restore(contents: Any) -> None:
    def build() -> WindowOperator:
        return WindowOperator(SESSIONS, contents(), Total())

    harness = OperatorHarness(build())
    harness.send((("b", 1), 0), (("b", 2), 1000), (("b", 3), 2500), (("a", 1), 10), (("a", 2), 1000))
    harness = OperatorHarness(build(), restored=harness.snapshot())
    harness.send((("a", 3), 2500), (("b", 4), 5501), (("b", 5), 6000), (("b", 5), 6000), (("b", 6), 6050))
    harness.watermark(12000)
    assert harness.take() == [
        (("b", 6, 0, 5500), 5499),
        (("a", 6, 10, 5500), 5499),
        (("b", 20, 5501, 9050), 9049),
    ]
    harness.send((("b", 10), 15000), (("b", 20), 15000))
    harness.watermark(17999)
    assert harness.take() == [(("b", 30, 15000, 18000), 17999)]
    assert harness.table_sizes() == {}


class Total(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        yield (key, sum(n for _, n in elements), context.window().start, context.window().end)


def test_an_element_exactly_one_gap_later_still_belongs() -> None:
    harness = OperatorHarness(showing(SESSIONS))
    harness.send((("a", 1), 0), (("a", 2), 3000), (("a", 3), 6001))
    harness.watermark(MAX_TIME)
    assert harness.take_values() == [("a", (0, 6000), [1, 2]), ("a", (6001, 9001), [3])]


def test_a_bridge_joins_two_sessions_and_their_counts() -> None:
    def build() -> WindowOperator:
        return WindowOperator(
            SESSIONS, ListContents(), Total(), trigger=PurgingTrigger.of(CountTrigger.of(4))
        )

    harness = OperatorHarness(build())
    harness.send((("b", 1), 0), (("b", 2), 1000), (("b", 3), 2500), (("b", 4), 3500))
    assert harness.take() == [(("b", 10, 0, 6500), 6499)]
    harness.send((("a", 1), 10), (("a", 2), 1000))
    harness = OperatorHarness(build(), restored=harness.snapshot())
    harness.send((("a", 3), 2500), (("a", 4), 6000), (("a", 5), 6500), (("a", 6), 7000))
    assert harness.take() == []
    harness.send((("a", 10), 4500))
    assert harness.take() == [(("a", 31, 10, 10000), 9999)]
    harness.watermark(MAX_TIME)
    assert harness.take() == []
    assert harness.table_sizes() == {}


def test_contents_of_joined_sessions_keep_every_element_once() -> None:
    harness = OperatorHarness(WindowOperator(SESSIONS, AggregateContents(Listing()), Show2()))
    harness.send((("a", 1), 0), (("a", 2), 10000), (("a", 3), 5000), (("a", 4), 7500), (("a", 5), 2800))
    assert harness.table_sizes() == {"_window/contents": 1, "_window/merging": 1, "_timers/event": 1}
    harness.watermark(MAX_TIME)
    [(key, window, numbers)] = harness.take_values()
    assert (key, window, sorted(numbers)) == ("a", (0, 13000), [1, 2, 3, 4, 5])


class Show2(Show):
    """For aggregates: the one element is the list of numbers."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
        [numbers] = inputs
        yield (key, tuple(window), numbers)


class Single(EventTimeSessionWindows[Any]):
    """Assigns windows of length zero, except to the value 33."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return [TimeWindow(timestamp, timestamp + (3 if element[1] == 33 else 0))]


def test_point_sessions_merge_with_an_interval_that_holds_them() -> None:
    harness = OperatorHarness(showing(Single(1)))
    harness.send((("a", 1), 0), (("a", 33), 1), (("a", 2), 3), (("b", 1), 5))
    harness.watermark(MAX_TIME)
    assert harness.take_values() == [("a", (0, 0), [1]), ("a", (1, 4), [33, 2]), ("b", (5, 5), [1])]


class GapIsNumber(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return int(element[1])


def test_dynamic_gaps() -> None:
    harness = OperatorHarness(showing(EventTimeSessionWindows.with_dynamic_gap(GapIsNumber())))
    harness.send((("a", 5000), 10), (("a", 4000), 20), (("b", 2000), 15000), (("b", 6000), 15100))
    harness.watermark(MAX_TIME)
    assert harness.take() == [
        (("a", (10, 5010), [5000, 4000]), 5009),
        (("b", (15000, 21100), [2000, 6000]), 21099),
    ]


@pytest.mark.parametrize("purging", [False, True])
def test_lateness_zero_drops_an_old_element_unless_a_living_session_takes_it(purging: bool) -> None:
    trigger = PurgingTrigger.of(EventTimeTrigger.create()) if purging else EventTimeTrigger.create()
    operator = WindowOperator(SESSIONS, ReduceContents(Sum()), Total(), trigger=trigger, late_tag="late")
    harness = OperatorHarness(operator)
    harness.send((("b", 1), 1000))
    harness.watermark(1999)
    harness.send((("b", 1), 2000))
    harness.watermark(4998)
    harness.send((("b", 1), 4500))
    harness.watermark(7400)
    harness.send((("b", 1), 7400))
    harness.send((("b", 1), 7300))
    harness.watermark(11501)
    assert harness.take() == [(("b", 5, 1000, 10400), 10399)]
    harness.send((("b", 1), 11600))
    harness.watermark(14600)
    assert harness.take() == [(("b", 1, 11600, 14600), 14599)]
    harness.send((("b", 1), 10000))
    assert harness.take_side("late") == [(("b", 1), 10000)]
    harness.send((("b", 1), 14500))
    harness.watermark(20000)
    assert harness.take() == [(("b", 1, 14500, 17500), 17499)]
    assert harness.take_side("late") == []
    assert harness.table_sizes() == {}


def late_session(purging: bool, lateness: int) -> OperatorHarness:
    trigger = PurgingTrigger.of(EventTimeTrigger.create()) if purging else EventTimeTrigger.create()
    return OperatorHarness(
        WindowOperator(
            SESSIONS, ReduceContents(Sum()), Total(), trigger=trigger, allowed_lateness_ms=lateness
        )
    )


@pytest.mark.parametrize("purging", [False, True])
def test_late_elements_within_the_lateness_extend_sessions_that_have_fired(purging: bool) -> None:
    harness = late_session(purging, 10000)
    harness.send((("b", 1), 1000))
    harness.watermark(1999)
    harness.send((("b", 1), 2000))
    harness.watermark(4998)
    harness.send((("b", 1), 4500))
    harness.watermark(8500)
    assert harness.take() == [(("b", 3, 1000, 7500), 7499)]
    harness.send((("b", 1), 7400))
    harness.watermark(11501)
    assert harness.take() == [(("b", 1 if purging else 4, 1000, 10400), 10399)]
    harness.send((("b", 1), 11600))
    harness.watermark(14600)
    assert harness.take() == [(("b", 1, 11600, 14600), 14599)]
    harness.send((("b", 1), 10000))
    assert harness.take() == [(("b", 1 if purging else 6, 1000, 14600), 14599)], "joined and fired at once"
    harness.send((("b", 1), 14500))
    assert harness.take() == []
    harness.watermark(20000)
    assert harness.take() == [(("b", 1 if purging else 7, 1000, 17500), 17499)]
    harness.watermark(100000)
    assert harness.take() == []
    assert dropped(harness) == 0
    assert harness.table_sizes() == {}


def test_late_alone_late_joined_and_too_late() -> None:
    harness = late_session(False, 10)
    harness.send((("b", 1), 1000))
    harness.watermark(4000)
    assert harness.take() == [(("b", 1, 1000, 4000), 3999)]
    harness.watermark(4008)
    harness.send((("b", 2), 1005))
    assert harness.take() == [(("b", 3, 1000, 4005), 4004)], "the session was kept for another 10 ms"
    harness.watermark(4014)
    assert harness.table_sizes() == {}
    harness.send((("b", 4), 1000))
    assert (harness.take(), dropped(harness)) == ([], 1)
    assert harness.table_sizes() == {}, "a window that is born late leaves no trace"


def test_window_state_is_refused_in_sessions() -> None:
    class Wrong(ProcessWindowFunction[Any, Any, Any, Any]):
        def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
            context.window_state().get_state(ValueStateDescriptor("x"))
            return []

    harness = OperatorHarness(WindowOperator(SESSIONS, ListContents(), Wrong()))
    harness.send((("a", 1), 0))
    with pytest.raises(ConfigError, match="global_state"):
        harness.watermark(MAX_TIME)


def test_clear_is_called_once_per_session_not_per_merge() -> None:
    function = ShowProcess()
    harness = OperatorHarness(WindowOperator(SESSIONS, ListContents(), function))
    harness.send((("a", 1), 0), (("a", 2), 1000), (("a", 3), 2000))
    harness.watermark(MAX_TIME)
    assert function.cleared == [(0, 5000)]


class Shrinking(EventTimeSessionWindows[Any]):
    """Breaks the rule: a merge may end before the windows it joins."""

    def merge_windows(self, windows: Any, callback: MergingWindowAssigner.MergeCallback[Any]) -> None:
        callback.merge(list(windows), TimeWindow(0, 1))


def test_a_merge_must_not_end_a_window_before_the_watermark() -> None:
    harness = OperatorHarness(showing(Shrinking(3000)))
    harness.watermark(500)
    harness.send((("a", 1), 1000))
    with pytest.raises(ConfigError, match="must not make a window end earlier"):
        harness.send((("a", 1), 2000))


def test_continuous_trigger_keeps_the_earliest_firing_when_sessions_join() -> None:
    operator = showing(EventTimeSessionWindows(10), trigger=ContinuousEventTimeTrigger(5))
    harness = OperatorHarness(operator)
    harness.send((("a", 1), 2), (("a", 2), 20), (("a", 3), 11))
    assert harness.table_sizes()["_trigger/fire-time"] == 1
    for time, expected in (
        (4, []),
        (5, [("a", (2, 30), [1, 2, 3])]),
        (9, []),
        (10, [("a", (2, 30), [1, 2, 3])]),
    ):
        harness.watermark(time)
        assert [(k, w, sorted(n)) for k, w, n in harness.take_values()] == expected
    harness.watermark(MAX_TIME)
    assert len(harness.take()) == 4, "at 15, 20, 25 and at the end, 29"
    assert harness.table_sizes() == {}


def test_processing_time_sessions() -> None:
    harness = OperatorHarness(showing(ProcessingTimeSessionWindows(3000)))
    harness.clock_to(3)
    harness.send((("b", 1), MAX_TIME))
    harness.clock_to(1000)
    harness.send((("b", 2), 0), (("a", 3), 0))
    harness.clock_to(3999)
    assert harness.take() == []
    harness.clock_to(5000)
    assert harness.take() == [(("b", (3, 4000), [1, 2]), 3999), (("a", (1000, 4000), [3]), 3999)]
    harness.send((("b", 4), 0))
    harness.clock_to(8000)
    assert harness.take_values() == [("b", (5000, 8000), [4])]
    assert harness.table_sizes() == {}


def expected_sessions(times: list[int], gap: int) -> list[tuple[int, int, int]]:
    """Start, end and size of each session, computed the plain way."""
    found: list[tuple[int, int, int]] = []
    for time in sorted(times):
        if found and time <= found[-1][1]:
            start, _, size = found[-1]
            found[-1] = (start, time + gap, size + 1)
        else:
            found.append((time, time + gap, 1))
    return found


@settings(max_examples=80, deadline=None)
@given(times=st.lists(st.integers(-50, 200), min_size=1, max_size=30), cut=st.integers(0, 30))
def test_any_order_gives_the_same_sessions_also_across_a_restore(times: list[int], cut: int) -> None:
    harness = OperatorHarness(showing(EventTimeSessionWindows(7)))
    for time in times[:cut]:
        harness.send((("k", time), time))
    harness = OperatorHarness(showing(EventTimeSessionWindows(7)), restored=harness.snapshot())
    for time in times[cut:]:
        harness.send((("k", time), time))
    harness.watermark(MAX_TIME)
    got = [(window[0], window[1], len(numbers)) for _, window, numbers in harness.take_values()]
    assert got == expected_sessions(times, 7)
    assert harness.table_sizes() == {}


def test_sum_of_sessions_without_a_window_function() -> None:
    harness = OperatorHarness(summing(SESSIONS))
    harness.send((("a", 1), 0), (("a", 2), 2999))
    harness.watermark(MAX_TIME)
    assert harness.take() == [(("a", 3), 5998)]
