"""Snapshots that fail: tolerated, counted, and never a reason to lose or repeat output."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import TOPIC, Pace, log_sink, read_log, read_text, text_file_sink
from local_jobs import Stoppable, environment, finish, published, until

from penstock.common import WatermarkStrategy
from penstock.connectors.log import Log
from penstock.coordinator.job_directory import job_directory
from penstock.core.errors import JobFailedError
from penstock.datastream import MapFunction, RuntimeContext
from penstock.testing.local import local_cluster

COUNT, RATE = 900, 2500.0


class Unpicklable:
    def __deepcopy__(self, memo: dict[int, Any]) -> Unpicklable:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("this cannot be pickled")


class HoldsSomethingUnpicklable(MapFunction):
    """Its operator state cannot be written while the records from 300 to an end pass."""

    def __init__(self, end: int = 500) -> None:
        self._end = end

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_operator_list_state("odd")

    def map(self, value: int) -> str:
        self._state.update([Unpicklable()] if 300 <= value < self._end else [value])
        return str(value)


def _numbers(env: Any, gate: Path | None = None) -> Any:
    source = Pace(RATE, gate).source(lambda i: i, COUNT)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


@pytest.mark.parametrize("kind", ["file", "log"])
@pytest.mark.parametrize("concurrent", ["1", "3"])
def test_output_prepared_for_a_failed_snapshot_is_not_lost(
    kind: str, concurrent: str, tmp_path: Path
) -> None:
    """The sinks' part of a snapshot that another task declines becomes part of a later one."""
    sink, read = (text_file_sink, read_text) if kind == "file" else (log_sink, read_log)
    with local_cluster() as launcher:
        env = environment(
            tmp_path / "chk",
            execution__checkpointing__tolerable_failed_checkpoints="100000",
            execution__checkpointing__max_concurrent_checkpoints=concurrent,
        )
        env.set_parallelism(2)
        mapped = _numbers(env).map(HoldsSomethingUnpicklable())
        mapped.rebalance().sink_to(sink(tmp_path / "out"))
        finish(env.execute_async())
        assert launcher.jobs[-1].driver.restarts == 0
    assert read(tmp_path / "out") == sorted(map(str, range(COUNT)))


def test_output_of_failed_snapshots_survives_a_crash(tmp_path: Path) -> None:
    with local_cluster() as launcher:
        env = environment(
            tmp_path / "chk", execution__checkpointing__tolerable_failed_checkpoints="100000"
        ).set_parallelism(2)
        mapped = _numbers(env, tmp_path / "gate").map(HoldsSomethingUnpicklable())
        mapped.rebalance().sink_to(text_file_sink(tmp_path / "out"))
        client = env.execute_async()
        job = launcher.jobs[-1]
        until(lambda: len(read_text(tmp_path / "out")) > 520, "the bad part is over")
        launcher.clusters[-1].kill(1)
        (tmp_path / "gate").touch()
        finish(client)
        assert job.driver.restarts == 1
    assert read_text(tmp_path / "out") == sorted(map(str, range(COUNT)))


def test_publication_that_fails_loses_nothing(tmp_path: Path) -> None:
    """Manifests of some epochs cannot be written: a file stands where their directory would be."""
    clock = Stoppable()
    with local_cluster(clock=clock) as launcher:
        env = environment(
            tmp_path / "chk", execution__checkpointing__tolerable_failed_checkpoints="100000"
        ).set_parallelism(2)
        numbers = _numbers(env, tmp_path / "gate")
        numbers.map(str).rebalance().sink_to(text_file_sink(tmp_path / "out"))
        client = env.execute_async("blocked")
        until(lambda: published(launcher) >= 2, "two snapshots are published")
        with clock.stopped():
            blocked = [published(launcher) + n for n in (3, 4, 5)]
            for epoch in blocked:
                (tmp_path / "chk" / job_directory("blocked") / f"chk-{epoch}").write_text("in the way")
        until(lambda: published(launcher) > max(blocked), "later snapshots are published")
        (tmp_path / "gate").touch()
        finish(client)
        epochs = [row["epoch"] for row in launcher.jobs[-1].coordinator.checkpoints.history]
        assert launcher.jobs[-1].driver.restarts == 0
    assert max(epochs) > max(blocked) and not set(epochs) & set(blocked)
    assert read_text(tmp_path / "out") == sorted(map(str, range(COUNT)))


