"""Tumbling and sliding event-time windows: firing, lateness, cleanup, on both paths."""

from __future__ import annotations

from typing import Any

import pytest
from operator_harness import OperatorHarness
from window_samples import (
    PlainEventTimeTrigger,
    ShowProcess,
    averaging,
    dropped,
    showing,
    summing,
)

from penstock.core.errors import ConfigError, TimestampError
from penstock.core.ids import MAX_TIME, MIN_TIME
from penstock.operators.window.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.sessions import EventTimeSessionWindows
from penstock.operators.window.triggers import EventTimeTrigger, NeverTrigger, PurgingTrigger
from penstock.operators.window.window_state import ListContents

BOTH = pytest.mark.parametrize(
    "trigger", [EventTimeTrigger(), PlainEventTimeTrigger()], ids=["fast", "general"]
)
FIELD = [
    (("b", 1), 3999),
    (("b", 1), 3000),
    (("a", 1), 20),
    (("a", 1), 0),
    (("a", 1), 999),
    (("b", 1), 1998),
    (("b", 1), 1999),
    (("b", 1), 1000),
]


@BOTH
def test_tumbling_sums_appear_at_the_end_of_each_window(trigger: Any) -> None:
    harness = OperatorHarness(summing(TumblingEventTimeWindows(3000, 0), trigger=trigger))
    harness.send(*FIELD)
    for quiet in (999, 1999):
        harness.watermark(quiet)
        assert harness.take() == []
    harness = OperatorHarness(
        summing(TumblingEventTimeWindows(3000, 0), trigger=trigger), restored=harness.snapshot()
    )
    harness.watermark(2999)
    assert harness.take() == [(("a", 3), 2999), (("b", 3), 2999)]
    for quiet in (3999, 4999):
        harness.watermark(quiet)
        assert harness.take() == []
    harness.watermark(5999)
    assert harness.take() == [(("b", 2), 5999)]
    harness.watermark(7999)
    assert harness.take() == []
    assert harness.table_sizes() == {}
    assert harness.out.watermarks == [2999, 3999, 4999, 5999, 7999]


@BOTH
def test_sliding_sums_count_an_element_in_every_window_that_holds_it(trigger: Any) -> None:
    def build() -> WindowOperator:
        return summing(SlidingEventTimeWindows(3000, 1000, 0), trigger=trigger)

    harness = OperatorHarness(build())
    harness.send(*FIELD)
    got = {}
    for time in (999, 1999, 2999, 3999, 4999, 5999, 6999, 7999):
        harness.watermark(time)
        got[time] = sorted(harness.take())
        harness = OperatorHarness(build(), restored=harness.snapshot())
    assert got == {
        999: [(("a", 3), 999)],
        1999: [(("a", 3), 1999), (("b", 3), 1999)],
        2999: [(("a", 3), 2999), (("b", 3), 2999)],
        3999: [(("b", 5), 3999)],
        4999: [(("b", 2), 4999)],
        5999: [(("b", 2), 5999)],
        6999: [],
        7999: [],
    }
    assert harness.table_sizes() == {}


@BOTH
def test_one_watermark_gives_one_batch_in_order_of_window_end(trigger: Any) -> None:
    harness = OperatorHarness(showing(TumblingEventTimeWindows(10, 0), trigger=trigger))
    harness.send((("a", 1), 25), (("a", 2), 5), (("b", 3), 6), (("a", 4), 7))
    harness.watermark(MAX_TIME)
    assert harness.take() == [
        (("a", (0, 10), [2, 4]), 9),
        (("b", (0, 10), [3]), 9),
        (("a", (20, 30), [1]), 29),
    ]
    assert harness.out.batches == 1


@BOTH
def test_a_timer_per_key_and_window_and_nothing_left_behind(trigger: Any) -> None:
    harness = OperatorHarness(averaging(TumblingEventTimeWindows(10, 0), trigger=trigger))
    harness.send(*[(("a", n), n) for n in range(10)], (("b", 0), 3))
    assert harness.table_sizes() == {"_window/contents": 2, "_timers/event": 2}
    harness.watermark(8)
    assert harness.take() == []
    harness.watermark(9)
    assert harness.take() == [(4.5, 9), (0.0, 9)]
    assert harness.table_sizes() == {}


