"""Sessions that merge, triggers, evictors."""

from __future__ import annotations

import pytest
from window_kit import END, Windows, at

from penstock.core.errors import ConfigError
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    GlobalWindows,
    NeverTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeEvictor,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.operators.window.functions import ProcessWindowFunction
from penstock.testing import ProcessingTimeTo, WatermarkTo

FIVES = EventTimeSessionWindows.with_gap(5)
TENS = TumblingEventTimeWindows.of(10)


def apart(left, right):
    return abs(left[1] - right[1])


class Told(EventTimeTrigger):
    """Notes what it is asked, in order, in a list that outlives pickling because it is of the module."""

    def on_element(self, element, timestamp, window, ctx):
        CALLS.append(("element", tuple(window)))
        return super().on_element(element, timestamp, window, ctx)

    def on_merge(self, window, ctx):
        CALLS.append(("merge", tuple(window)))
        super().on_merge(window, ctx)

    def clear(self, window, ctx):
        CALLS.append(("clear", tuple(window)))
        super().clear(window, ctx)


CALLS: list = []


# Merging set: state stays under the namespace of the first window; the map is checkpointed per key.


def test_contents_stay_under_the_first_window_and_the_map_says_where():
    with Windows(FIVES).harness() as harness:
        harness.push(at(10, 1), at(13, 2), at(8, 3))
        assert harness.state("k")["_window/merging"] == {TimeWindow(8, 18): TimeWindow(10, 15)}
        assert list(harness.state("k")["_window/contents"]) == [TimeWindow(10, 15)]
        harness.restore()
        harness.push(at(17, 4), END)
        assert harness.take() == [("k", (8, 22), [1, 2, 3, 4])]


def test_a_session_between_two_others_joins_them():
    Windows(FIVES).gives(
        [at(0, 1), at(8, 2), at(20, 3), at(4, 4), END],
        [("k", (0, 13), [1, 2, 4]), ("k", (20, 25), [3])],
    )


def test_sessions_of_different_keys_do_not_meet():
    Windows(FIVES).gives(
        [at(0, 1), at(2, 2, "other"), at(4, 3), END], [("k", (0, 9), [1, 3]), ("other", (2, 7), [2])]
    )


# On merge: on_merge of the result, then for each old window clear and its cleanup timer, then contents.


def test_a_merge_asks_the_trigger_for_the_result_and_then_clears_the_old_windows():
    CALLS.clear()
    with Windows(FIVES, trigger=Told()).harness() as harness:
        harness.push(at(0, 1), at(8, 2))
        CALLS.clear()
        harness.push(at(4, 3))
        assert CALLS == [("merge", (0, 13)), ("clear", (0, 5)), ("clear", (8, 13)), ("element", (0, 13))]
        assert [(timer.time, timer.namespace) for timer in harness.timers()] == [(12, TimeWindow(0, 13))]


def test_the_window_of_a_new_element_is_not_part_of_what_is_merged():
    CALLS.clear()
    with Windows(FIVES, trigger=Told()).harness() as harness:
        harness.push(at(0, 1), at(0, 2), at(3, 3))
        assert ("clear", (3, 8)) not in CALLS and ("clear", (0, 5)) in CALLS


def test_a_trigger_that_cannot_merge_is_refused():
    for trigger in (NeverTrigger(), DeltaTrigger.of(1, apart), PurgingTrigger.of(DeltaTrigger.of(1, apart))):
        with pytest.raises(ConfigError, match="can_merge"):
            Windows(FIVES, trigger=trigger)()


def test_aggregates_of_sessions_are_merged():
    Windows(FIVES, contents="aggregate").gives([at(0), at(8), at(9), at(4), END], [("k", 4)])


# EventTimeTrigger.on_merge registers the end timer only if it is after the watermark.


def test_a_merge_behind_the_watermark_leaves_firing_to_the_element():
    with Windows(FIVES, allowed_lateness_ms=50).harness() as harness:
        harness.push(at(0, 1), WatermarkTo(20))
        assert harness.take() == [("k", (0, 5), [1])]
        harness.push(at(3, 2))
        assert harness.take() == [("k", (0, 8), [1, 2])]
        assert [timer.time for timer in harness.timers()] == [57]


