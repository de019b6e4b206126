"""Generators, idleness, trackers, and the combination of splits."""

import datetime as dt
import pickle

import numpy as np
import pyarrow as pa
import pytest

from penstock.common import Duration, Row, Time, WatermarkStrategy
from penstock.common.watermark_strategy import (
    AssignerWithPeriodicWatermarksWrapper,
    TimestampAssigner,
    WatermarkGenerator,
)
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, TimestampError
from penstock.core.ids import MIN_TIME
from penstock.event_time.timestamp_assigners import TimestampExtractor
from penstock.event_time.watermark_generators import BoundedOutOfOrderness, WatermarkOutput
from penstock.event_time.watermark_strategy import AlignmentSettings
from penstock.event_time.watermark_tracker import CombinedWatermarks, Cut, IdlenessTimer, WatermarkTracker
from penstock.event_time.watermark_valve import NOTHING, ValveResult


def naive(*parts):
    """A datetime without time zone, as SQL timestamps are."""
    return dt.datetime(*parts, tzinfo=dt.UTC).replace(tzinfo=None)


def rows(*times):
    return Batch.of_rows([f"r{t}" for t in times], list(times))


# --- bounded out-of-orderness ---


def emitted(generator):
    out = WatermarkOutput()
    generator.on_periodic_emit(out)
    return out.watermark


def test_watermark_before_records_is_the_beginning_of_time():
    assert emitted(BoundedOutOfOrderness(10)) == MIN_TIME


def test_watermark_after_an_event():
    generator = BoundedOutOfOrderness(10)
    generator.on_event("x", 1337, WatermarkOutput())
    assert emitted(generator) == 1326


@pytest.mark.parametrize("as_batch", [True, False])
def test_watermark_after_events_out_of_order(as_batch):
    generator = BoundedOutOfOrderness(10)
    times = [12345, 12300, 12340, 12280]
    if as_batch:
        generator.on_batch(np.array(times))
    else:
        for time in times:
            generator.on_event("x", time, WatermarkOutput())
    assert emitted(generator) == 12334


def test_repeated_probe_repeats_the_watermark():
    generator = BoundedOutOfOrderness(10)
    generator.on_event("x", 723456, WatermarkOutput())
    assert emitted(generator) == 723445
    assert emitted(generator) == 723445


def test_negative_bound_is_refused():
    with pytest.raises(ConfigError, match="negative"):
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(-1))


# --- idleness ---


@pytest.mark.parametrize("timeout", [0, -1])
def test_timeout_must_be_positive(timeout):
    with pytest.raises(ConfigError, match="greater than zero"):
        IdlenessTimer(timeout)
    with pytest.raises(ConfigError, match="greater than zero"):
        WatermarkStrategy.no_watermarks().with_idleness(Duration.of_millis(timeout))


def test_initially_active():
    assert not IdlenessTimer(10).check(77)


def test_idle_without_events():
    timer = IdlenessTimer(10)
    timer.check(100)
    assert not timer.check(110)
    assert timer.check(111)


def made_idle(timeout):
    timer = IdlenessTimer(timeout)
    timer.check(0)
    assert timer.check(timeout + 1)
    return timer


def test_repeated_idle_checks():
    timer = made_idle(122)
    assert timer.check(123)
    assert timer.check(223)


def test_active_after_idleness():
    timer = made_idle(10)
    timer.activity()
    assert not timer.check(12)


def test_idle_active_idle():
    timer = made_idle(122)
    timer.activity()
    assert not timer.check(200)
    assert not timer.check(200)
    assert timer.check(323)


def test_paused_time_does_not_count():
    timer = IdlenessTimer(10)
    timer.check(0)
    timer.paused = True
    assert not timer.check(1000)
    timer.paused = False
    assert not timer.check(1010)
    assert timer.check(1011)


# --- tracker ---


def test_tracker_emits_only_when_the_watermark_grew():
    tracker = WatermarkTracker(WatermarkStrategy.for_monotonous_timestamps())
    assert tracker.probe(0) is NOTHING
    assert tracker.on_batch(rows(5, 3)) == ()
    assert tracker.probe(200) == ValveResult(4)
    assert tracker.probe(400) is NOTHING
    tracker.on_batch(rows(1))
    assert tracker.probe(600) is NOTHING


