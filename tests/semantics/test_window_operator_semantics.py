"""Lateness, firing and cleanup of windows."""

from __future__ import annotations

import pytest
from window_kit import END, Windows, at, bounds

from penstock.core.errors import ConfigError
from penstock.core.ids import MAX_TIME
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.operators.window.functions import ProcessWindowFunction
from penstock.testing import ProcessingTimeTo, Record, WatermarkTo

TENS = TumblingEventTimeWindows.of(10)


class Numbered(ProcessWindowFunction):
    """Numbers the firings of each window, and says when it was cleared through its key's state."""

    fired = ValueStateDescriptor("fired")
    cleared = ValueStateDescriptor("cleared")

    def process(self, key, context, elements):
        count = context.window_state().get_state(self.fired)
        count.update((count.value() or 0) + 1)
        yield (
            key,
            bounds(context.window()),
            count.value(),
            context.global_state().get_state(self.cleared).value(),
        )

    def clear(self, context):
        context.window_state().get_state(self.fired).clear()
        context.global_state().get_state(self.cleared).update(bounds(context.window()))


class Scripted(Trigger):
    """Does what the element's number says, and counts elements in its own state."""

    seen = ValueStateDescriptor("seen")
    results = (TriggerResult.CONTINUE, TriggerResult.FIRE, TriggerResult.PURGE, TriggerResult.FIRE_AND_PURGE)

    def on_element(self, element, timestamp, window, ctx):
        seen = ctx.get_partitioned_state(self.seen)
        seen.update((seen.value() or 0) + 1)
        ctx.register_event_time_timer(window.max_timestamp() - 1)
        return self.results[element[1] % 10]

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        raise NotImplementedError

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.seen).clear()


# Cleanup time = max timestamp + allowed lateness, or max timestamp; saturates; none for global windows.


def test_a_window_is_cleaned_up_at_its_last_timestamp_plus_the_lateness():
    with Windows(TENS, Numbered(), allowed_lateness_ms=5).harness() as harness:
        harness.push(at(3), WatermarkTo(13))
        assert harness.take() == [("k", (0, 10), 1, None)]
        assert [timer.time for timer in harness.timers("k")] == [14]
        harness.watermark(14)
        assert harness.state("k") == {"cleared": (0, 10)} and harness.timers() == []


def test_a_processing_time_window_is_cleaned_up_at_its_last_timestamp():
    with Windows(TumblingProcessingTimeWindows.of(10), allowed_lateness_ms=50).harness() as harness:
        harness.push(at(3))
        assert [timer.time for timer in harness.timers("k")] == [9]
        harness.advance(10)
        assert harness.state("k") == {} and harness.timers() == []


@pytest.mark.parametrize("assigner", [TENS, SlidingEventTimeWindows.of(10, 5)])
def test_cleanup_times_saturate_at_the_end_of_time(assigner):
    last = MAX_TIME - 20
    windows = Windows(assigner, contents="reduce", allowed_lateness_ms=MAX_TIME)
    with windows.harness() as harness:
        harness.push(at(last, 1), WatermarkTo(MAX_TIME - 1))
        assert ("k", 1) in harness.take()
        harness.push(at(last, 2))
        assert ("k", 3) in harness.take()


def test_global_windows_are_never_cleaned():
    with Windows(GlobalWindows.create(), trigger=CountTrigger.of(2)).harness() as harness:
        harness.push(at(0, 1))
        assert harness.timers() == []
        harness.push(WatermarkTo(MAX_TIME - 1), at(0, 2))
        assert harness.take() == [("k", None, [1, 2])]


# Cleanup removes contents, trigger state, per-window user state, and the merging-set entry.


def test_cleanup_removes_contents_trigger_state_and_user_state():
    with Windows(TENS, Numbered(), trigger=Scripted()).harness() as harness:
        harness.push(at(1, 1), at(2, 0))
        assert set(harness.state("k")) == {"_window/contents", "_trigger/seen", "_window/state/fired"}
        harness.watermark(9)
        assert harness.state("k") == {"cleared": (0, 10)} and harness.timers() == []