# CountTrigger state is summed on merge but does not fire by itself; it fires on the next element.


def test_counts_are_summed_on_merge_and_the_element_that_follows_fires():
    Windows(FIVES, trigger=CountTrigger.of(4)).gives(
        [at(0, 1), at(1, 2), at(9, 3), at(5, 4)], [("k", (0, 14), [1, 2, 3, 4])]
    )


def test_a_sum_beyond_the_count_fires_once():
    Windows(FIVES, trigger=CountTrigger.of(3)).gives(
        [at(0, 1), at(1, 2), at(9, 3), at(10, 4), at(5, 5), at(5, 6)], [("k", (0, 15), [1, 2, 3, 4, 5])]
    )


# CountTrigger resets its counter when firing but keeps contents; PurgingTrigger makes disjoint batches.


def test_a_count_trigger_keeps_the_contents():
    Windows(TENS, trigger=CountTrigger.of(2)).gives(
        [at(1, n) for n in range(5)] + [END], [("k", (0, 10), [0, 1]), ("k", (0, 10), [0, 1, 2, 3])]
    )


def test_a_purging_trigger_turns_fire_into_fire_and_purge():
    Windows(TENS, trigger=PurgingTrigger.of(CountTrigger.of(2))).gives(
        [at(1, n) for n in range(5)] + [END], [("k", (0, 10), [0, 1]), ("k", (0, 10), [2, 3])]
    )


class PurgesOdd(EventTimeTrigger):
    def on_element(self, element, timestamp, window, ctx):
        fires = super().on_element(element, timestamp, window, ctx)
        return TriggerResult.PURGE if element[1] % 2 else fires


def test_a_purging_trigger_passes_everything_else_through():
    Windows(TENS, trigger=PurgingTrigger.of(PurgesOdd())).gives(
        [at(1, 2), at(2, 3), at(3, 4), END], [("k", (0, 10), [4])]
    )


# ContinuousEventTimeTrigger: multiples of the interval, capped at the end; whole pane; end of window.


def test_a_continuous_trigger_fires_at_multiples_of_its_interval_and_at_the_end():
    Windows(TENS, trigger=ContinuousEventTimeTrigger.of(4)).gives(
        [at(1, 1), WatermarkTo(3), WatermarkTo(4), at(5, 2), WatermarkTo(8), WatermarkTo(9)],
        [("k", (0, 10), [1]), ("k", (0, 10), [1, 2]), ("k", (0, 10), [1, 2])],
    )


def test_a_continuous_trigger_is_capped_at_the_end_of_the_window():
    Windows(TENS, trigger=ContinuousEventTimeTrigger.of(100)).gives(
        [at(1, 1), WatermarkTo(9)], [("k", (0, 10), [1])]
    )


def test_a_continuous_trigger_needs_watermarks():
    Windows(TENS, trigger=ContinuousEventTimeTrigger.of(2)).gives(
        [at(1, 1), at(8, 2), ProcessingTimeTo(99)], []
    )


def test_a_continuous_trigger_keeps_the_earliest_firing_on_merge():
    Windows(FIVES, trigger=ContinuousEventTimeTrigger.of(10)).gives(
        [at(6, 1), at(14, 2), at(10, 3), WatermarkTo(10)], [("k", (6, 19), [1, 2, 3])]
    )


# DeltaTrigger: delta(last fired element, current) > threshold. Timer results are honoured.


def test_a_delta_trigger_compares_with_the_element_that_fired_last():
    Windows(GlobalWindows.create(), trigger=PurgingTrigger.of(DeltaTrigger.of(5, apart))).gives(
        [at(0, 10), at(0, 15), at(0, 16), at(0, 20), at(0, 22)],
        [("k", None, [10, 15, 16]), ("k", None, [20, 22])],
    )


class PurgesByTimer(Trigger):
    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(timestamp + 1)
        ctx.register_processing_time_timer(3)
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE_AND_PURGE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.PURGE

    def on_merge(self, window, ctx):
        raise NotImplementedError

    def clear(self, window, ctx):
        pass