def test_tracker_goes_idle_and_wakes_up_even_for_an_old_record():
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(300))
    tracker = WatermarkTracker(strategy)
    tracker.on_batch(rows(50))
    assert tracker.probe(0) == ValveResult(49)
    assert tracker.probe(200) is NOTHING
    assert tracker.probe(500) is NOTHING
    assert tracker.probe(501) == ValveResult(None, True)
    assert tracker.is_idle
    tracker.on_batch(rows(20))
    assert tracker.probe(700) == ValveResult(None, False)


def test_records_without_timestamps_are_activity_and_nothing_more():
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(100)
    tracker = WatermarkTracker(strategy)
    for now in range(0, 1000, 100):
        tracker.on_batch(Batch.of_rows(["x"]))
        assert tracker.probe(now) is NOTHING


class Punctuated(WatermarkGenerator):
    def on_event(self, value, timestamp, output):
        if value == "!":
            output.emit_watermark(timestamp)
        elif value == "zzz":
            output.mark_idle()

    def on_periodic_emit(self, output):
        pass


def test_punctuated_watermark_follows_its_own_record():
    tracker = WatermarkTracker(WatermarkStrategy.for_generator(Punctuated))
    cuts = tracker.on_batch(Batch.of_rows(["a", "!", "b", "!", "!"], [1, 2, 3, 2, 7]))
    assert cuts == [Cut(2, ValveResult(2)), Cut(5, ValveResult(7))]
    assert tracker.on_batch(Batch.of_rows(["zzz", "!"], [1, 8])) == [
        Cut(1, ValveResult(None, True)),
        Cut(2, ValveResult(8, False)),
    ]


# --- several splits ---


def combined(idle=None, splits=("a", "b"), base=None):
    strategy = base or WatermarkStrategy.for_monotonous_timestamps()
    result = CombinedWatermarks(strategy if idle is None else strategy.with_idleness(idle))
    for split in splits:
        result.add_split(split)
    return result


def test_slowest_split_decides():
    both = combined()
    both.on_batch("a", rows(100))
    assert both.probe(0) is NOTHING
    both.on_batch("b", rows(51))
    assert both.probe(200) == ValveResult(50)
    assert (both.split_watermark("a"), both.watermark) == (99, 50)


def test_removing_a_split_lets_the_others_go_on():
    both = combined()
    both.on_batch("a", rows(100))
    both.on_batch("b", rows(51))
    both.probe(0)
    assert both.remove_split("b") == ValveResult(99)


def test_idle_split_is_left_out_and_all_idle_flushes():
    both = combined(idle=300)
    both.on_batch("a", rows(100))
    both.probe(0)
    both.on_batch("a", rows(120))
    both.probe(200)
    both.on_batch("a", rows(140))
    assert both.probe(301) == ValveResult(139)
    assert both.probe(601) is NOTHING
    assert both.probe(902) == ValveResult(None, True)
    assert both.is_idle
    both.on_batch("b", rows(500))
    assert both.probe(1000) == ValveResult(499, False)


def test_changes_of_one_probe_count_as_simultaneous():
    both = combined(idle=100)
    both.on_batch("a", rows(11))
    both.probe(0)
    both.on_batch("a", rows(12))
    assert both.probe(101).watermark == 11
    both.on_batch("a", rows(101))
    both.on_batch("b", rows(51))
    assert both.probe(200) == ValveResult(50)


def test_subtask_without_splits_goes_idle_and_wakes_with_the_first_split():
    none = combined(idle=100, splits=())
    assert none.probe(0) is NOTHING
    assert none.probe(101) == ValveResult(None, True)
    assert none.probe(202) is NOTHING
    assert none.add_split("a") == ValveResult(None, False)
    none.remove_split("a")
    assert none.probe(1000) is NOTHING
    assert none.probe(1101) == ValveResult(None, True)


def test_paused_split_does_not_go_idle():
    both = combined(idle=100, splits=("a",))
    both.pause_split("a", True)
    assert [both.probe(now) for now in (0, 200, 400)] == [NOTHING] * 3
    both.pause_split("a", False)
    assert both.probe(501) == ValveResult(None, True)


def test_cuts_of_one_split_are_joined_with_the_others():
    both = combined(base=WatermarkStrategy.for_generator(Punctuated))
    assert both.on_batch("a", Batch.of_rows(["!", "!"], [5, 9])) == []
    assert both.on_batch("b", Batch.of_rows(["!", "x", "!"], [7, 8, 20])) == [
        Cut(1, ValveResult(7)),
        Cut(3, ValveResult(9)),
    ]


