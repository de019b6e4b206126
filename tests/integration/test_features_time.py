"""Timers, at-least-once, cancellation and the end of bounded jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import read_text, text_file_sink
from local_jobs import (
    NO_TIME,
    LookedAt,
    collect,
    environment,
    finish,
    number_stream,
    wait_for_snapshots,
)

from penstock.common import WatermarkStrategy
from penstock.core.errors import JobFailedError
from penstock.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
)
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.state import ValueStateDescriptor
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S

MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=3):
        yield


# --- time ------------------------------------------------------------------------------------------


class Alarm(KeyedProcessFunction):
    def __init__(self, event_time: bool) -> None:
        self._event_time = event_time

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        timers = ctx.timer_service()
        if count == 1 and self._event_time:
            timers.register_event_time_timer(value[1] + 55)
        elif count == 1:
            timers.register_processing_time_timer(timers.current_processing_time() + 20)
        return iter(())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield (ctx.get_current_key(), timestamp if self._event_time else 0, self._count.value())
        self._count.clear()


def test_event_time_timers_fire_at_the_end_of_input_too() -> None:
    env = environment().set_parallelism(2)
    stream = env.from_collection([(n % 2, n * 10) for n in range(10)])
    timed = stream.assign_timestamps_and_watermarks(MONOTONOUS).key_by(lambda value: value[0])
    found = collect(timed.process(Alarm(True)))
    assert [(key, time) for key, time, _ in found][0] == (0, 55)
    assert sum(count for _, _, count in found) == 10


def test_processing_time_timers_fire_while_records_flow() -> None:
    env = environment().set_parallelism(2)
    source = DataGeneratorSource(lambda i: (i % 4, i), 400, 1000.0)
    stream = env.from_source(source, NO_TIME, "numbers").key_by(lambda value: value[0])
    with local_cluster(clock=LookedAt()):
        found = collect(stream.process(Alarm(False)))
    assert {key for key, _, _ in found} == {0, 1, 2, 3}
    assert sum(count for _, _, count in found) <= 400


def test_at_least_once_repeats_but_never_loses(tmp_path: Path) -> None:
    with local_cluster() as launcher:
        env = environment(tmp_path / "chk", execution__checkpointing__mode="AT_LEAST_ONCE").set_parallelism(2)
        numbers = number_stream(env, 800, rate=2000.0, gate=tmp_path / "gate")
        keyed = numbers.key_by(lambda value: value % 7).map(str)
        keyed.sink_to(text_file_sink(tmp_path / "out"))
        client = env.execute_async()
        wait_for_snapshots(launcher, 4)
        launcher.clusters[-1].kill(0)
        (tmp_path / "gate").touch()
        finish(client)
        assert launcher.jobs[-1].driver.restarts == 1
    assert set(read_text(tmp_path / "out")) == set(map(str, range(800)))


@pytest.mark.parametrize("retention", ["RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION"])
def test_cancel_keeps_or_deletes_snapshots(retention: str, tmp_path: Path) -> None:
    with local_cluster() as launcher:
        env = environment(
            tmp_path / "chk", execution__checkpointing__externalized_checkpoint_retention=retention
        ).set_parallelism(2)
        number_stream(env, 100_000, rate=1000.0).map(str).sink_to(text_file_sink(tmp_path / "out"))
        client = env.execute_async("cancelled")
        wait_for_snapshots(launcher, 2)
        client.cancel().result()
        assert client.get_job_status().result().name == "CANCELED"
    assert bool(list((tmp_path / "chk").rglob("_metadata*"))) == (retention == "RETAIN_ON_CANCELLATION")


def test_bounded_job_without_checkpoints_commits_at_the_end(tmp_path: Path) -> None:
    env = environment().set_parallelism(2)
    number_stream(env, 100).map(str).sink_to(text_file_sink(tmp_path / "out"))
    finish(env.execute_async())
    assert read_text(tmp_path / "out") == sorted(map(str, range(100)))


def test_collecting_with_a_limit_does_not_wait_for_one_record_more() -> None:
    endless = environment().from_source(NumberSequenceSource(0, 1 << 40), NO_TIME, "numbers")
    assert endless.filter(lambda i: i < 3).execute_and_collect(limit=3) == [0, 1, 2]


def test_the_end_of_a_job_cannot_be_taken_back_by_who_waits_for_it() -> None:
    env = environment()
    env.from_source(NumberSequenceSource(0, 1 << 40), NO_TIME, "numbers").filter(lambda i: False).print()
    client = env.execute_async()
    result, end = client.get_job_execution_result(), client.cancel()
    assert not result.cancel() and not end.cancel()
    end.result(PATIENCE_S)
    with pytest.raises(JobFailedError, match="was cancelled"):
        result.result(PATIENCE_S)