def test_results_of_timers_are_honoured_like_those_of_elements():
    windows = Windows(TENS, trigger=PurgesByTimer())
    windows.gives(
        [at(1, 1), WatermarkTo(2), at(4, 2), WatermarkTo(5)], [("k", (0, 10), [1]), ("k", (0, 10), [2])]
    )
    windows.gives([at(1, 1), ProcessingTimeTo(4), WatermarkTo(2)], [])


# Evictors force full buffering with timestamps: evict_before, function, evict_after, survivors stay.


class EvenBeforeSmallAfter(Evictor):
    def evict_before(self, elements, window, ctx):
        return [element for element in elements if element.value[1] % 2 == 0]

    def evict_after(self, elements, window, ctx):
        return [element for element in elements if element.value[1] < 5]


def test_a_custom_evictor_works_before_and_after_the_function():
    Windows(TENS, trigger=CountTrigger.of(3), evictor=EvenBeforeSmallAfter()).gives(
        [at(1, 1), at(2, 2), at(3, 6), at(4, 4), at(5, 8), at(6, 3)],
        [("k", (0, 10), [2, 6]), ("k", (0, 10), [2, 4, 8])],
    )


@pytest.mark.parametrize(
    ("contents", "results"), [("reduce", [("k", 3), ("k", 7)]), ("aggregate", [("k", 2), ("k", 2)])]
)
def test_incremental_functions_work_on_what_the_evictor_leaves(contents, results):
    windows = Windows(TENS, contents=contents, trigger=CountTrigger.of(2), evictor=CountEvictor.of(2))
    windows.gives([at(1, n) for n in range(1, 5)], results)
    sliding = Windows(SlidingEventTimeWindows.of(10, 10), contents=contents, evictor=CountEvictor.of(2))
    sliding.gives([at(1, n) for n in range(1, 5)] + [END], results[1:])


def test_a_count_evictor_keeps_the_last_elements():
    Windows(TENS, evictor=CountEvictor.of(2)).gives(
        [at(3, 1), at(1, 2), at(2, 3), END], [("k", (0, 10), [2, 3])]
    )


def test_a_count_evictor_after_the_function_trims_what_stays():
    Windows(TENS, trigger=CountTrigger.of(2), evictor=CountEvictor.of(1, True)).gives(
        [at(1, n) for n in range(4)], [("k", (0, 10), [0, 1]), ("k", (0, 10), [1, 2, 3])]
    )


def test_a_time_evictor_keeps_what_is_less_than_its_size_older_than_the_newest():
    Windows(TENS, evictor=TimeEvictor.of(3)).gives(
        [at(5, 1), at(2, 2), at(3, 3), at(4, 4), END], [("k", (0, 10), [1, 3, 4])]
    )


def test_a_time_evictor_does_nothing_without_timestamps():
    windows = Windows(TumblingProcessingTimeWindows.of(10), evictor=TimeEvictor.of(0))
    windows.gives([("k", 1), ("k", 2), ProcessingTimeTo(20)], [("k", (0, 10), [1, 2])])


def test_a_delta_evictor_compares_with_the_last_element():
    Windows(TENS, evictor=DeltaEvictor.of(3, apart)).gives(
        [at(1, 1), at(2, 9), at(3, 2), at(4, 4), at(5, 3), END], [("k", (0, 10), [1, 2, 4, 3])]
    )


class SaysHowMany(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, len(list(elements))


def test_a_function_is_called_even_when_nothing_is_left():
    windows = Windows(TENS, SaysHowMany(), evictor=CountEvictor.of(0))
    windows.gives([at(1, 1), at(2, 2), END], [("k", 0)])


def test_nothing_left_to_reduce_gives_no_result():
    Windows(TENS, contents="reduce", evictor=CountEvictor.of(0)).gives([at(1, 1), END], [])


def test_a_window_that_was_evicted_empty_fires_only_with_new_contents():
    windows = Windows(
        TENS, SaysHowMany(), evictor=CountEvictor.of(0, True), trigger=ContinuousEventTimeTrigger.of(2)
    )
    windows.gives([at(1, 1), WatermarkTo(2), WatermarkTo(4), at(5, 2), WatermarkTo(9)], [("k", 1), ("k", 1)])
