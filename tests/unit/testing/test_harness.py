"""The harness: one run of a function or pipeline, step by step, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.core.errors import ConfigError, KeyError_
from penstock.datastream import (
    DataStream,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessWindowFunction,
    RuntimeContext,
    TimeDomain,
)
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import (
    EventTimeSessionWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.testing import Harness, PendingTimer, ProcessingTimeTo, Record, WatermarkTo
from penstock.testing.verify import EndOfInput

LATE = OutputTag("late")


class Watch(KeyedProcessFunction):
    """Counts records per key; reports the count a minute of event time, and of clock, after the first."""

    def __init__(self) -> None:
        self.calls = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.calls += 1
        if self.count.value() is None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60)
            ctx.timer_service().register_processing_time_timer(
                ctx.timer_service().current_processing_time() + 60
            )
        self.count.update((self.count.value() or 0) + 1)
        self.seen.add(value[1])
        if value[1] < 0:
            yield OutputTag("bad"), value
        yield value[0], self.calls

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), ctx.time_domain().name, timestamp, self.count.value()


def watch() -> Harness:
    return Harness(Watch(), keyed_by=lambda value: value[0], start_ms=1000)


def test_records_timers_and_both_clocks() -> None:
    with watch() as harness:
        harness.push(Record(("a", 1), 10), Record(("a", 2), 20), Record(("b", 3), 15))
        assert harness.take() == [("a", 1), ("a", 2), ("b", 3)]
        assert harness.take() == []
        assert harness.state("a") == {"count": 2, "seen": [1, 2]}
        assert harness.state("nobody") == {}
        assert harness.timers("a") == [
            PendingTimer(70, "a", TimeDomain.EVENT_TIME),
            PendingTimer(1060, "a", TimeDomain.PROCESSING_TIME),
        ]
        harness.watermark(70)
        assert harness.take_records() == [Record(("a", "EVENT_TIME", 70, 2), 70)]
        assert [timer.time for timer in harness.timers()] == [75, 1060, 1060]
        harness.advance(60)
        assert harness.take() == [], "a timer fires when its millisecond is over"
        harness.advance(1)
        assert sorted(harness.take()) == [
            ("a", "PROCESSING_TIME", 1060, 2),
            ("b", "PROCESSING_TIME", 1060, 1),
        ]
        assert (harness.now_ms, harness.current_watermark) == (1061, 70)


def test_side_outputs_are_apart() -> None:
    with watch() as harness:
        harness.push(Record(("a", -1), 1))
        assert harness.take(OutputTag("bad")) == [("a", -1)]
        assert harness.take("bad") == [] and harness.take() == [("a", 1)]


def test_a_restore_keeps_state_and_timers_and_nothing_else() -> None:
    with watch() as harness:
        harness.push(Record(("a", 1), 10))
        before = harness.snapshot()
        harness.push(Record(("a", 2), 11))
        harness.take()
        harness.restore(before)
        assert harness.state("a")["count"] == 1
        harness.push(Record(("a", 2), 11))
        assert harness.take() == [("a", 1)], "the call counter is an attribute, so it starts over"
        harness.restore()
        assert harness.state("a") == {"count": 2, "seen": [1, 2]}
        harness.restore(before)
        harness.watermark(70)
        assert harness.take() == [("a", "EVENT_TIME", 70, 1)]


def test_an_input_for_verify_can_be_pushed() -> None:
    with watch() as harness:
        harness.push(Record(("a", 1), 1), WatermarkTo(61), ProcessingTimeTo(2000), EndOfInput())
        assert [value[1] for value in harness.take()] == [1, "EVENT_TIME", "PROCESSING_TIME"]


def sums(stream: DataStream) -> DataStream:
    keyed = stream.map(lambda value: (value[0], value[1] * 10)).key_by(lambda value: value[0])
    windows = keyed.window(TumblingEventTimeWindows.of(100)).allowed_lateness(50).side_output_late_data(LATE)
    return windows.reduce(lambda a, b: (a[0], a[1] + b[1]))


def test_a_windowed_pipeline_with_late_records() -> None:
    with Harness(sums) as harness:
        harness.push(Record(("a", 1), 10), Record(("a", 2), 90), Record(("b", 5), 120))
        assert harness.take() == []
        harness.watermark(99)
        assert harness.take_records() == [Record(("a", 30), 99)]
        harness.push(Record(("a", 4), 50))
        assert harness.take() == [("a", 70)], "late, but allowed to be"
        harness.watermark(149)
        harness.push(Record(("a", 8), 50))
        assert harness.take() == [] and harness.take(LATE) == [("a", 80)]
        harness.restore()
        harness.finish()
        assert harness.take() == [("b", 50)]


def test_late_records_that_nobody_wants_are_counted() -> None:
    def counted(stream: DataStream) -> DataStream:
        windows = stream.key_by(lambda value: value).window(TumblingEventTimeWindows.of(100))
        return windows.reduce(lambda a, b: a)

    with Harness(counted) as harness:
        harness.watermark(500)
        harness.push(Record("a", 50), Record("a", 550))
        assert harness.late_dropped == 1


class Sizes(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        yield key, len(list(elements))


def test_several_stateful_steps() -> None:
    """Sessions, then the largest session so far: results and watermarks go from step to step."""

    class Largest(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.largest = runtime_context.get_state(ValueStateDescriptor("largest"))

        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            self.largest.update(max(self.largest.value() or 0, value[1]))
            yield value[0], self.largest.value()

    def pipeline(stream: DataStream) -> DataStream:
        windows = stream.key_by(lambda value: value[0]).window(EventTimeSessionWindows.with_gap(100))
        sessions = windows.process(Sizes()).uid("sessions")
        return sessions.key_by(lambda value: value[0]).process(Largest()).uid("largest")

    with Harness(pipeline) as harness:
        for time in (0, 50, 90, 500):
            harness.push(Record(("a", "x"), time))
        (window,) = {timer.namespace for timer in harness.timers("a") if timer.time < 400}
        assert (window.start, window.end) == (0, 190)
        harness.watermark(400)
        assert harness.take() == [("a", 3)]
        harness.restore(harness.snapshot())
        assert harness.state("a", step="largest") == {"largest": 3}
        harness.finish()
        assert harness.take() == [("a", 3)]


def test_processing_time_windows() -> None:
    def pipeline(stream: DataStream) -> DataStream:
        windows = stream.key_by(lambda value: value).window(TumblingProcessingTimeWindows.of(100))
        return windows.process(Sizes())

    with Harness(pipeline, start_ms=1_050) as harness:
        harness.push("a", "a")
        harness.advance(49)
        assert harness.take() == []
        harness.advance(2)
        harness.push("a")
        assert harness.take() == [("a", 2)]


def test_a_side_output_as_the_result() -> None:
    def late_only(stream: DataStream) -> DataStream:
        return sums(stream).get_side_output(LATE).map(lambda value: value[0])

    def late_itself(stream: DataStream) -> DataStream:
        return sums(stream).get_side_output(LATE)

    for pipeline, wanted in ((late_only, ["a"]), (late_itself, [("a", 10)])):
        with Harness(pipeline) as harness:
            harness.watermark(1000)
            harness.push(Record(("a", 1), 10))
            assert harness.take() == wanted


def test_names_that_two_steps_share() -> None:
    def pipeline(stream: DataStream) -> DataStream:
        first = stream.key_by(lambda value: value[0]).process(Watch()).uid("one")
        return first.key_by(lambda value: value[0]).process(Watch()).uid("two")

    with Harness(pipeline) as harness:
        harness.push(Record(("a", 1), 1), Record(("a", 9), 2))
        with pytest.raises(ConfigError, match="both 'one' and 'two' have a state 'count'"):
            harness.state("a")
        assert harness.state("a", step="two")["seen"] == [1, 2]


class Double(MapFunction):
    def map(self, value: Any) -> Any:
        return 2 * value


def test_what_cannot_be_run_is_refused() -> None:
    with Harness(Double()) as harness:
        harness.push(4)
        assert harness.take() == [8]
    with pytest.raises(ConfigError, match="needs keys"):
        Harness(Watch())
    with pytest.raises(ConfigError, match="write key_by"):
        Harness(sums, keyed_by=lambda value: value)
    with pytest.raises(ConfigError, match="has 2 inputs"):
        Harness(lambda stream: stream.union(stream.map(Double())).map(Double()))
    with pytest.raises(ConfigError, match="leave sources and sinks out"):
        Harness(lambda stream: (stream.print(), stream.map(Double()))[1])
    with pytest.raises(ConfigError, match="must return the stream"):
        Harness(lambda stream: None)
    with pytest.raises(ConfigError, match="no steps"):
        Harness(lambda stream: stream)
    with (
        Harness(lambda stream: stream.key_by(lambda value: value).map(Double())) as harness,
        pytest.raises(KeyError_),
    ):
        harness.push(None)


def test_a_function_that_changes_its_records_does_not_change_the_tests() -> None:
    def careless(row: dict[str, int]) -> dict[str, int]:
        row["n"] += 1
        return row

    row = {"n": 1}
    with Harness(lambda stream: stream.map(careless)) as harness:
        harness.push(row, row)
        assert harness.take() == [{"n": 2}, {"n": 2}] and row == {"n": 1}