def test_cleanup_removes_the_entry_of_the_merging_set():
    with Windows(EventTimeSessionWindows.with_gap(5)).harness() as harness:
        harness.push(at(1), at(4))
        assert "_window/merging" in harness.state("k")
        harness.watermark(8)
        assert harness.state("k") == {} and harness.timers() == []


def test_clear_is_called_once_for_every_window_also_over_shared_panes():
    windows = Windows(
        SlidingEventTimeWindows.of(4, 2), Numbered(), contents="aggregate", allowed_lateness_ms=2
    )
    windows.gives(
        [at(0), WatermarkTo(2), at(1), WatermarkTo(8), END],
        [("k", (-2, 2), 1, None), ("k", (-2, 2), 2, None), ("k", (0, 4), 1, None)],
    )
    with windows.harness() as harness:
        harness.push(at(0), WatermarkTo(5))
        assert harness.state("k") == {"cleared": (0, 4)} and harness.timers() == []


# A window is late when cleanup time <= watermark; an element only if all its windows are.


def test_an_element_is_late_when_its_window_is_cleaned_up():
    Windows(TENS, late_tag="late", allowed_lateness_ms=5).gives(
        [WatermarkTo(13), at(1, 1), WatermarkTo(14), at(2, 2)],
        [("k", (0, 10), [1])],
        side={"late": [Record(("k", 2), 2)]},
    )


def test_an_element_goes_to_those_of_its_windows_that_are_not_late():
    Windows(SlidingEventTimeWindows.of(10, 5), late_tag="late").gives(
        [WatermarkTo(9), at(7, 1), WatermarkTo(14), at(8, 2), END],
        [("k", (5, 15), [1])],
        side={"late": [("k", 2)]},
    )


def test_a_session_may_rescue_an_old_element():
    Windows(EventTimeSessionWindows.with_gap(10), late_tag="late").gives(
        [at(15, 1), WatermarkTo(20), at(6, 2), at(4, 3), END],
        [("k", (4, 25), [1, 2, 3])],
    )
    Windows(EventTimeSessionWindows.with_gap(10), late_tag="late").gives(
        [at(15, 1), WatermarkTo(20), at(4, 3), END], [("k", (15, 25), [1])], side={"late": [("k", 3)]}
    )


def test_the_counter_counts_only_without_a_tag():
    with Windows(TENS).harness() as harness:
        harness.push(WatermarkTo(50), at(1), at(2))
        assert harness.late_dropped == 2
    with Windows(TENS, late_tag="late").harness() as harness:
        harness.push(WatermarkTo(50), at(1))
        assert harness.late_dropped == 0 and harness.take("late") == [("k", 0)]


# Within the lateness the default trigger fires for every late element, with full contents.


@pytest.mark.parametrize("assigner", [TENS, SlidingEventTimeWindows.of(10, 10, 0)])
def test_each_late_element_fires_the_whole_window_again(assigner):
    Windows(assigner, allowed_lateness_ms=20).gives(
        [at(1, 1), WatermarkTo(9), at(2, 2), at(3, 3), WatermarkTo(40)],
        [("k", (0, 10), [1]), ("k", (0, 10), [1, 2]), ("k", (0, 10), [1, 2, 3])],
    )


def test_late_elements_fire_overlapping_windows_again_over_shared_panes():
    Windows(SlidingEventTimeWindows.of(4, 2), contents="aggregate", allowed_lateness_ms=10).gives(
        [at(1), at(3), WatermarkTo(3), at(1), WatermarkTo(5)],
        [("k", 1), ("k", 2), ("k", 3), ("k", 2), ("k", 1)],
    )


def test_allowed_lateness_means_nothing_for_processing_time():
    items = [at(0, 1), ProcessingTimeTo(10), at(0, 2), ProcessingTimeTo(40)]
    for lateness in (0, 100):
        windows = Windows(TumblingProcessingTimeWindows.of(10), allowed_lateness_ms=lateness)
        windows.gives(items, [("k", (0, 10), [1]), ("k", (10, 20), [2])])


