"""Which windows an element belongs to."""

from __future__ import annotations

import pytest
from window_kit import END, Windows, at

from penstock.core.errors import ConfigError, TimestampError
from penstock.datastream.window import (
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.testing import ProcessingTimeTo, WatermarkTo


class GapIsTheNumber(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element[1]


# start = ts - floorMod(ts - offset, size); negative timestamps must floor, not truncate.


def test_a_window_starts_at_the_multiple_of_the_size_below_the_timestamp():
    Windows(TumblingEventTimeWindows.of(10)).gives(
        [at(0, 1), at(9, 2), at(10, 3), END], [("k", (0, 10), [1, 2]), ("k", (10, 20), [3])]
    )


def test_negative_timestamps_floor():
    Windows(TumblingEventTimeWindows.of(10)).gives(
        [at(-1, 1), at(-10, 2), at(-11, 3), END], [("k", (-20, -10), [3]), ("k", (-10, 0), [1, 2])]
    )


@pytest.mark.parametrize(("offset", "start"), [(3, -7), (-3, -3), (9, -1)])
def test_the_offset_shifts_the_windows(offset, start):
    Windows(TumblingEventTimeWindows.of(10, offset)).gives(
        [at(-1, 1), END], [("k", (start, start + 10), [1])]
    )


def test_negative_timestamps_floor_in_sliding_windows():
    Windows(SlidingEventTimeWindows.of(10, 5)).gives(
        [at(-1, 1), END], [("k", (-10, 0), [1]), ("k", (-5, 5), [1])]
    )


# Windows are [start, end), max timestamp = end - 1.


def test_the_start_belongs_to_a_window_and_the_end_does_not():
    window = TimeWindow(10, 20)
    assert window.max_timestamp() == 19
    Windows(TumblingEventTimeWindows.of(10)).gives(
        [at(10, 1), at(19, 2), at(20, 3), WatermarkTo(19)], [("k", (10, 20), [1, 2])]
    )


# abs(offset) < size for tumbling, abs(offset) < slide and size > 0 for sliding, else an exception.


@pytest.mark.parametrize(
    "make",
    [
        lambda: TumblingEventTimeWindows.of(10, 10),
        lambda: TumblingEventTimeWindows.of(10, -10),
        lambda: TumblingProcessingTimeWindows.of(10, 11),
        lambda: TumblingEventTimeWindows.of(0),
        lambda: SlidingEventTimeWindows.of(10, 5, 5),
        lambda: SlidingEventTimeWindows.of(10, 5, -5),
        lambda: SlidingEventTimeWindows.of(0, 5),
        lambda: SlidingProcessingTimeWindows.of(10, 0),
    ],
)
def test_an_offset_or_size_out_of_range_is_refused(make):
    with pytest.raises(ConfigError, match="offset"):
        make()


# Sliding: all starts from the last one down while start > ts - size.


def test_an_element_is_in_every_sliding_window_that_covers_it():
    Windows(SlidingEventTimeWindows.of(10, 4)).gives(
        [at(10, 1), END], [("k", (4, 14), [1]), ("k", (8, 18), [1])]
    )


def test_aggregates_over_shared_panes_cover_the_same_windows():
    Windows(SlidingEventTimeWindows.of(10, 4), contents="aggregate").gives(
        [at(10), at(3), at(11), WatermarkTo(5), at(10), END],
        [("k", 1), ("k", 1), ("k", 3), ("k", 3)],
    )


def test_with_a_slide_above_the_size_elements_in_the_gaps_are_dropped_silently_and_not_late():
    windows = Windows(SlidingEventTimeWindows.of(2, 10), late_tag="late")
    items = [WatermarkTo(100), at(205, 1), at(201, 2), END]
    windows.gives(items, [("k", (200, 202), [2])])
    with Windows(SlidingEventTimeWindows.of(2, 10)).harness() as harness:
        harness.push(at(205, 1))
        assert harness.late_dropped == 0


# An element without timestamp is an error in tumbling/sliding event-time windows; sessions do not check.


@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows.of(10), SlidingEventTimeWindows.of(10, 5)])
def test_an_element_without_timestamp_is_an_error(assigner):
    with Windows(assigner).harness() as harness, pytest.raises(TimestampError, match="assign_timestamps"):
        harness.push(("k", 1))