@BOTH
def test_late_elements_are_counted_or_sent_aside(trigger: Any) -> None:
    for tag in (None, "late"):
        harness = OperatorHarness(summing(TumblingEventTimeWindows(2000, 0), trigger=trigger, late_tag=tag))
        harness.send((("b", 1), 500))
        harness.watermark(1500)
        harness.send((("b", 1), 1300))
        harness.watermark(2300)
        assert harness.take() == [(("b", 2), 1999)]
        harness.send((("b", 7), 1997), (("b", 1), 2301), (("a", 8), 1999))
        harness.watermark(6000)
        assert harness.take() == [(("b", 1), 3999)]
        late = [(("b", 7), 1997), (("a", 8), 1999)]
        assert harness.take_side("late") == ([] if tag is None else late)
        assert dropped(harness) == (2 if tag is None else 0)


@BOTH
def test_sliding_element_is_late_only_when_all_its_windows_are(trigger: Any) -> None:
    harness = OperatorHarness(
        showing(SlidingEventTimeWindows(3000, 1000, 0), trigger=trigger, late_tag="late")
    )
    harness.send((("a", 1), 1000))
    harness.watermark(1999)
    assert harness.take_values() == [("a", (-1000, 2000), [1])]
    harness.send((("a", 2), 1000), (("a", 3), -1000))
    assert harness.take_side("late") == [(("a", 3), -1000)], "the other one still lives in two windows"
    harness.watermark(MAX_TIME)
    assert harness.take_values() == [("a", (0, 3000), [1, 2]), ("a", (1000, 4000), [1, 2])]


def test_elements_in_gaps_between_windows_vanish_unless_their_time_has_passed() -> None:
    harness = OperatorHarness(summing(SlidingEventTimeWindows(1000, 3000, 0), late_tag="late"))
    harness.send((("a", 1), 1500))
    assert harness.table_sizes() == {}
    assert harness.take_side("late") == []
    harness.watermark(2000)
    harness.send((("a", 2), 1500), (("a", 3), 2500))
    assert harness.take_side("late") == [(("a", 2), 1500)]


def test_within_the_lateness_every_element_fires_the_whole_window_again() -> None:
    operator = showing(TumblingEventTimeWindows(2000, 0), allowed_lateness_ms=500, late_tag="late")
    harness = OperatorHarness(operator)
    harness.send((("b", 1), 500))
    harness.watermark(1500)
    harness.send((("b", 2), 1300))
    harness.watermark(2300)
    assert harness.take() == [(("b", (0, 2000), [1, 2]), 1999)]
    harness.send((("b", 3), 1997), (("b", 4), 1998))
    assert harness.take_values() == [("b", (0, 2000), [1, 2, 3]), ("b", (0, 2000), [1, 2, 3, 4])]
    harness = OperatorHarness(
        showing(TumblingEventTimeWindows(2000, 0), allowed_lateness_ms=500, late_tag="late"),
        restored=harness.snapshot(),
    )
    harness.watermark(2498)
    harness.send((("b", 5), 0))
    assert harness.take_values() == [("b", (0, 2000), [1, 2, 3, 4, 5])]
    harness.watermark(2499)
    assert harness.table_sizes() == {}, "cleaned up exactly at end + lateness"
    harness.send((("b", 6), 1999))
    assert harness.take() == []
    assert harness.take_side("late") == [(("b", 6), 1999)]


def test_purging_trigger_with_lateness_emits_only_what_is_new() -> None:
    operator = summing(
        TumblingEventTimeWindows(2000, 0),
        trigger=PurgingTrigger.of(EventTimeTrigger.create()),
        allowed_lateness_ms=500,
    )
    harness = OperatorHarness(operator)
    harness.send((("b", 1), 500))
    harness.watermark(1500)
    harness.send((("b", 1), 1300))
    harness.watermark(2300)
    assert harness.take() == [(("b", 2), 1999)]
    harness.send((("b", 1), 1997))
    assert harness.take() == [(("b", 1), 1999)]
    harness.send((("b", 1), 1998))
    assert harness.take() == [(("b", 1), 1999)]
    assert harness.table_sizes() == {"_timers/event": 1}, "purged contents leave only the cleanup timer"
    harness.watermark(2499)
    assert harness.table_sizes() == {}


