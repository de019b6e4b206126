"""Watermarks, windows and lengths of time: PyFlink's results, without its traps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from compat_rig import environment, results, timed

from penstock.common import Duration, Time, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.connectors.builtin.collection import CollectionSource
from penstock.datastream import DataStream, OutputTag, ProcessFunction, ProcessWindowFunction
from penstock.datastream.state import StateTtlConfig
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.testing.harness import Harness
from penstock.testing.items import Record
from penstock.testing.local import local_cluster

SECONDS: list[Any] = [Time.seconds(2), Duration.of_seconds(2), timedelta(seconds=2), 2000, "2 s"]


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


class LastField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[-1])


class ItsTime(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield ctx.timestamp()


# --- watermarks ---------------------------------------------------------------------------------

ORDERS: list[Callable[[WatermarkStrategy], WatermarkStrategy]] = [
    lambda s: s.with_timestamp_assigner(LastField()).with_idleness(Duration.of_seconds(9)),
    lambda s: s.with_idleness(Duration.of_seconds(9)).with_timestamp_assigner(LastField()),
    lambda s: s.with_timestamp_assigner(LastField()).with_watermark_alignment("g", Duration.of_seconds(9)),
    lambda s: s.with_watermark_alignment("g", Duration.of_seconds(9)).with_timestamp_assigner(LastField()),
]


@pytest.mark.parametrize("build", ORDERS)
def test_watermark_strategies_are_built_in_any_order(build: Callable[..., WatermarkStrategy]) -> None:
    strategy = build(WatermarkStrategy.for_monotonous_timestamps())
    source = CollectionSource([("a", 3), ("b", 8)])
    stream = environment().from_source(source, strategy, "source")
    assert results(stream.process(ItsTime())) == [3, 8]


def test_from_source_uses_a_timestamp_assigner_written_in_python() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(LastField())
    stream = environment().from_source(CollectionSource([("a", 3)]), strategy, "source")
    assert results(stream.process(ItsTime())) == [3]


# --- lengths of time ----------------------------------------------------------------------------


@pytest.mark.parametrize("length", SECONDS, ids=str)
def test_every_length_of_time_is_taken_everywhere(length: Any) -> None:
    half = Time.seconds(1)
    assert TumblingEventTimeWindows.of(length).size == 2000
    assert TumblingProcessingTimeWindows.of(length, half).size == 2000
    assert SlidingEventTimeWindows.of(length, half).size == 2000
    assert SlidingProcessingTimeWindows.of(length, half).size == 2000
    EventTimeSessionWindows.with_gap(length)
    ContinuousEventTimeTrigger.of(length)
    ContinuousProcessingTimeTrigger.of(length)
    StateTtlConfig.new_builder(length).build()
    WatermarkStrategy.for_bounded_out_of_orderness(length).with_idleness(length)
    env = environment().enable_checkpointing(length)
    config = env.get_checkpoint_config()
    config.set_checkpoint_timeout(length).set_min_pause_between_checkpoints(length)
    assert config.get_checkpoint_interval() == config.get_checkpoint_timeout() == 2000
    windowed = timed([("a", 1)]).window_all(TumblingEventTimeWindows.of(length)).allowed_lateness(length)
    assert results(windowed.reduce(lambda a, b: a)) == [("a", 1)]


# --- windows ------------------------------------------------------------------------------------


class Bounds(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> list[Any]:
        return [(key, context.window().start, context.window().end, len(list(elements)))]


def test_results_of_windows_have_the_last_time_of_their_window() -> None:
    windowed = timed([("a", 1), ("a", 12)]).key_by(lambda v: v[0]).window(TumblingEventTimeWindows.of(10))
    assert results(windowed.process(Bounds())) == [("a", 0, 10, 1), ("a", 10, 20, 1)]
    assert results(windowed.process(Bounds()).process(ItsTime())) == [9, 19]


def test_the_end_of_a_bounded_source_fires_all_event_time_windows() -> None:
    windowed = timed([("a", 1)]).key_by(lambda v: v[0]).window(EventTimeSessionWindows.with_gap(Time.days(9)))
    assert len(results(windowed.process(Bounds()))) == 1


def late(stream: DataStream) -> DataStream:
    windowed = stream.key_by(lambda v: v[0]).window(TumblingEventTimeWindows.of(10))
    return windowed.side_output_late_data(OutputTag("late")).process(Bounds())


def test_late_records_for_a_side_output_without_a_reader_are_dropped_not_mixed_in() -> None:
    with Harness(late) as harness:
        harness.push(Record(("a", 1), 1))
        harness.watermark(50)
        harness.push(Record(("a", 2), 2))
        assert harness.take() == [("a", 0, 10, 1)]


def counted(stream: DataStream) -> DataStream:
    return stream.key_by(lambda v: v[0]).count_window(2).reduce(lambda a, b: (a[0], a[1] + b[1]))


def sliding(stream: DataStream) -> DataStream:
    return stream.key_by(lambda v: v[0]).count_window(3, 2).reduce(lambda a, b: (a[0], a[1] + b[1]))


def test_count_windows_fire_when_full_and_free_their_state() -> None:
    with Harness(counted) as harness:
        harness.push(*[("a", n) for n in range(50)])
        assert harness.take() == [("a", 4 * n + 1) for n in range(25)]
        assert list(harness.state("a").values()) == [50], "only the count of the key is left"


def test_sliding_count_windows_fire_only_when_full_as_in_pyflink() -> None:
    with Harness(sliding) as harness:
        harness.push(*[("a", n) for n in range(5)])
        assert harness.take() == [("a", 3), ("a", 9)]


def early(stream: DataStream) -> DataStream:
    windowed = stream.key_by(lambda v: v[0]).window(TumblingProcessingTimeWindows.of(Time.seconds(10)))
    return windowed.trigger(ContinuousProcessingTimeTrigger.of(Time.seconds(4))).process(Bounds())


def test_a_continuous_processing_time_trigger_fires_at_the_end_of_the_window_too() -> None:
    with Harness(early) as harness:
        harness.push(("a", 1))
        harness.advance(20_000)
        assert harness.take()[-1] == ("a", 0, 10_000, 1)
