"""The five graphs on real Spark: run through, and resumed at another parallelism."""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import run
from flow_graphs import GRAPHS, SINKS, sink_of
from progress import COUNT

pytestmark = pytest.mark.spark


def test_five_graphs_through_and_resumed(tmp_path: Path) -> None:
    driver = run(tmp_path, "resume.py", "local[3]", tmp_path)
    for graph, (_, golden) in GRAPHS.items():
        read = SINKS[sink_of(graph)][1]
        assert read(tmp_path / f"through-{graph}") == golden(COUNT), graph
        assert read(tmp_path / f"resumed-{graph}") == golden(COUNT), graph
        assert not driver.wait_for(f"done {graph}").endswith("from=None")
