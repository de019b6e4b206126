"""When windows fire: each trigger, and what the operator makes of its answers."""

from __future__ import annotations

from typing import Any

import pytest
from operator_harness import OperatorHarness
from window_samples import Listing, ShowProcess, showing, summing

from penstock.core.durations import Time
from penstock.core.errors import ConfigError
from penstock.core.ids import MAX_TIME
from penstock.operators.window.assigners import (
    GlobalWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.operators.window.continuous import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.sessions import EventTimeSessionWindows
from penstock.operators.window.triggers import CountTrigger, PurgingTrigger, Trigger, TriggerResult
from penstock.operators.window.window_state import AggregateContents, ListContents
from penstock.state.descriptors import ValueStateDescriptor


class Scripted(Trigger[Any, Any]):
    """Answers as told and notes what it was asked."""

    def __init__(self, on_element: TriggerResult, on_time: TriggerResult = TriggerResult.CONTINUE) -> None:
        self._answers = (on_element, on_time)
        self.asked: list[Any] = []

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        self.asked.append(("element", timestamp, ctx.get_current_watermark()))
        return self._answers[0]

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        self.asked.append(("processing", time, ctx.get_current_processing_time()))
        return self._answers[1]

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        self.asked.append(("event", time, ctx.get_current_watermark()))
        return self._answers[1]

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
        self.asked.append(("merge", tuple(window)))

    def clear(self, window: Any, ctx: Any) -> None:
        self.asked.append(("clear", tuple(window)))


TEN = TumblingEventTimeWindows(10, 0)


@pytest.mark.parametrize(
    ("answer", "emitted", "kept"),
    [
        (TriggerResult.CONTINUE, [], 1),
        (TriggerResult.FIRE, [("a", (0, 10), [1])], 1),
        (TriggerResult.PURGE, [], 0),
        (TriggerResult.FIRE_AND_PURGE, [("a", (0, 10), [1])], 0),
    ],
)
def test_answers_to_an_element(answer: TriggerResult, emitted: Any, kept: int) -> None:
    trigger = Scripted(answer)
    harness = OperatorHarness(showing(TEN, trigger=trigger))
    harness.send((("a", 1), 3))
    assert harness.take_values() == emitted
    assert harness.table_sizes().get("_window/contents", 0) == kept
    assert harness.table_sizes()["_timers/event"] == 1, "the cleanup timer is there in any case"
    assert trigger.asked == [("element", 3, -(2**63))], "purging does not clear the trigger"


@pytest.mark.parametrize(
    ("answer", "emitted"),
    [
        (TriggerResult.CONTINUE, []),
        (TriggerResult.FIRE, [("a", (0, 10), [1])]),
        (TriggerResult.PURGE, []),
        (TriggerResult.FIRE_AND_PURGE, [("a", (0, 10), [1])]),
    ],
)
def test_answers_to_the_cleanup_timer(answer: TriggerResult, emitted: Any) -> None:
    trigger = Scripted(TriggerResult.CONTINUE, answer)
    harness = OperatorHarness(showing(TEN, trigger=trigger))
    harness.send((("a", 1), 3))
    harness.watermark(12)
    assert harness.take_values() == emitted
    assert trigger.asked[1:] == [("event", 9, 12), ("clear", (0, 10))], "asked once, with the new watermark"
    assert harness.table_sizes() == {}


def test_the_trigger_hears_of_a_merge_before_the_old_windows_are_cleared_and_the_element_comes() -> None:
    trigger = Scripted(TriggerResult.CONTINUE)
    harness = OperatorHarness(showing(EventTimeSessionWindows(10), trigger=trigger))
    harness.send((("a", 1), 0), (("a", 2), 5))
    assert trigger.asked[1:] == [("merge", (0, 15)), ("clear", (0, 10)), ("element", 5, -(2**63))]
    assert harness.table_sizes()["_timers/event"] == 1, "the cleanup timer of the old window is deleted"


class EveryThird(Scripted):
    """Registers its own timers in both domains, and takes one back."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        ctx.register_event_time_timer(3)
        ctx.register_event_time_timer(3)
        ctx.register_event_time_timer(6)
        ctx.register_processing_time_timer(4)
        ctx.register_processing_time_timer(5)
        ctx.delete_event_time_timer(6)
        ctx.delete_processing_time_timer(5)
        ctx.delete_processing_time_timer(77)
        ctx.get_metric_group().counter("seen").inc()
        return TriggerResult.CONTINUE


def test_triggers_own_timers_fire_once_in_both_domains() -> None:
    trigger = EveryThird(TriggerResult.CONTINUE, TriggerResult.FIRE)
    harness = OperatorHarness(showing(TEN, trigger=trigger))
    harness.send((("a", 1), 1), (("a", 2), 1))
    harness.clock_to(4)
    assert harness.take() == []
    harness.clock_to(5)
    assert harness.take_values() == [("a", (0, 10), [1, 2])]
    harness.watermark(7)
    assert harness.take_values() == [("a", (0, 10), [1, 2])]
    assert trigger.asked == [("processing", 4, 5), ("event", 3, 7)]
    assert harness.metrics.counter("seen").count == 2


def test_firing_without_contents_does_not_call_the_function() -> None:
    trigger = Scripted(TriggerResult.PURGE, TriggerResult.FIRE)
    function = ShowProcess()
    harness = OperatorHarness(WindowOperator(TEN, ListContents(), function, trigger=trigger))
    harness.send((("a", 1), 3))
    harness.watermark(9)
    assert harness.take() == []
    assert function.cleared == [(0, 10)]


def test_count_trigger_repeats_contents_and_purging_makes_them_disjoint() -> None:
    for trigger, expected in (
        (CountTrigger.of(2), [[1, 2], [1, 2, 3, 4]]),
        (PurgingTrigger.of(CountTrigger.of(2)), [[1, 2], [3, 4]]),
    ):
        harness = OperatorHarness(
            WindowOperator(GlobalWindows.create(), AggregateContents(Listing()), trigger=trigger)
        )
        harness.send(*[(("a", n), n) for n in range(1, 6)], (("b", 9), 0))
        assert harness.take() == [(values, MAX_TIME) for values in expected]
        assert "_timers/event" not in harness.table_sizes(), "global windows have no cleanup timer"
        harness = OperatorHarness(
            WindowOperator(GlobalWindows.create(), AggregateContents(Listing()), trigger=trigger),
            restored=harness.snapshot(),
        )
        harness.send((("a", 6), 0))
        assert len(harness.take()) == 1, "the count is part of the snapshot"


def test_global_windows_never_fire_by_themselves() -> None:
    harness = OperatorHarness(summing(GlobalWindows.create()))
    harness.send((("a", 1), 0))
    harness.watermark(MAX_TIME)
    assert harness.take() == []
    assert harness.table_sizes() == {"_window/contents": 1}


def test_a_count_trigger_on_time_windows_is_forgotten_with_its_window() -> None:
    harness = OperatorHarness(showing(TEN, trigger=CountTrigger.of(2)))
    harness.send((("a", 1), 3))
    assert harness.table_sizes()["_trigger/count"] == 1
    harness.watermark(9)
    assert harness.take() == []
    assert harness.table_sizes() == {}


def continuous_event(interval: int = 5, size: int = 20) -> OperatorHarness:
    return OperatorHarness(
        showing(TumblingEventTimeWindows(size, 0), trigger=ContinuousEventTimeTrigger(interval))
    )


def test_continuous_event_time_fires_each_interval_and_at_the_end() -> None:
    harness = continuous_event()
    fired = []
    harness.send((("a", 1), 1))
    for time in range(20):
        harness.watermark(time)
        fired += [(time, value) for value in harness.take_values()]
        if time == 7:
            harness.send((("a", 2), 8))
    both = ("a", (0, 20), [1, 2])
    assert fired == [(5, ("a", (0, 20), [1])), (10, both), (15, both), (19, both)]
    assert harness.table_sizes() == {}


def test_continuous_event_time_has_two_timers_per_window() -> None:
    harness = continuous_event()
    harness.send((("a", 1), 1), (("a", 1), 2), (("a", 1), 13), (("b", 1), 1))
    assert harness.table_sizes()["_timers/event"] == 4
    assert harness.table_sizes()["_trigger/fire-time"] == 2
    harness.watermark(5)
    assert len(harness.take()) == 2
    assert harness.table_sizes()["_timers/event"] == 4, "re-armed"


def test_continuous_event_time_catches_up_when_the_watermark_jumps() -> None:
    harness = continuous_event()
    harness.send((("a", 1), 6))
    harness.watermark(MAX_TIME)
    assert [time for _, time in harness.take()] == [19, 19, 19], "at 10, 15 and the end"
    assert harness.table_sizes() == {}


def test_continuous_event_time_interval_beyond_the_window_fires_at_the_end_only() -> None:
    harness = continuous_event(interval=50)
    harness.send((("a", 1), 6))
    harness.watermark(18)
    assert harness.take() == []
    harness.watermark(60)
    assert len(harness.take()) == 1


def test_continuous_event_time_fires_at_once_for_late_elements() -> None:
    operator = showing(
        TumblingEventTimeWindows(20, 0),
        trigger=ContinuousEventTimeTrigger.of(Time(5)),
        allowed_lateness_ms=10,
    )
    harness = OperatorHarness(operator)
    harness.send((("a", 1), 17))
    harness.watermark(19)
    harness.take()
    harness.send((("a", 2), 3))
    assert harness.take_values() == [("a", (0, 20), [1, 2])]
    harness.watermark(29)
    assert harness.table_sizes() == {}


def test_continuous_processing_time_fires_each_interval_and_at_the_end() -> None:
    operator = showing(
        TumblingProcessingTimeWindows(20, 0), trigger=ContinuousProcessingTimeTrigger.of(Time(8))
    )
    harness = OperatorHarness(operator, start_ms=3)
    harness.send((("a", 1), 0))
    fired = []
    for now in range(3, 30):
        harness.clock_to(now)
        fired += [now for _ in harness.take()]
    assert fired == [9, 17, 20]
    assert harness.table_sizes() == {}


def test_intervals_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="ContinuousEventTimeTrigger"):
        ContinuousEventTimeTrigger.of(Time.seconds(0))


def test_processing_time_tumbling_and_sliding() -> None:
    harness = OperatorHarness(showing(TumblingProcessingTimeWindows(3000, 0)), start_ms=3)
    harness.send((("b", 1), MAX_TIME), (("b", 2), 7000), (("a", 3), 7000))
    harness.clock_to(2999)
    assert harness.take() == []
    harness = OperatorHarness(
        showing(TumblingProcessingTimeWindows(3000, 0)), restored=harness.snapshot(), start_ms=9000
    )
    harness.clock_to(9000)
    assert harness.take() == [(("b", (0, 3000), [1, 2]), 2999), (("a", (0, 3000), [3]), 2999)], "overdue"
    assert harness.table_sizes() == {}

    harness = OperatorHarness(showing(SlidingProcessingTimeWindows(3000, 1000, 0)), start_ms=3)
    harness.send((("a", 1), 0))
    harness.clock_to(1000)
    assert harness.take() == [(("a", (-2000, 1000), [1]), 999)]
    harness.send((("a", 2), 0))
    harness.clock_to(3000)
    assert harness.take_values() == [("a", (-1000, 2000), [1, 2]), ("a", (0, 3000), [1, 2])]
    harness.operator.finish()
    harness.watermark(MAX_TIME)
    assert harness.take() == [], "the end of input does not flush processing-time windows"


def test_trigger_state_that_cannot_merge_is_refused_by_name() -> None:
    class Bad(Scripted):
        def on_merge(self, window: Any, ctx: Any) -> None:
            ctx.merge_partitioned_state(ValueStateDescriptor("mine"))

    harness = OperatorHarness(showing(EventTimeSessionWindows(10), trigger=Bad(TriggerResult.CONTINUE)))
    with pytest.raises(ConfigError, match="mine"):
        harness.send((("a", 1), 0), (("a", 2), 5))
