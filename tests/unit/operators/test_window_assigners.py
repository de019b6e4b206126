"""Windows and the assignment of elements to them."""

from __future__ import annotations

import copy
import inspect
import pickle
from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock.datastream.window as public
from penstock.core.durations import Duration, Time
from penstock.core.errors import ConfigError, TimestampError
from penstock.core.ids import MAX_TIME, MIN_TIME
from penstock.datastream.window import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    CountWindow,
    CountWindowSerializer,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindows,
    GlobalWindowSerializer,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TimeWindowSerializer,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    mod_inverse,
)


class AtTime:
    """An assigner context with a fixed clock."""

    def __init__(self, now: int) -> None:
        self._now = now

    def get_current_processing_time(self) -> int:
        return self._now

    def get_runtime_context(self) -> Any:
        raise NotImplementedError


def spans(assigner: Any, timestamp: int, now: int = 0) -> list[tuple[int, int]]:
    return [tuple(w) for w in assigner.assign_windows("x", timestamp, AtTime(now))]


@pytest.mark.parametrize("window", [TimeWindow(-5, 10), CountWindow(7), GlobalWindow.get()])
def test_windows_survive_pickle_and_copy_with_hash_and_equality(window: Any) -> None:
    for twin in (pickle.loads(pickle.dumps(window)), copy.deepcopy(window), copy.copy(window)):
        assert twin == window
        assert hash(twin) == hash(window)
        assert type(twin) is type(window)


def test_time_windows_are_ordered_and_know_overlap_and_cover() -> None:
    assert TimeWindow(0, 10) < TimeWindow(0, 11) < TimeWindow(1, 2)
    assert TimeWindow(0, 10).intersects(TimeWindow(10, 12)), "touching counts"
    assert not TimeWindow(0, 10).intersects(TimeWindow(11, 12))
    assert TimeWindow(0, 10).cover(TimeWindow(5, 12)) == TimeWindow(0, 12)
    assert TimeWindow(0, 10).max_timestamp() == 9
    assert CountWindow(1).max_timestamp() == GlobalWindow().max_timestamp() == MAX_TIME
    assert TimeWindow(MAX_TIME - 3, MAX_TIME + 7).max_timestamp() == MAX_TIME


def test_merge_windows_reports_groups_of_two_and_more() -> None:
    class Callback:
        def __init__(self) -> None:
            self.calls: list[Any] = []

        def merge(self, to_be_merged: Any, merge_result: Any) -> None:
            self.calls.append((sorted(to_be_merged), merge_result))

    callback = Callback()
    windows = [TimeWindow(8, 12), TimeWindow(0, 3), TimeWindow(3, 4), TimeWindow(20, 21), TimeWindow(12, 13)]
    TimeWindow.merge_windows(windows, callback)
    assert callback.calls == [
        ([TimeWindow(0, 3), TimeWindow(3, 4)], TimeWindow(0, 4)),
        ([TimeWindow(8, 12), TimeWindow(12, 13)], TimeWindow(8, 13)),
    ]


@pytest.mark.parametrize(
    ("serializer", "window"),
    [
        (TimeWindowSerializer(), TimeWindow(-1, 2**40)),
        (CountWindowSerializer(), CountWindow(12)),
        (GlobalWindowSerializer(), GlobalWindow()),
    ],
)
def test_serializers_round_trip(serializer: Any, window: Any) -> None:
    stream = BytesIO()
    serializer.serialize(window, stream)
    serializer.serialize(window, stream)
    stream.seek(0)
    assert [serializer.deserialize(stream) for _ in range(2)] == [window, window]
    assert stream.read() == b""


@pytest.mark.parametrize("size", [Time.seconds(5), Duration.of_seconds(5), timedelta(seconds=5)])
def test_lengths_are_taken_in_every_form(size: Any) -> None:
    assert spans(TumblingEventTimeWindows.of(size), 7000) == [(5000, 10000)]
    assert spans(SlidingEventTimeWindows.of(size, size), 7000) == [(5000, 10000)]
    assert spans(EventTimeSessionWindows.with_gap(size), 7000) == [(7000, 12000)]


