"""A job that gives itself another parallelism."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_jobs import NO_TIME, LookedAt, environment, number_stream, until

from penstock.connectors.source import SplitEnumerator
from penstock.core.errors import ConfigError
from penstock.core.job import JobStatus
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S

ALWAYS = {
    "enabled": "true",
    "stabilization.interval": "0 s",
    "metrics.window": "5 s",
    "utilization.min": "0.001",
    "utilization.target": "0.002",
    "utilization.max": "0.003",
    "vertex.max-parallelism": "2",
}
"""Slots that do anything at all are too few."""


def test_a_busy_job_grows_in_place_and_says_why(tmp_path: Path) -> None:
    settings = {f"job__autoscaler__{key.replace('.', '__')}": value for key, value in ALWAYS.items()}
    env = environment(tmp_path / "checkpoints", **settings).set_parallelism(1)
    with local_cluster(2, clock=LookedAt()) as launcher:
        number_stream(env, 10**9).key_by(lambda i: i % 7).map(lambda i: i).filter(lambda i: False).print()
        env.execute_async("grows")
        (job,) = launcher.jobs
        until(lambda: job.driver.parallelism == 2 and job.status() is JobStatus.RUNNING, "the job has grown")
        assert job.driver.restarts == 0
        said = [event.text for event in job.history.view().events if event.kind == "rescale"]
        assert "the autoscaler wants parallelism 2: " in said[0] and "records arrive in a second" in said[0]
        assert said[-1] == "rescale from 1 to 2: done"
        job.cancel().result(PATIENCE_S)


class SixSplits(DataGeneratorSource):
    """However many subtasks read them."""

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return super().create_enumerator(6)


def test_it_grows_further_when_there_is_more_room(tmp_path: Path) -> None:
    """What there was room for once is asked anew: executors come and go."""
    most = {"vertex__max_parallelism": "3"}
    settings = {f"job__autoscaler__{key.replace('.', '__')}": value for key, value in ALWAYS.items()}
    settings |= {f"job__autoscaler__{key}": value for key, value in most.items()}
    env = environment(tmp_path / "checkpoints", **settings).set_parallelism(1)
    with local_cluster(1, clock=LookedAt()) as launcher:
        numbers = env.from_source(SixSplits(lambda i: i, 10**9), NO_TIME, "numbers")
        numbers.key_by(lambda i: i % 7).map(lambda i: i).filter(lambda i: False).print()
        env.execute_async("grows")
        (job,) = launcher.jobs
        room, runs = [2], JobStatus.RUNNING
        launcher.clusters[-1].most_slots = lambda: room[0]  # type: ignore[method-assign]
        until(lambda: job.driver.parallelism == 2 and job.status() is runs, "it has what there is")
        room[0] = 3
        until(lambda: job.driver.parallelism == 3 and job.status() is runs, "it has grown again")
        job.rescale(1)[1].result(PATIENCE_S)
        until(
            lambda: job.driver.parallelism == 3 and job.status() is runs, "what a user asked for is too few"
        )
        assert job.driver.restarts == 0
        job.cancel().result(PATIENCE_S)


def test_without_checkpoints_it_is_refused() -> None:
    env = environment(None, job__autoscaler__enabled="true")
    with local_cluster(2), pytest.raises(ConfigError, match=r"needs checkpoints.*checkpointing\.interval"):
        env.from_collection([1]).print()
        env.execute("small")
