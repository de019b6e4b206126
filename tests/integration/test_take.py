"""``take(n, timeout)`` always ends, with the job over and what there was."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from local_jobs import LookedAt, environment

from penstock.common import Duration, JobStatus, WatermarkStrategy
from penstock.connectors.builtin.datagen import DataGeneratorSource
from penstock.core.errors import ConfigError, JobFailedError
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream._taking import checked_timeout, taken
from penstock.testing import local_cluster
from penstock.testing.scripted_source import AwaitCheckpoint, Crash, cued_source

TIMELESS = WatermarkStrategy.no_watermarks()
LONG_S = 3600
"""Nobody waits so long: what takes that is a failure."""


def scripted(env: StreamExecutionEnvironment, *script: Any) -> DataStream[Any]:
    return env.from_source(cued_source(script), TIMELESS, "script").set_parallelism(1)


def test_of_a_stream_that_ends_as_many_as_wanted_or_all() -> None:
    with local_cluster() as launcher:
        env = environment()
        numbers = env.from_collection(list(range(100)))
        assert numbers.take(3, LONG_S) == [0, 1, 2]
        assert numbers.key_by(lambda n: n).take(1, LONG_S) == [0]
        assert numbers.take(1000, LONG_S) == list(range(100))
        assert numbers.take(0) == [] and len(launcher.jobs) == 3, "nothing is run for nothing"
    assert all(job.status().is_terminal_state() for job in launcher.jobs)


def test_of_an_endless_stream_the_first() -> None:
    with local_cluster() as launcher:
        env = environment()
        endless = DataGeneratorSource(lambda n: n, None)
        stream = env.from_source(endless, TIMELESS, "endless").set_parallelism(1)
        assert stream.take(5, LONG_S) == [0, 1, 2, 3, 4]
    assert launcher.jobs[-1].status() is JobStatus.CANCELED


def test_what_there_is_when_the_time_is_up() -> None:
    """Without checkpoints the script waits for ever: the job could not end by itself."""
    with local_cluster() as launcher:
        assert scripted(environment(), AwaitCheckpoint(), 1).take(5, 0.05) == []
        env = environment()
        scripted(env, AwaitCheckpoint()).print()
        records: SimpleQueue[int] = SimpleQueue()
        records.put(1)
        assert taken(records, env.execute_async("held"), 5, 0.01, LookedAt()) == [1]
    assert [job.status() for job in launcher.jobs] == [JobStatus.CANCELED] * 2


def test_with_checkpoints_records_come_with_them_and_no_checkpoint_is_left(tmp_path: Path) -> None:
    with local_cluster() as launcher:
        stream = scripted(
            environment(tmp_path), 1, 2, AwaitCheckpoint(), 3, AwaitCheckpoint(), AwaitCheckpoint()
        )
        assert stream.take(2, LONG_S) == [1, 2]
    root = launcher.jobs[-1].job.repository.root
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and "manifest" in path.name], root


def test_a_job_that_fails_raises_its_error() -> None:
    with local_cluster(), pytest.raises(JobFailedError, match="script"):
        scripted(environment(restart_strategy__type="none"), 1, Crash()).take(2, LONG_S)


def test_in_batch_mode() -> None:
    with local_cluster():
        env = environment(execution__runtime_mode="BATCH")
        assert env.from_collection([3, 4, 5]).take(2, LONG_S) == [3, 4]
        numbers = env.from_collection(list(range(100)))
        assert numbers.map(lambda n: n).set_parallelism(1).execute_and_collect(limit=50) == list(range(50))
        assert sorted(numbers.rebalance().execute_and_collect()) == list(range(100))
        assert sorted(numbers.union(env.from_collection([100])).execute_and_collect()) == list(range(101))


def test_an_interrupt_ends_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pressed:
        """A clock whose second look is Ctrl-C."""

        looks = 0

        def monotonic(self) -> float:
            self.looks += 1
            if self.looks > 1:
                raise KeyboardInterrupt
            return 0.0

        def now_ms(self) -> int:
            return 0

    monkeypatch.setattr("penstock.datastream._taking.SystemClock", Pressed)
    with local_cluster() as launcher, pytest.raises(KeyboardInterrupt):
        scripted(environment(), 1, AwaitCheckpoint()).take(5)
    assert launcher.jobs[-1].status() is JobStatus.CANCELED


@pytest.mark.parametrize("n", [-1, 1.5, "3", None, True, 10**9])
def test_numbers_that_are_none_are_refused(n: Any) -> None:
    with local_cluster() as launcher, pytest.raises(ConfigError, match="number of records"):
        environment().from_collection([1]).take(n)
    assert not launcher.jobs


@pytest.mark.parametrize(
    "timeout", [0, -1, float("nan"), float("inf"), 86_401, "10", "soon", None, True, [1]]
)
def test_timeouts_that_are_none_are_refused(timeout: Any) -> None:
    with local_cluster() as launcher, pytest.raises(ConfigError, match="10 s"):
        environment().from_collection([1]).take(1, timeout)
    assert not launcher.jobs


def test_every_form_of_a_timeout() -> None:
    forms = [90, 90.0, "90 s", dt.timedelta(minutes=1.5), Duration.of_seconds(90)]
    assert [checked_timeout(form) for form in forms] == [90.0] * 5