def test_tumbling_windows_floor_and_shift() -> None:
    assert spans(TumblingEventTimeWindows(5000, 0), 4999) == [(0, 5000)]
    assert spans(TumblingEventTimeWindows(5000, 0), 5000) == [(5000, 10000)]
    assert spans(TumblingEventTimeWindows(5000, 0), -1) == [(-5000, 0)]
    assert spans(TumblingEventTimeWindows(5000, 100), 5099) == [(100, 5100)]
    assert spans(TumblingEventTimeWindows(5000, -100), 4900) == [(4900, 9900)]
    assert spans(TumblingProcessingTimeWindows(5000, 100), MIN_TIME, now=99) == [(-4900, 100)]


def test_sliding_windows_come_latest_first_and_may_leave_gaps() -> None:
    assert spans(SlidingEventTimeWindows(5000, 1000, 0), 0) == [
        (-n * 1000, 5000 - n * 1000) for n in range(5)
    ]
    assert spans(SlidingEventTimeWindows(3000, 2000, 500), 2500) == [(2500, 5500), (500, 3500)]
    assert spans(SlidingEventTimeWindows(3000, 2000, 500), 3500) == [(2500, 5500)]
    assert spans(SlidingEventTimeWindows(1000, 3000, 0), 1500) == []
    assert spans(SlidingProcessingTimeWindows(2, 1, 0), 99, now=-1) == [(-1, 1), (-2, 0)]


@settings(max_examples=200)
@given(
    ts=st.integers(-(10**6), 10**6),
    size=st.integers(1, 50),
    slide=st.integers(1, 50),
    offset=st.integers(-49, 49),
)
def test_sliding_assignment_is_exactly_the_windows_that_hold_the_time(
    ts: int, size: int, slide: int, offset: int
) -> None:
    if abs(offset) >= slide:
        return
    got = spans(SlidingEventTimeWindows(size, slide, offset), ts)
    grid = range(-200, 201)
    base = ts // slide
    expected = [((base + n) * slide + offset, (base + n) * slide + offset + size) for n in grid]
    assert sorted(got) == [(start, end) for start, end in expected if start <= ts < end]


@pytest.mark.parametrize(
    "make",
    [
        lambda: TumblingEventTimeWindows.of(Time.seconds(0)),
        lambda: TumblingEventTimeWindows.of(Time.seconds(10), Time.seconds(20)),
        lambda: TumblingProcessingTimeWindows.of(Time.seconds(10), Time.seconds(-10)),
        lambda: SlidingEventTimeWindows.of(Time.seconds(-2), Time.seconds(1)),
        lambda: SlidingEventTimeWindows.of(Time.seconds(20), Time.seconds(10), Time.seconds(-11)),
        lambda: SlidingProcessingTimeWindows.of(Time.seconds(20), Time.seconds(10), Time.seconds(10)),
        lambda: EventTimeSessionWindows.with_gap(Time.seconds(0)),
        lambda: ProcessingTimeSessionWindows.with_gap(Time.seconds(-1)),
        lambda: CountTumblingWindowAssigner.of(0),
        lambda: CountSlidingWindowAssigner.of(3, 0),
    ],
)
def test_sizes_that_make_no_sense_are_refused(make: Any) -> None:
    with pytest.raises(ConfigError):
        make()


def test_an_element_without_timestamp_is_an_error_in_fixed_event_time_windows_only() -> None:
    for assigner in (TumblingEventTimeWindows(5, 0), SlidingEventTimeWindows(5, 1, 0)):
        with pytest.raises(TimestampError, match="assign_timestamps_and_watermarks"):
            spans(assigner, MIN_TIME)
    assert spans(EventTimeSessionWindows(5), MIN_TIME) == [(MIN_TIME, MIN_TIME + 5)]


