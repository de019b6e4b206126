"""How far a BATCH job is: what the job says, what ``penstock list`` and the progress line show of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.cli.output import line, stages
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.spark.launcher import publish_to_registry
from penstock.testing.local import LocalLauncher, local_cluster
from tests.patience import PATIENCE_S

REACHED, GO_ON = threading.Event(), threading.Event()


def hold(value: int) -> int:
    """Waits in the second stage."""
    REACHED.set()
    assert GO_ON.wait(PATIENCE_S)
    return value


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A BATCH job that stands in its second stage of two until it is let go."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    REACHED.clear()
    GO_ON.clear()
    launcher: LocalLauncher
    with local_cluster(slots=2) as launcher:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(2).set_runtime_mode(RuntimeExecutionMode.BATCH)
        env.from_collection([1]).rebalance().map(hold).print()
        client = env.execute_async("held")
        assert REACHED.wait(PATIENCE_S)
        yield launcher.jobs[0]
        GO_ON.set()
        client.get_job_execution_result().result(PATIENCE_S)


def test_stages_and_tasks(job: Any) -> None:
    assert job.facts()["stages"] == {"stages_done": 1, "stages": 2, "tasks_done": 0, "tasks": 2}
    assert line(job, 3.0) == "held: RUNNING for 3 s   stages 1 of 2, tasks 0 of 2"
    publish_to_registry(job)
    (listed,) = json.loads(CliRunner().invoke(cli, ["list", "--json"]).output)
    assert listed["stages"]["stages"] == 2
    assert "stages 1 of 2, tasks 0 of 2" in CliRunner().invoke(cli, ["list"]).output
    GO_ON.set()
    job.result().result(PATIENCE_S)
    assert job.facts()["stages"] is None


def test_before_anything_is_known_and_after_everything_is_done() -> None:
    assert stages({"stages_done": 0, "stages": 0, "tasks_done": 0, "tasks": 0}) == "finding its input"
    assert stages({"stages_done": 2, "stages": 2, "tasks_done": 0, "tasks": 0}) == "stages 2 of 2"