def test_sessions_take_elements_without_timestamp():
    with Windows(EventTimeSessionWindows.with_gap(10)).harness() as harness:
        harness.push(("k", 1), ("k", 2))
        harness.finish()
        assert [numbers for _, _, numbers in harness.take()] == [[1, 2]]


# Session: element window [ts, ts + gap); touching windows merge; dynamic gap must be > 0.


def test_an_element_exactly_one_gap_later_extends_the_session():
    Windows(EventTimeSessionWindows.with_gap(10)).gives(
        [at(0, 1), at(10, 2), at(21, 3), END], [("k", (0, 20), [1, 2]), ("k", (21, 31), [3])]
    )


def test_an_element_exactly_one_gap_earlier_extends_the_session():
    Windows(EventTimeSessionWindows.with_gap(10)).gives([at(10, 1), at(0, 2), END], [("k", (0, 20), [1, 2])])


def test_a_dynamic_gap_comes_from_the_element():
    Windows(EventTimeSessionWindows.with_dynamic_gap(GapIsTheNumber())).gives(
        [at(0, 5), at(5, 1), at(7, 2), END], [("k", (0, 6), [5, 1]), ("k", (7, 9), [2])]
    )


@pytest.mark.parametrize("gap", [0, -1])
def test_a_gap_must_be_above_zero(gap):
    with pytest.raises(ConfigError, match="above 0"):
        EventTimeSessionWindows.with_gap(gap)
    windows = Windows(EventTimeSessionWindows.with_dynamic_gap(GapIsTheNumber()))
    with windows.harness() as harness, pytest.raises(ConfigError, match="above 0"):
        harness.push(at(0, gap))


# Processing-time assigners use the clock, not the element timestamp.


def test_processing_time_windows_go_by_the_clock():
    items = [at(777, 1), ProcessingTimeTo(12), at(-5, 2), ProcessingTimeTo(30)]
    Windows(TumblingProcessingTimeWindows.of(10)).gives(items, [("k", (0, 10), [1]), ("k", (10, 20), [2])])
    Windows(ProcessingTimeSessionWindows.with_gap(13)).gives(items, [("k", (0, 25), [1, 2])])


# Java count windows are GlobalWindows with triggers; ours are numbered and fire only when full.


def test_the_count_window_as_a_global_window_with_a_purging_count_trigger():
    windows = Windows(GlobalWindows.create(), trigger=PurgingTrigger.of(CountTrigger.of(2)))
    windows.gives([at(0, n) for n in range(5)] + [END], [("k", None, [0, 1]), ("k", None, [2, 3])])


def test_the_sliding_count_window_as_a_count_evictor_with_a_count_trigger():
    windows = Windows(GlobalWindows.create(), trigger=CountTrigger.of(2), evictor=CountEvictor.of(3))
    windows.gives([at(0, n) for n in range(5)], [("k", None, [0, 1]), ("k", None, [1, 2, 3])])


def test_count_windows_fire_only_when_full_and_free_what_they_held():
    Windows(CountTumblingWindowAssigner.of(2)).gives(
        [at(0, n) for n in range(5)] + [END], [("k", 0, [0, 1]), ("k", 1, [2, 3])]
    )
    Windows(CountSlidingWindowAssigner.of(3, 2)).gives(
        [at(0, n) for n in range(6)] + [END], [("k", 0, [0, 1, 2]), ("k", 1, [2, 3, 4])]
    )
    with Windows(CountTumblingWindowAssigner.of(2)).harness() as harness:
        harness.push(*(at(0, n) for n in range(4)))
        assert harness.state("k") == {"tumble-count-assigner": 4}


# GlobalWindows default trigger never fires.


def test_global_windows_never_fire_by_themselves():
    Windows(GlobalWindows.create()).gives([at(0, 1), WatermarkTo(10**9), ProcessingTimeTo(10**9), END], [])


def test_global_windows_may_fire_at_the_end_of_the_stream():
    windows = Windows(GlobalWindows.create_with_end_of_stream_trigger())
    windows.gives([at(0, 1), WatermarkTo(10**9), at(5, 2), END], [("k", None, [1, 2])])
