"""State on disk, unaligned checkpoints, real Spark: a killed worker costs no record, and no files
stay, nor copies."""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import run
from flow_graphs import GRAPHS, SINKS, sink_of
from progress import COUNT

pytestmark = [pytest.mark.spark, pytest.mark.kills]


def test_killed_python_workers(tmp_path: Path) -> None:
    graphs = ["keyed", "sessions"]
    driver = run(tmp_path, "rocks.py", "local[2]", tmp_path, "worker", *graphs)
    for graph in graphs:
        assert not driver.wait_for(f"done {graph}").endswith("restarts=0"), driver.text
        assert SINKS[sink_of(graph)][1](tmp_path / graph) == GRAPHS[graph][1](COUNT), graph
    assert driver.wait_for("copies") == "copies"
    assert driver.wait_for("left ") == "left 0"