class GapOf(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return int(element)


def test_dynamic_gaps_come_from_the_element_and_must_be_positive() -> None:
    event = EventTimeSessionWindows.with_dynamic_gap(GapOf())
    processing = ProcessingTimeSessionWindows.with_dynamic_gap(GapOf())
    assert isinstance(event, DynamicEventTimeSessionWindows)
    assert isinstance(processing, DynamicProcessingTimeSessionWindows)
    assert event.assign_windows(7, 10, AtTime(0)) == (TimeWindow(10, 17),)
    assert processing.assign_windows(7, 10, AtTime(3)) == (TimeWindow(3, 10),)
    with pytest.raises(ConfigError, match="GapOf"):
        event.assign_windows(0, 10, AtTime(0))


def test_default_triggers_and_time_domains() -> None:
    for assigner, trigger, event_time in (
        (TumblingEventTimeWindows(5, 0), EventTimeTrigger, True),
        (SlidingEventTimeWindows(5, 1, 0), EventTimeTrigger, True),
        (EventTimeSessionWindows(5), EventTimeTrigger, True),
        (DynamicEventTimeSessionWindows(GapOf()), EventTimeTrigger, True),
        (TumblingProcessingTimeWindows(5, 0), ProcessingTimeTrigger, False),
        (SlidingProcessingTimeWindows(5, 1, 0), ProcessingTimeTrigger, False),
        (ProcessingTimeSessionWindows(5), ProcessingTimeTrigger, False),
        (DynamicProcessingTimeSessionWindows(GapOf()), ProcessingTimeTrigger, False),
        (GlobalWindows.create(), NeverTrigger, False),
    ):
        assert type(assigner.get_default_trigger(None)) is trigger
        assert assigner.is_event_time() is event_time


SIGNATURES = {
    "TimeWindow.get_window_start_with_offset": "timestamp offset window_size",
    "TimeWindow.merge_windows": "windows callback",
    "Trigger.on_element": "self element timestamp window ctx",
    "Trigger.on_event_time": "self time window ctx",
    "Trigger.OnMergeContext.merge_partitioned_state": "self state_descriptor",
    "Trigger.TriggerContext.get_partitioned_state": "self state_descriptor",
    "WindowAssigner.assign_windows": "self element timestamp context",
    "WindowAssigner.get_default_trigger": "self env",
    "MergingWindowAssigner.merge_windows": "self windows callback",
    "MergingWindowAssigner.MergeCallback.merge": "self to_be_merged merge_result",
    "SessionWindowTimeGapExtractor.extract": "self element",
    "ContinuousEventTimeTrigger.register_next_fire_timestamp": "self time window ctx fire_timestamp_state",
    "ContinuousProcessingTimeTrigger.of": "interval",
    "PurgingTrigger.__init__": "self nested_trigger",
    "CountTrigger.__init__": "self window_size",
    "CountSlidingWindowAssigner.of": "window_size window_slide",
    "TumblingEventTimeWindows.__init__": "self size offset",
    "TumblingProcessingTimeWindows.of": "size offset",
    "SlidingProcessingTimeWindows.__init__": "self size slide offset",
    "SlidingEventTimeWindows.of": "size slide offset",
    "EventTimeSessionWindows.__init__": "self session_gap",
    "ProcessingTimeSessionWindows.with_gap": "size",
    "DynamicEventTimeSessionWindows.__init__": "self session_window_time_gap_extractor",
    "DynamicProcessingTimeSessionWindows.with_dynamic_gap": "extractor",
}


@pytest.mark.parametrize("path", SIGNATURES)
def test_signatures_are_pyflinks(path: str) -> None:
    found: Any = public
    for name in path.split("."):
        found = getattr(found, name)
    assert list(inspect.signature(found).parameters) == SIGNATURES[path].split()


def test_mod_inverse_inverts_in_32_bits() -> None:
    assert all((n * mod_inverse(n)) % 2**32 == 1 for n in (1, 3, 2**31 - 1, 12345))
