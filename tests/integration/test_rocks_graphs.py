"""The five graphs with state on disk: the same golden output, crashed, rescaled, with the backend changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from flow_graphs import GRAPHS, Pace
from local_jobs import finish, output, published, start_graph, until, wait_for_snapshots

from penstock.coordinator.job_directory import job_directory
from penstock.core.handles import NativeHandle
from penstock.snapshot.repository import Repository
from penstock.snapshot.store import open_store
from penstock.state.rocks.database import PREFIX
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S

COUNT, RATE = 900, 2500.0


def settings(backend: str, disk: Path, **more: str) -> dict[str, str]:
    return {
        "state__backend__type": backend,
        "state__backend__rocksdb__localdir": str(disk),
        "penstock__rocksdb__cache__entries": "8",
        **more,
    }


def run_until_cancelled(graph: str, place: Path, parallelism: int, chosen: dict[str, str]) -> None:
    with local_cluster() as launcher:
        pace = Pace(RATE, place / "gate")
        client = start_graph(graph, place / "out", place / "chk", parallelism, COUNT, pace, **chosen)
        before = published(launcher)
        wait_for_snapshots(launcher, 3)
        client.cancel().result()
        assert published(launcher) > before


def run_to_end(graph: str, place: Path, parallelism: int, chosen: dict[str, str]) -> None:
    with local_cluster():
        finish(start_graph(graph, place / "out", place / "chk", parallelism, COUNT, Pace(), **chosen))
    assert output(graph, place / "out") == GRAPHS[graph][1](COUNT)


def nothing_left(disk: Path) -> bool:
    return not list(disk.glob(f"{PREFIX}*"))


def handles(place: Path, graph: str) -> list[object]:
    found = Repository(open_store(str(place / "chk")), job_directory(f"job {graph}")).latest_valid()
    assert found is not None
    return [h for op in found.manifest.operators for s in op.subtasks for h in s.state.keyed]


@pytest.mark.parametrize("graph", GRAPHS)
def test_survives_crashes_of_slots(graph: str, tmp_path: Path, quick_disk: Path) -> None:
    with local_cluster() as launcher:
        pace = Pace(RATE, tmp_path / "gate")
        chosen = settings("rocksdb", quick_disk)
        client = start_graph(graph, tmp_path / "out", tmp_path / "chk", 2, COUNT, pace, **chosen)
        for slot in (0, 1):
            wait_for_snapshots(launcher, 2)
            until(lambda: launcher.jobs[-1].status().name == "RUNNING", "the job runs")
            restarts = launcher.jobs[-1].driver.restarts
            launcher.clusters[-1].kill(slot)
            until(lambda seen=restarts: launcher.jobs[-1].driver.restarts > seen, "the job restarts")
        pace.gate.touch()
        finish(client)
    assert output(graph, tmp_path / "out") == GRAPHS[graph][1](COUNT)


@pytest.mark.parametrize("graph", GRAPHS)
def test_rescales_again_and_again(graph: str, tmp_path: Path, quick_disk: Path) -> None:
    chosen = settings("rocksdb", quick_disk)
    for parallelism in (2, 3, 1):
        run_until_cancelled(graph, tmp_path, parallelism, chosen)
        native = [handle for handle in handles(tmp_path, graph) if isinstance(handle, NativeHandle)]
        assert native or graph not in ("keyed", "sessions", "two_inputs")
    run_to_end(graph, tmp_path, 4, chosen)
    assert nothing_left(quick_disk)


@pytest.mark.parametrize("graph", GRAPHS)
def test_goes_from_backend_to_backend(graph: str, tmp_path: Path, quick_disk: Path) -> None:
    for backend, parallelism in (("hashmap", 2), ("rocksdb", 2), ("hashmap", 3)):
        run_until_cancelled(graph, tmp_path, parallelism, settings(backend, quick_disk))
    run_to_end(graph, tmp_path, 2, settings("rocksdb", quick_disk))


@pytest.mark.parametrize("graph", GRAPHS)
def test_complete_checkpoints(graph: str, tmp_path: Path, quick_disk: Path) -> None:
    """Without incremental checkpoints state goes into blocks that every backend reads."""
    chosen = settings("rocksdb", quick_disk, execution__checkpointing__incremental="false")
    run_until_cancelled(graph, tmp_path, 2, chosen)
    assert not any(isinstance(handle, NativeHandle) for handle in handles(tmp_path, graph))
    assert not (tmp_path / "chk" / job_directory(f"job {graph}") / "shared").exists()
    run_to_end(graph, tmp_path, 2, chosen)


def test_snapshots_in_the_drivers_memory(tmp_path: Path, quick_disk: Path) -> None:
    chosen = settings("rocksdb", quick_disk, execution__checkpointing__storage="jobmanager")
    graph = next(iter(GRAPHS))
    with local_cluster() as launcher:
        pace = Pace(RATE, tmp_path / "gate")
        client = start_graph(graph, tmp_path / "out", tmp_path / "chk", 2, COUNT, pace, **chosen)
        wait_for_snapshots(launcher, 2)
        launcher.clusters[-1].kill(1)
        until(lambda: launcher.jobs[-1].driver.restarts > 0, "the job restarts")
        pace.gate.touch()
        finish(client)
    assert output(graph, tmp_path / "out") == GRAPHS[graph][1](COUNT)


@pytest.mark.parametrize("graph", ["keyed", "sessions", "two_inputs"])
def test_savepoints_are_for_every_backend(graph: str, tmp_path: Path, quick_disk: Path) -> None:
    """Taken with state on disk, while checkpoints share files; gone on with on the heap, and elsewhere."""
    with local_cluster() as launcher:
        pace = Pace(RATE, tmp_path / "gate")
        chosen = settings("rocksdb", quick_disk)
        client = start_graph(graph, tmp_path / "out", tmp_path / "chk", 2, COUNT, pace, **chosen)
        wait_for_snapshots(launcher, 2)
        path = client.stop_with_savepoint(False, str(tmp_path / "save")).result(PATIENCE_S)
    assert not list((tmp_path / "save").rglob("*.sst")) and not list((tmp_path / "save").rglob("shared"))
    after = settings("hashmap", quick_disk, execution__state_recovery__path=path)
    with local_cluster():
        finish(start_graph(graph, tmp_path / "out", tmp_path / "other", 3, COUNT, Pace(), **after))
    assert output(graph, tmp_path / "out") == GRAPHS[graph][1](COUNT)
