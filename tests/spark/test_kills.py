"""Real ``kill -9`` of workers, executors and drivers: the committed output is that of a quiet run."""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import Driver, run
from flow_graphs import GRAPHS, SINKS, keyed_golden, read_log, read_text, sink_of
from progress import COUNT

pytestmark = [pytest.mark.spark, pytest.mark.kills]


def check_both(work: Path) -> None:
    """Files and log hold the golden output, record for record."""
    assert read_text(work / "both" / "file") == keyed_golden(COUNT)
    assert read_log(work / "both" / "log") == keyed_golden(COUNT)


def check_disturbed(driver: Driver, graphs: list[str]) -> None:
    """A process was killed in the middle of every job."""
    for graph in graphs:
        assert not driver.wait_for(f"done {graph}").endswith("restarts=0"), driver.text
    assert sum(line.startswith("killed ") for line in driver.lines) == len(graphs)


def test_killed_python_workers(tmp_path: Path) -> None:
    """All five graphs, and both sinks at once, lose a worker in the middle."""
    graphs = [*GRAPHS, "both"]
    check_disturbed(run(tmp_path, "disturb.py", "local[2]", tmp_path, "worker", *graphs), graphs)
    for graph, (_, golden) in GRAPHS.items():
        assert SINKS[sink_of(graph)][1](tmp_path / graph) == golden(COUNT), graph
    check_both(tmp_path)


def test_killed_executor(tmp_path: Path) -> None:
    """An executor JVM dies; Spark replaces it and the job goes on."""
    driver = run(tmp_path, "disturb.py", "local-cluster[2,1,1024]", tmp_path, "executor", "both")
    check_disturbed(driver, ["both"])
    check_both(tmp_path)


def _generation(line: str) -> int:
    return int(line.rpartition("=")[2])


def test_killed_driver(tmp_path: Path) -> None:
    """Driver and JVM die; the same command goes on from the newest snapshot."""
    with Driver(tmp_path, "both.py", "local[2]", tmp_path) as driver:
        first = _generation(driver.wait_for("published 3"))
        driver.kill_all()
    assert not any(line.startswith("done") for line in driver.lines)
    assert 0 < len(read_text(tmp_path / "both" / "file")) < COUNT
    assert len(read_log(tmp_path / "both" / "log")) < COUNT
    (tmp_path / "gate").touch()
    last = run(tmp_path, "both.py", "local[2]", tmp_path)
    assert _generation(last.wait_for("done generation=")) == first + 1
    check_both(tmp_path)
