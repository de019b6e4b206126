"""Sources that crash on cue, on a local cluster: the output is as if nothing had happened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.common import RestartStrategies, WatermarkStrategy
from penstock.connectors.source import Source
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing import Record, local_cluster
from penstock.testing.conformance import SourceConformance
from penstock.testing.scripted_source import AwaitCheckpoint, Crash, Pause, ScriptedCrash, cued_source


class TestCuedSource(SourceConformance):
    def make_source(self, directory: Path) -> Source:
        first = [*range(20), Pause(300), *range(20, 30), Pause(5), Pause(5)]
        return cued_source(first, [Record("x", 5), "y", Record("z", 7)], directory=directory)

    def expected(self) -> list[Any]:
        return [*range(30), "x", "y", "z"]


class Number(KeyedProcessFunction):
    """Numbers the records of each key: right only if nothing is lost or repeated."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self._count.update((self._count.value() or 0) + 1)
        yield ctx.get_current_key(), self._count.value(), value


def environment(attempts: int = 10) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(20)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(attempts, 1))
    return env


def numbered(source: Source, attempts: int = 10) -> tuple[list[Any], int]:
    """The output of a job over ``source``, and how often it was started."""
    with local_cluster(slots=2) as cluster:
        stream = environment(attempts).from_source(source, WatermarkStrategy.no_watermarks(), "script")
        rows = list(stream.key_by(lambda value: value % 3).process(Number()).execute_and_collect())
        return sorted(rows), 1 + cluster.jobs[0].facts()["restarts"]


def wanted(count: int) -> list[Any]:
    return sorted((value % 3, value // 3 + 1, value) for value in range(count))


def test_output_is_exact_across_crashes() -> None:
    """One crash before any checkpoint, one right behind one, one that happens three times."""
    script = [*range(10), Crash(), *range(10, 20), AwaitCheckpoint(), *range(20, 25), Crash(), Pause(30)]
    rows, attempts = numbered(cued_source([*script, *range(25, 40), Crash(times=3)]))
    assert rows == wanted(40)
    assert attempts == 6


def test_crashes_in_several_splits() -> None:
    evens = [0, 2, Crash(), 4, AwaitCheckpoint(), 6, 8]
    odds = [1, AwaitCheckpoint(), 3, 5, Crash(), 7, 9]
    with local_cluster(slots=2):
        stream = environment().from_source(
            cued_source(evens, odds), WatermarkStrategy.no_watermarks(), "script"
        )
        assert sorted(stream.map(lambda value: value * 10).execute_and_collect()) == list(range(0, 100, 10))


def test_event_times_are_those_of_the_records() -> None:
    script = [Record(1, 10), Record(2, 90), AwaitCheckpoint(), Record(3, 110), Crash(), Record(4, 250)]
    with local_cluster(slots=2):
        strategy = WatermarkStrategy.for_monotonous_timestamps()
        stream = environment().from_source(cued_source(script), strategy, "script")
        windows = stream.key_by(lambda value: "all").window(TumblingEventTimeWindows.of(100))
        assert sorted(windows.reduce(lambda a, b: a + b).execute_and_collect()) == [3, 3, 4]


def test_a_crash_too_many_fails_the_job() -> None:
    with pytest.raises(Exception, match="item 1 of script-0 is a crash"):
        numbered(cued_source([0, Crash(times=5), 1]), attempts=2)


def test_the_crash_is_raised_in_the_reader(tmp_path: Path) -> None:
    source = cued_source([1, Crash(times=2), 2], directory=tmp_path)
    (split,) = source.create_enumerator(1).discover()
    for _ in range(2):
        reader = source.open_split(split, None, ManualClock())
        batch = reader.poll(10)
        assert batch is not None and batch.to_rows() == [1]
        with pytest.raises(ScriptedCrash):
            reader.poll(10)
    reader = source.open_split(split, 1, ManualClock())
    batch = reader.poll(10)
    assert batch is not None and batch.to_rows() == [2] and reader.position() == 3


def test_a_source_without_scripts_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one"):
        cued_source()
