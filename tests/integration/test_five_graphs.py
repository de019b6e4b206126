"""Each graph has one golden output, however it is run: through, crashed, resumed, rescaled."""

from __future__ import annotations

from pathlib import Path

import pytest
from flow_graphs import GRAPHS, Pace
from local_jobs import finish, kill_slot, output, published, start_graph, until, wait_for_snapshots

from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S

COUNT, RATE = 900, 2500.0


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_runs_through(graph: str, parallelism: int, tmp_path: Path) -> None:
    with local_cluster():
        finish(start_graph(graph, tmp_path / "out", tmp_path / "chk", parallelism, COUNT, Pace()))
    assert output(graph, tmp_path / "out") == GRAPHS[graph][1](COUNT)
    assert not list((tmp_path / "chk").rglob("_metadata*")), "a finished job deletes its snapshots"


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("moment", [0, 1, 3])
def test_survives_crashes_of_slots(graph: str, moment: int, tmp_path: Path) -> None:
    """A slot vanishes before the first snapshot, after one, after several; then the other one."""
    with local_cluster() as launcher:
        pace = Pace(RATE, tmp_path / "gate")
        client = start_graph(graph, tmp_path / "out", tmp_path / "chk", 2, COUNT, pace)
        wait_for_snapshots(launcher, moment)
        for slot in (0, 1):
            until(lambda: launcher.jobs[-1].status().name == "RUNNING", "the job runs")
            restarts = launcher.jobs[-1].driver.restarts
            launcher.clusters[-1].kill(slot)
            until(lambda seen=restarts: launcher.jobs[-1].driver.restarts > seen, "the job restarts")
        pace.gate.touch()
        finish(client)
        assert launcher.jobs[-1].driver.restarts >= 2
    assert output(graph, tmp_path / "out") == GRAPHS[graph][1](COUNT)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("parallelism", [(2, 2), (2, 1), (1, 3), (2, 3)])
def test_resumes_from_retained_snapshot(graph: str, parallelism: tuple[int, int], tmp_path: Path) -> None:
    """A cancelled job goes on where it was, at the same or another parallelism."""
    before, after = parallelism
    with local_cluster() as launcher:
        client = start_graph(
            graph, tmp_path / "out", tmp_path / "chk", before, COUNT, Pace(RATE, tmp_path / "gate")
        )
        wait_for_snapshots(launcher, 4)
        client.cancel().result()
        stopped_at = published(launcher)
        halfway = output(graph, tmp_path / "out")
        finish(start_graph(graph, tmp_path / "out", tmp_path / "chk", after, COUNT, Pace()))
        restored = launcher.jobs[-1].coordinator
    golden = GRAPHS[graph][1](COUNT)
    assert len(halfway) < len(golden), "the first run was to be stopped in the middle"
    assert output(graph, tmp_path / "out") == golden
    assert (
        restored.checkpoints.last_published is not None and restored.checkpoints.last_published > stopped_at
    )


@pytest.mark.parametrize("graph", GRAPHS)
def test_is_rescaled_where_it_runs(graph: str, tmp_path: Path) -> None:
    """2, then 3, then 1, in one driver, and a slot vanishes in between."""
    with local_cluster() as launcher:
        pace = Pace(RATE, tmp_path / "gate")
        client = start_graph(graph, tmp_path / "out", tmp_path / "chk", 2, COUNT, pace)
        job = launcher.jobs[-1]
        wait_for_snapshots(launcher, 1)
        for parallelism in (3, 1):
            place = job.rescale(parallelism)[1].result(PATIENCE_S)
            assert "chk-" in place and job.driver.parallelism == parallelism
        assert job.driver.restarts == 0
        kill_slot(launcher)
        pace.gate.touch()
        finish(client)
        assert job.driver.restarts >= 1
    assert output(graph, tmp_path / "out") == GRAPHS[graph][1](COUNT)
