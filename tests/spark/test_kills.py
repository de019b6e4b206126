"""Real ``kill -9`` of workers, executors and drivers: the committed output is that of a quiet run."""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import Driver, run
from flow_graphs import GRAPHS, SINKS
from progress import COUNT

pytestmark = pytest.mark.spark


def check(work: Path, driver: Driver, jobs: list[str]) -> None:
    """Every job was disturbed, restarted, and has the golden output."""
    for name in jobs:
        graph, sink = name.split(":")
        line = driver.wait_for(f"done {name}")
        assert not line.endswith("restarts=0"), driver.text
        assert SINKS[sink][1](work / f"{graph}-{sink}") == GRAPHS[graph][1](COUNT), name
    assert sum(line.startswith("killed ") for line in driver.lines) == len(jobs)


def test_killed_python_workers(tmp_path: Path) -> None:
    """All five graphs, and the log sink, each lose a worker in the middle."""
    jobs = ["chain:file", "keyed:file", "keyed:log", "two_inputs:log", "sessions:file", "columns:parquet"]
    check(tmp_path, run(tmp_path, "disturb.py", "local[2]", tmp_path, "worker", *jobs), jobs)


def test_killed_executors(tmp_path: Path) -> None:
    """An executor JVM dies; Spark replaces it and the job goes on."""
    jobs = ["keyed:file", "sessions:log"]
    check(tmp_path, run(tmp_path, "disturb.py", "local-cluster[2,1,1024]", tmp_path, "executor", *jobs), jobs)


def test_killed_driver(tmp_path: Path) -> None:
    """Driver and JVM die twice; the same command goes on from the newest snapshot."""
    for _ in range(2):
        with Driver(tmp_path, "pair.py", "local[4]", tmp_path) as driver:
            driver.wait_for("published 2")
            driver.kill_all()
        assert not any(line.startswith("done") for line in driver.lines)
    for sink in ("file", "log"):
        assert len(SINKS[sink][1](tmp_path / f"keyed-{sink}")) < COUNT
    (tmp_path / "gate").touch()
    last = run(tmp_path, "pair.py", "local[4]", tmp_path)
    assert "done generations=" in last.text
    for sink in ("file", "log"):
        assert SINKS[sink][1](tmp_path / f"keyed-{sink}") == GRAPHS["keyed"][1](COUNT), sink
