"""BATCH jobs as a whole, in this process: order, ends of keys, modes, failures."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.batch.sizes import Sizes
from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.core.errors import ConfigError, GraphError, JobFailedError
from penstock.core.ids import MIN_TIME
from penstock.core.job import JobStatus
from penstock.datastream import (
    BroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import ProcessingTimeSessionWindows, TumblingEventTimeWindows
from penstock.testing.local import LocalLauncher, local_cluster

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


@pytest.fixture(autouse=True)
def cluster() -> Iterator[LocalLauncher]:
    with local_cluster(slots=2) as launcher:
        launcher.batch_rows, launcher.batch_sizes = 2, Sizes.few(2)
        yield launcher


def environment(**settings: str) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    for key, value in settings.items():
        env._configuration.set_string(key.replace("__", ".").replace("_", "-"), value)
    return env.set_runtime_mode(RuntimeExecutionMode.BATCH)


def stamped(env: StreamExecutionEnvironment, records: list[Any]) -> Any:
    """Records whose last field is their time; the watermark is always ahead of them."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v[-1])
    return env.from_collection(records).assign_timestamps_and_watermarks(strategy)


def first(value: Any) -> Any:
    return value[0]


class Story(KeyedProcessFunction):
    """Tells everything that happens to a key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.told = runtime_context.get_state(ValueStateDescriptor("told", Types.STRING()))

    def tell(self, word: str) -> None:
        self.told.update((self.told.value() or "") + word)

    def process_element(self, value: Any, ctx: Any) -> None:
        assert ctx.timer_service().current_watermark() == MIN_TIME
        self.tell(f"{value[1]} ")
        ctx.timer_service().register_event_time_timer(value[2] + 100)
        ctx.timer_service().register_processing_time_timer(10**15)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if timestamp == 10**15:
            # asked for while the last ones fire: the clock will never come so far
            ctx.timer_service().register_processing_time_timer(10**15 + 1)
            yield ctx.get_current_key(), self.told.value()
        else:
            self.tell(f"@{timestamp} ")


def test_a_key_sees_its_records_by_time_then_its_timers_and_nobody_elses() -> None:
    records = [("a", "late", 9), ("b", "x", 5), ("a", "early", 1), ("a", "middle", 4), ("b", "w", 2)]
    found = stamped(environment(), records).key_by(first).process(Story())
    assert sorted(found.execute_and_collect()) == [
        ("a", "early middle late @101 @104 @109 "),
        ("b", "w x @102 @105 "),
    ]


class Meeting(KeyedCoProcessFunction):
    """Who came in which order."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.STRING()))

    def _see(self, text: str, ctx: Any) -> None:
        self.seen.update((self.seen.value() or "") + text)
        ctx.timer_service().register_event_time_timer(1000)

    def process_element1(self, value: Any, ctx: Any) -> None:
        self._see(f"left{value[1]} ", ctx)

    def process_element2(self, value: Any, ctx: Any) -> None:
        self._see(f"right{value[1]} ", ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        yield self.seen.value()


def test_at_equal_times_the_first_input_comes_first() -> None:
    env = environment()
    left, right = stamped(env, [("k", 2), ("k", 1)]), stamped(env, [("k", 1), ("k", 2), ("k", 0)])
    found = left.connect(right).key_by(first, first).process(Meeting())
    assert list(found.execute_and_collect()) == ["right0 left1 right1 left2 right2 "]


class Known(BroadcastProcessFunction):
    """How many rules there are."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
        yield len(list(ctx.get_broadcast_state(RULES).items()))

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value, 1)


def test_broadcast_input_is_read_before_the_other() -> None:
    env = environment()
    rules = env.from_source(NumberSequenceSource(1, 300), WatermarkStrategy.no_watermarks(), "rules")
    data = env.from_collection(range(10)).rebalance()
    found = data.connect(rules.map(str).broadcast(RULES)).process(Known())
    assert list(found.execute_and_collect()) == [300] * 10


def test_nothing_is_late_and_reductions_have_the_time_of_their_last_record() -> None:
    records = [("a", 1, 90), ("a", 2, 1), ("b", 4, 15), ("a", 8, 95)]
    summed = stamped(environment(), records).key_by(first).reduce(lambda x, y: (x[0], x[1] + y[1], y[2]))
    windowed = summed.key_by(lambda v: 0).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    found = windowed.reduce(lambda x, y: (x, y)).execute_and_collect()
    assert sorted(found) == [("a", 11, 95), ("b", 4, 15)]


def test_windows_of_processing_time_fire_when_their_key_is_over() -> None:
    stream = environment().from_collection([("a", 1), ("b", 2), ("a", 3)])
    windowed = stream.key_by(first).window(ProcessingTimeSessionWindows.with_gap(Duration.of_days(9)))
    assert sorted(windowed.reduce(lambda x, y: (x[0], x[1] + y[1])).execute_and_collect()) == [
        ("a", 4),
        ("b", 2),
    ]


# --- modes --------------------------------------------------------------------------------------


def test_automatic_is_batch_if_all_sources_end(cluster: LocalLauncher) -> None:
    env = environment().set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    stream = env.from_collection([1, 2]).key_by(lambda v: 0).reduce(lambda a, b: a + b)
    stream.print()
    assert "BATCH mode" in env.explain() and "sorted by key and time" in env.explain()
    assert list(stream.execute_and_collect()) == [3]
    env = environment().set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    endless = DataGeneratorSource(lambda index: index, None, 1000)
    env.from_source(endless, WatermarkStrategy.no_watermarks(), "endless").print()
    assert "BATCH" not in env.explain() and "slots" in env.explain()


def test_print_and_several_sinks(capsys: pytest.CaptureFixture[str]) -> None:
    env = environment().set_parallelism(1)
    numbers = env.from_collection([3, 1, 2])
    numbers.map(lambda v: v + 10, Types.INT()).print("ten")
    numbers.key_by(lambda v: v % 2).reduce(lambda a, b: a + b).map(str).print()
    env.execute("prints")
    assert sorted(capsys.readouterr().out.split("\n")) == ["", "2", "4", "ten> 11", "ten> 12", "ten> 13"]


def test_what_has_no_effect_is_said_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    env = environment()
    env.enable_checkpointing(100)
    with caplog.at_level(logging.INFO, "penstock"):
        list(env.from_collection([1]).execute_and_collect())
    said = [record.message for record in caplog.records if "no effect" in record.message]
    assert len(said) == 1 and "BATCH mode, where execution.checkpointing.interval has no effect" in said[0]


def test_a_snapshot_to_start_from_is_refused_not_forgotten() -> None:
    env = environment(execution__state_recovery__path="savepoints/one")
    with pytest.raises(ConfigError, match="BATCH mode.*cannot start from 'savepoints/one'"):
        list(env.from_collection([1]).execute_and_collect())


def test_a_failing_function_is_named_with_its_record() -> None:
    stream = (
        environment().from_collection([("a", 1), ("a", 0)]).key_by(first).process(Divide()).name("divide")
    )
    with pytest.raises(
        JobFailedError, match=r"step 'divide' failed\n  subtask: \d\n  record:  \('a', 0\)"
    ) as error:
        list(stream.execute_and_collect())
    assert "ZeroDivisionError" in str(error.value) and "penstock/batch" not in str(error.value)


class Divide(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[float]:
        yield 1 / value[1]


def test_a_batch_job_can_be_cancelled_and_takes_no_savepoints() -> None:
    env = environment()
    slow = DataGeneratorSource(lambda index: index, 10**9, 1000)
    env.from_source(slow, WatermarkStrategy.no_watermarks(), "slow").print()
    client = env.execute_async("slow")
    with pytest.raises(GraphError, match="takes no snapshots"):
        client.trigger_savepoint("/nowhere").result()
    client.cancel().result()
    assert client.get_job_status().result() is JobStatus.CANCELED
