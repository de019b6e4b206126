"""Composite triggers, timeouts and continuous triggers, in the situations they were made for."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.errors import ConfigError, TimestampError
from penstock.datastream import OutputTag
from penstock.datastream.window import (
    AfterWatermark,
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    TumblingEventTimeWindows,
)
from penstock.testing import EndOfInput, Harness, ProcessingTimeTo, Record, WatermarkTo


def listed(assigner: Any, trigger: Any, lateness: int = 0) -> Any:
    def pipeline(stream: Any) -> Any:
        windows = stream.key_by(lambda value: value[0]).window(assigner).trigger(trigger)
        return windows.allowed_lateness(lateness).reduce(lambda a, b: (a[0], a[1] + b[1]))

    return pipeline


def at(time: int, number: int = 1) -> Record:
    return Record(("k", number), time)


HOURS = TumblingEventTimeWindows.of(3_600_000)
TENS = TumblingEventTimeWindows.of(10)


def test_early_on_time_and_late_results_of_one_window():
    trigger = (
        AfterWatermark.past_end_of_window()
        .with_early(ContinuousProcessingTimeTrigger.of(1_000))
        .with_late(CountTrigger.of(2))
    )
    with Harness(listed(HOURS, trigger, 3_600_000)) as harness:
        harness.push(at(5), ProcessingTimeTo(1_500), at(6), ProcessingTimeTo(2_500))
        assert harness.take() == [("k", 1), ("k", 2)]
        harness.push(WatermarkTo(3_599_999))
        assert harness.take() == [("k", 2)]
        harness.push(ProcessingTimeTo(60_000), at(7))
        assert harness.take() == []
        harness.push(at(8))
        assert harness.take() == [("k", 4)]
        harness.push(WatermarkTo(7_199_999))
        assert harness.state("k") == {} and harness.timers() == []


def test_what_the_early_trigger_counted_is_not_counted_late():
    trigger = AfterWatermark.with_early(CountTrigger.of(3)).with_late(CountTrigger.of(3))
    with Harness(listed(TENS, trigger, 100)) as harness:
        harness.push(at(1), at(2), WatermarkTo(9))
        assert harness.take() == [("k", 2)]
        harness.push(at(3), at(4))
        assert harness.take() == []
        harness.push(at(5))
        assert harness.take() == [("k", 5)]


def test_without_a_late_trigger_each_late_element_fires_and_without_an_early_one_nothing_does():
    with Harness(listed(TENS, AfterWatermark.past_end_of_window(), 100)) as harness:
        harness.push(at(1), at(2))
        assert harness.take() == []
        harness.push(WatermarkTo(9), at(3), at(4))
        assert harness.take() == [("k", 2), ("k", 3), ("k", 4)]


def test_purging_around_a_composite_gives_only_what_is_new():
    trigger = PurgingTrigger.of(AfterWatermark.with_early(CountTrigger.of(2)))
    with Harness(listed(TENS, trigger)) as harness:
        harness.push(at(1), at(2), at(3), WatermarkTo(9))
        assert harness.take() == [("k", 2), ("k", 1)]


def test_a_count_window_that_also_closes_after_a_while():
    trigger = PurgingTrigger.of(ProcessingTimeoutTrigger.of(CountTrigger.of(3), 1_000))
    with Harness(listed(GlobalWindows.create(), trigger)) as harness:
        harness.push(at(0), at(0), at(0))
        assert harness.take() == [("k", 3)] and harness.timers() == []
        harness.push(at(0), ProcessingTimeTo(900), at(0), ProcessingTimeTo(1_001))
        assert harness.take() == [("k", 2)]
        assert harness.state("k") == {} and harness.timers() == []
        harness.push(at(0), at(0), at(0))
        assert harness.take() == [("k", 3)]


def test_a_timeout_may_run_from_the_latest_element():
    trigger = PurgingTrigger.of(ProcessingTimeoutTrigger.of(CountTrigger.of(9), 1_000, True))
    with Harness(listed(GlobalWindows.create(), trigger)) as harness:
        harness.push(at(0), ProcessingTimeTo(900), at(0), ProcessingTimeTo(1_500))
        assert harness.take() == []
        harness.push(ProcessingTimeTo(1_901))
        assert harness.take() == [("k", 2)]


def test_a_timeout_does_not_take_the_end_of_the_window_away():
    trigger = ProcessingTimeoutTrigger.of(EventTimeTrigger.create(), 1_000)
    with Harness(listed(TENS, trigger)) as harness:
        harness.push(at(1), ProcessingTimeTo(1_001))
        assert harness.take() == [("k", 1)]
        harness.push(WatermarkTo(9))
        assert harness.take() == [("k", 1)] and harness.state("k") == {}


def test_a_continuous_clock_trigger_goes_on_in_event_time_windows_of_the_past():
    trigger = ContinuousProcessingTimeTrigger.of(1_000)
    with Harness(listed(TENS, trigger), start_ms=1_000_000) as harness:
        harness.push(at(1))
        harness.advance(2_500)
        assert harness.take() == [("k", 1), ("k", 1)]
        harness.push(WatermarkTo(9))
        assert harness.timers() == []


def test_a_continuous_trigger_on_a_global_window_comes_to_an_end():
    with Harness(listed(GlobalWindows.create(), ContinuousEventTimeTrigger.of(10))) as harness:
        harness.push(at(1), WatermarkTo(25), EndOfInput())
        assert len(harness.take()) == 4


def test_a_continuous_event_time_trigger_needs_timestamps():
    trigger = ContinuousEventTimeTrigger.of(10)
    with Harness(listed(GlobalWindows.create(), trigger)) as harness, pytest.raises(TimestampError):
        harness.push(("k", 1))


def test_wrong_arguments_are_named():
    with pytest.raises(ConfigError, match="above 0 ms"):
        ProcessingTimeoutTrigger.of(CountTrigger.of(1), 0)


def test_late_records_of_a_composite_go_to_the_side_output():
    late = OutputTag("late")

    def pipeline(stream: Any) -> Any:
        windows = stream.key_by(lambda value: value[0]).window(TENS)
        windows = windows.trigger(AfterWatermark.with_early(CountTrigger.of(1))).side_output_late_data(late)
        return windows.reduce(lambda a, b: a)

    with Harness(pipeline) as harness:
        harness.push(at(1), WatermarkTo(9), at(2, 7))
        assert harness.take(late) == [("k", 7)]