# FIRE evaluates only if contents exist; FIRE_AND_PURGE emits, then clears contents only.


def test_a_window_without_contents_does_not_fire():
    windows = Windows(TENS, trigger=Scripted())
    windows.gives([at(1, 2), WatermarkTo(8)], [])


def test_purge_keeps_trigger_state_timers_and_the_window():
    with Windows(TENS, trigger=Scripted()).harness() as harness:
        harness.push(at(1, 1), at(2, 2))
        assert harness.take() == [("k", (0, 10), [1])]
        (seen,) = harness.state("k")["_trigger/seen"].values()
        assert seen == 2 and "_window/contents" not in harness.state("k")
        assert [timer.time for timer in harness.timers()] == [8, 9]
    Windows(TENS, trigger=Scripted()).gives(
        [at(1, 1), at(2, 2), at(3, 0), WatermarkTo(8)], [("k", (0, 10), [1]), ("k", (0, 10), [0])]
    )


def test_fire_and_purge_emits_before_it_clears():
    Windows(TENS, trigger=Scripted()).gives(
        [at(1, 0), at(2, 3), at(3, 1), WatermarkTo(7)], [("k", (0, 10), [0, 3]), ("k", (0, 10), [1])]
    )


# Emitted records carry timestamp window max.


def test_results_carry_the_last_timestamp_of_the_window_also_when_early():
    Windows(TENS, trigger=CountTrigger.of(1)).gives([at(3, 1)], [Record(("k", (0, 10), [1]), 9)])


# Contents are added before the trigger is asked.


def test_the_element_that_fires_a_window_is_in_it():
    Windows(TENS, trigger=CountTrigger.of(2)).gives([at(1, 1), at(2, 2)], [("k", (0, 10), [1, 2])])


# A cleanup firing and the trigger's own timer can be the same timer.


def test_end_of_window_and_cleanup_are_one_timer_and_one_firing():
    with Windows(TENS, trigger=PurgingTrigger.of(EventTimeTrigger.create())).harness() as harness:
        harness.push(at(1, 1))
        assert [timer.time for timer in harness.timers()] == [9]
        harness.watermark(9)
        assert harness.take() == [("k", (0, 10), [1])] and harness.state("k") == {}


# Processing-time windows are not flushed at end of input.


def test_processing_time_windows_are_not_flushed_at_the_end_of_input():
    Windows(TumblingProcessingTimeWindows.of(10)).gives([at(1, 1), END], [])


# Incremental windows with a process function hand it an iterable of exactly one element.


class HowMany(ProcessWindowFunction):
    def process(self, key, context, elements):
        (only,) = elements
        yield only


@pytest.mark.parametrize(
    ("contents", "assigner", "result"),
    [
        ("reduce", TENS, [("k", 6)]),
        ("aggregate", TENS, [("k", 3)]),
        ("aggregate", SlidingEventTimeWindows.of(20, 10), [("k", 3), ("k", 3)]),
        ("reduce", EventTimeSessionWindows.with_gap(2), [("k", 6)]),
    ],
)
def test_a_process_function_behind_an_incremental_one_sees_one_element(contents, assigner, result):
    Windows(assigner, HowMany(), contents).gives([at(1, 1), at(2, 2), at(3, 3), END], result)


# window_state() on merging windows raises; global_state() is shared by all windows of the key.


def test_window_state_of_windows_that_merge_is_an_error():
    windows = Windows(EventTimeSessionWindows.with_gap(5), Numbered())
    with windows.harness() as harness, pytest.raises(ConfigError, match="global_state"):
        harness.push(at(1), END)


class Totals(ProcessWindowFunction):
    total = ValueStateDescriptor("total")

    def process(self, key, context, elements):
        total = context.global_state().get_state(self.total)
        total.update((total.value() or 0) + len(list(elements)))
        yield key, total.value()


def test_global_state_is_shared_by_the_windows_of_a_key():
    Windows(TENS, Totals()).gives(
        [at(1), at(2), at(11), at(5, key="other"), END], [("k", 2), ("k", 3), ("other", 1)]
    )