def test_cleanup_of_an_emptied_window_emits_nothing_but_clears_the_function() -> None:
    function = ShowProcess()
    operator = WindowOperator(
        TumblingEventTimeWindows(3, 0),
        ListContents(),
        function,
        trigger=PurgingTrigger.of(EventTimeTrigger.create()),
        allowed_lateness_ms=10,
    )
    harness = OperatorHarness(operator)
    harness.send((("a", 1), 1))
    harness.watermark(2)
    assert harness.take_values() == [("a", (0, 3), [1])]
    assert function.cleared == []
    harness.watermark(12)
    assert harness.take() == []
    assert function.cleared == [(0, 3)]
    assert harness.table_sizes() == {}


def test_lateness_so_large_that_cleanup_never_comes_needs_no_timer_for_it() -> None:
    harness = OperatorHarness(summing(TumblingEventTimeWindows(1000, 0), allowed_lateness_ms=MAX_TIME))
    harness.send((("a", 1), 500))
    assert harness.table_sizes() == {"_window/contents": 1, "_timers/event": 1}
    harness.watermark(MAX_TIME - 1)
    assert harness.take() == [(("a", 1), 999)]
    harness.send((("a", 2), 400))
    assert harness.take() == [(("a", 3), 999)]


@BOTH
def test_the_last_window_of_all_time_fires_at_the_end(trigger: Any) -> None:
    harness = OperatorHarness(summing(TumblingEventTimeWindows(1000, 0), trigger=trigger))
    harness.send((("a", 1), MAX_TIME), (("a", 2), MAX_TIME - 5))
    harness.watermark(MAX_TIME - 1)
    assert harness.take() == []
    harness.watermark(MAX_TIME)
    assert harness.take() == [(("a", 3), MAX_TIME)]


@BOTH
def test_negative_times_have_windows_too(trigger: Any) -> None:
    harness = OperatorHarness(summing(TumblingEventTimeWindows(10, 3), trigger=trigger))
    harness.send((("a", 1), -8), (("a", 2), -7), (("a", 4), 2), (("a", 8), 3))
    harness.watermark(MAX_TIME)
    assert harness.take() == [(("a", 1), -8), (("a", 6), 2), (("a", 8), 12)]


@BOTH
def test_no_timestamp_is_an_error_that_names_the_record(trigger: Any) -> None:
    harness = OperatorHarness(summing(TumblingEventTimeWindows(10, 0), trigger=trigger))
    with pytest.raises(TimestampError, match="assign_timestamps_and_watermarks"):
        harness.send((("a", 1), 5), (("a", 2), MIN_TIME))
    assert harness.operator.current_record() == ("a", 2)


@BOTH
def test_the_window_is_known_late_even_before_any_timer_exists(trigger: Any) -> None:
    harness = OperatorHarness(summing(TumblingEventTimeWindows(10, 0), trigger=trigger))
    harness.watermark(20)
    harness.send((("a", 1), 5))
    assert dropped(harness) == 1
    assert harness.table_sizes() == {}


def test_after_a_restore_nothing_is_late_until_the_next_watermark() -> None:
    harness = OperatorHarness(summing(TumblingEventTimeWindows(10, 0)))
    harness.send((("a", 1), 15))
    harness.watermark(12)
    harness = OperatorHarness(summing(TumblingEventTimeWindows(10, 0)), restored=harness.snapshot())
    harness.send((("a", 2), 5))
    harness.watermark(20)
    assert harness.take() == [(("a", 2), 9), (("a", 1), 19)]
    assert dropped(harness) == 0


def test_window_all_needs_no_keys() -> None:
    for trigger in (None, PlainEventTimeTrigger()):
        operator = summing(TumblingEventTimeWindows(10, 0), keyed=False, trigger=trigger)
        harness = OperatorHarness(operator, key=None)
        harness.send((("a", 1), 1), (("b", 2), 2), (("c", 4), 11))
        harness.watermark(MAX_TIME)
        assert harness.take() == [(("a", 3), 9), (("c", 4), 19)]


def test_combinations_that_cannot_work_are_refused_when_built() -> None:
    with pytest.raises(ConfigError, match="NeverTrigger"):
        summing(EventTimeSessionWindows(5), trigger=NeverTrigger())
    with pytest.raises(ConfigError, match="lateness"):
        summing(TumblingEventTimeWindows(5, 0), allowed_lateness_ms=-1)
    with pytest.raises(ConfigError, match="window function"):
        WindowOperator(TumblingEventTimeWindows(5, 0), ListContents())
    with pytest.raises(ConfigError, match="not a window function"):
        WindowOperator(TumblingEventTimeWindows(5, 0), ListContents(), lambda *_: [])  # type: ignore[arg-type]