# --- strategies and timestamps ---


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def times(strategy, batch):
    return strategy.extractor.times(batch).tolist()


@pytest.mark.parametrize("assigner_first", [True, False])
def test_the_assigner_is_kept_in_any_order(assigner_first):
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    if assigner_first:
        strategy = strategy.with_timestamp_assigner(Second())
    strategy = strategy.with_idleness(Time.seconds(1)).with_watermark_alignment("g", dt.timedelta(seconds=5))
    if not assigner_first:
        strategy = strategy.with_timestamp_assigner(Second())
    assert times(strategy, Batch.of_rows([("a", 3)])) == [3]
    assert strategy.idle_timeout_ms == 1000
    assert strategy.alignment == AlignmentSettings("g", 5000, 1000)


def test_a_program_that_ignores_the_returned_strategy_still_works():
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    strategy.with_timestamp_assigner(Second())
    assert times(strategy, Batch.of_rows([("a", 3)])) == [3]
    assert strategy.with_idleness("1 s") is not strategy
    assert strategy.idle_timeout_ms is None


def test_strategies_travel_by_pickle():
    strategy = WatermarkStrategy.for_bounded_out_of_orderness("5 s").with_timestamp_column("t")
    again = pickle.loads(pickle.dumps(strategy))
    tracker = WatermarkTracker(again)
    tracker.on_batch(rows(10_000))
    assert tracker.probe(0) == ValveResult(4999)


def test_function_as_assigner_sees_the_record_timestamp():
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, ts: ts + value)
    assert times(strategy, Batch.of_rows([1, 2], [10, 20])) == [11, 22]
    assert times(strategy, Batch.of_rows([1])) == [MIN_TIME + 1]
    assert times(strategy, Batch.of_rows([])) == []


@pytest.mark.parametrize("wrong", [lambda value: 1, 5, "name"])
def test_wrong_assigners_are_refused_when_the_program_is_built(wrong):
    with pytest.raises(ConfigError, match="record_timestamp"):
        WatermarkStrategy.no_watermarks().with_timestamp_assigner(wrong)


@pytest.mark.parametrize("value", [None, "12", True])
def test_times_that_are_no_times_name_the_record(value):
    extractor = TimestampExtractor.of(lambda record, ts: value)
    with pytest.raises(TimestampError, match="'rec'"):
        extractor.times(Batch.of_rows(["rec"]))


def column(array):
    return Batch.of_columns(pa.record_batch({"t": array}))


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, -2], pa.int64()), [1, -2]),
        (pa.array([1, 2], pa.int32()), [1, 2]),
        (pa.array([1, -1], pa.timestamp("s")), [1000, -1000]),
        (pa.array([7, -7], pa.timestamp("ms", tz="UTC")), [7, -7]),
        (pa.array([1999, -1], pa.timestamp("us")), [1, -1]),
        (pa.array([1_999_999, -1], pa.timestamp("ns")), [1, -1]),
        (pa.array([1, -1], pa.date32()), [86_400_000, -86_400_000]),
    ],
)
def test_columns_of_time(array, expected):
    assert times(WatermarkStrategy.no_watermarks().with_timestamp_column("t"), column(array)) == expected


def test_columns_that_cannot_give_time():
    extractor = TimestampExtractor.of_column("t")
    with pytest.raises(TimestampError, match="null in 1 of 2"):
        extractor.times(column(pa.array([1, None])))
    with pytest.raises(TimestampError, match="double"):
        extractor.times(column(pa.array([1.5])))
    with pytest.raises(TimestampError, match="the columns are t"):
        TimestampExtractor.of_column("x").times(column(pa.array([1])))


def test_column_of_rows_and_dicts():
    extractor = TimestampExtractor.of_column("t")
    moment = naive(1970, 1, 1, 0, 0, 1, 500_000)
    assert extractor.times(Batch.of_rows([Row(t=5), {"t": 6}])).tolist() == [5, 6]
    assert extractor.times(Batch.of_rows([Row(t=moment), {"t": moment.replace(tzinfo=dt.UTC)}])).tolist() == [
        1500,
        1500,
    ]


def test_the_java_wrapper_points_to_the_python_way():
    with pytest.raises(ConfigError, match="for_generator"):
        AssignerWithPeriodicWatermarksWrapper(None)
