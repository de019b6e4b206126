"""``time.time() * 1000`` is a float: PyFlink 2.3 encodes times as longs, and the fraction goes."""

import pytest

from penstock.common import Types, WatermarkStrategy
from penstock.core.errors import JobFailedError
from penstock.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.window import (
    GlobalWindows,
    Trigger,
    TriggerResult,
)
from penstock.testing.local import local_cluster

PAIR = Types.TUPLE([Types.STRING(), Types.DOUBLE()])


class AtItsTime(KeyedProcessFunction):
    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_event_time_timer(value[1])
        timers.register_event_time_timer(int(value[1]))
        if value[0] == "gone":
            timers.delete_event_time_timer(value[1] + 0.25)
        yield "time", ctx.timestamp()

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


class TimedTrigger(Trigger):
    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(timestamp + 0.75)
        if element[0] == "gone":
            ctx.delete_event_time_timer(timestamp + 0.5)
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        raise AssertionError("global windows do not merge")

    def clear(self, window, ctx):
        pass


def timed(*pairs: tuple[str, float]) -> DataStream:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[1])
    return env.from_collection(list(pairs), type_info=PAIR).assign_timestamps_and_watermarks(strategy)


def collected(stream: DataStream) -> list:
    with local_cluster(slots=1):
        return list(stream.execute_and_collect())


def test_the_fraction_of_event_times_and_timers_goes():
    keyed = timed(("a", 1000.5), ("gone", 2000.5)).key_by(lambda pair: pair[0])
    assert collected(keyed.process(AtItsTime())) == [("time", 1000), ("time", 2000), ("a", 1000)]


def test_a_time_before_1970_goes_towards_it():
    keyed = timed(("a", -1000.5)).key_by(lambda pair: pair[0])
    assert collected(keyed.process(AtItsTime())) == [("time", -1000), ("a", -1000)]


def test_a_triggers_timers_lose_theirs():
    windows = timed(("a", 7.0), ("gone", 9.0)).key_by(lambda pair: pair[0]).window(GlobalWindows.create())
    counted = windows.trigger(TimedTrigger()).reduce(lambda first, second: second)
    assert collected(counted) == [("a", 7.0)]


@pytest.mark.parametrize("time", [float("nan"), float("inf")])
def test_no_time_at_all_is_said(time):
    with pytest.raises(JobFailedError, match="event time must be a number of milliseconds"):
        collected(timed(("a", time)).map(lambda pair: pair))


class NoTime(KeyedProcessFunction):
    def __init__(self, time):
        self._time = time

    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(self._time)


@pytest.mark.parametrize("time", [float("nan"), "soon", None])
def test_a_timer_at_no_time_is_said(time):
    with pytest.raises(JobFailedError, match="a timer's time must be a number of milliseconds"):
        collected(timed(("a", 1.0)).key_by(lambda pair: pair[0]).process(NoTime(time)))
