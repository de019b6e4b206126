"""A job that gives itself another parallelism."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_jobs import LookedAt, environment, number_stream, until

from penstock.core.errors import ConfigError
from penstock.core.job import JobStatus
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


def test_without_checkpoints_it_is_refused() -> None:
    env = environment(None, job__autoscaler__enabled="true")
    with local_cluster(2), pytest.raises(ConfigError, match=r"needs checkpoints.*checkpointing\.interval"):
        env.from_collection([1]).print()
        env.execute("small")