class Stalls(MapFunction):
    """One record takes longer than a snapshot may."""

    def map(self, value: int) -> str:
        if value == 450:
            time.sleep(0.4)
        return str(value)


def test_expired_snapshots_are_given_up_and_lose_nothing(tmp_path: Path) -> None:
    with local_cluster() as launcher:
        env = environment(
            tmp_path / "chk",
            execution__checkpointing__timeout="60 ms",
            execution__checkpointing__tolerable_failed_checkpoints="100000",
        ).set_parallelism(2)
        env.disable_operator_chaining()
        _numbers(env).rebalance().map(Stalls()).sink_to(text_file_sink(tmp_path / "out"))
        finish(env.execute_async())
        assert launcher.jobs[-1].driver.restarts == 0
    assert read_text(tmp_path / "out") == sorted(map(str, range(COUNT)))


def test_too_many_failed_snapshots_fail_the_job(tmp_path: Path) -> None:
    with local_cluster():
        env = environment(tmp_path / "chk", restart_strategy__type="none").set_parallelism(2)
        _numbers(env).map(HoldsSomethingUnpicklable(COUNT)).sink_to(text_file_sink(tmp_path / "out"))
        with pytest.raises(JobFailedError, match="tolerable-failed-checkpoints"):
            finish(env.execute_async())


class Fails(MapFunction):
    """Fails at a record until it has failed often enough; counts in a file, which outlives attempts."""

    def __init__(self, marks: Path, times: int, at: int) -> None:
        self._marks, self._times, self._at = marks, times, at

    def map(self, value: int) -> str:
        if value == self._at and len(list(self._marks.iterdir())) < self._times:
            (self._marks / str(time.monotonic_ns())).touch()
            raise RuntimeError(f"no luck with {value}")
        return str(value)


@pytest.mark.parametrize(
    "strategy",
    [
        {"restart_strategy__fixed_delay__attempts": "3"},
        {
            "restart_strategy__type": "failure-rate",
            "restart_strategy__failure_rate__max_failures_per_interval": "3",
            "restart_strategy__failure_rate__delay": "1 ms",
        },
        {
            "restart_strategy__type": "exponential-delay",
            "restart_strategy__exponential_delay__initial_backoff": "1 ms",
            "restart_strategy__exponential_delay__attempts_before_reset_backoff": "3",
        },
    ],
    ids=["fixed-delay", "failure-rate", "exponential-delay"],
)
@pytest.mark.parametrize("failures", [3, 4])
def test_restart_strategies(strategy: dict[str, str], failures: int, tmp_path: Path) -> None:
    """Three failures are forgiven, the fourth is not."""
    (tmp_path / "marks").mkdir()
    with local_cluster() as launcher:
        env = environment(tmp_path / "chk", **strategy).set_parallelism(2)
        mapped = _numbers(env).map(Fails(tmp_path / "marks", failures, 200))
        mapped.sink_to(text_file_sink(tmp_path / "out"))
        client = env.execute_async()
        if failures == 4:
            with pytest.raises(JobFailedError, match="no luck with 200"):
                finish(client)
            assert launcher.jobs[-1].driver.restarts == 3
            return
        finish(client)
        assert launcher.jobs[-1].driver.restarts == 3
    assert read_text(tmp_path / "out") == sorted(map(str, range(COUNT)))


def test_no_checkpointing_means_no_restart(tmp_path: Path) -> None:
    (tmp_path / "marks").mkdir()
    with local_cluster() as launcher:
        env = environment(restart_strategy__type="none").set_parallelism(1)
        _numbers(env).map(Fails(tmp_path / "marks", 1, 5)).sink_to(text_file_sink(tmp_path / "out"))
        with pytest.raises(JobFailedError, match="no luck with 5"):
            finish(env.execute_async())
        assert launcher.jobs[-1].driver.restarts == 0
    assert read_text(tmp_path / "out") == []


def test_log_sink_sees_each_record_once_with_repeated_commits(tmp_path: Path) -> None:
    """Crash after crash: every restore commits again what the snapshot holds."""
    (tmp_path / "marks").mkdir()
    with local_cluster():
        env = environment(tmp_path / "chk").set_parallelism(2)
        mapped = _numbers(env).map(Fails(tmp_path / "marks", 6, 400))
        mapped.rebalance().sink_to(log_sink(tmp_path / "log"))
        finish(env.execute_async())
    assert read_log(tmp_path / "log") == sorted(map(str, range(COUNT)))
    assert Log(tmp_path / "log").describe(TOPIC).partitions[0].pending == 0
