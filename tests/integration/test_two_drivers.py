"""Two drivers of one job at once: the older generation publishes and commits nothing more."""

from __future__ import annotations

from pathlib import Path

import pytest
from flow_graphs import GRAPHS, SINKS, Pace, sink_of
from local_jobs import environment, finish, until

from penstock.common.job_client import JobClient
from penstock.coordinator.job_directory import job_directory
from penstock.core.errors import FencedError, JobFailedError
from penstock.snapshot.journal import Fence, Published, history
from penstock.snapshot.reading import load_entries
from penstock.snapshot.storage import SnapshotStore
from penstock.testing.local import LocalLauncher, local_cluster

COUNT = 900


def start(graph: str, place: Path) -> JobClient:
    env = environment(place / "chk", execution__checkpointing__num_retained="1000").set_parallelism(2)
    build, _ = GRAPHS[graph]
    build(env, lambda: SINKS[sink_of(graph)][0](place / "out"), COUNT, Pace(2500.0, place / "gate"))
    return env.execute_async("twice")


def snapshots(launcher: LocalLauncher, job: int) -> int:
    return int(launcher.jobs[job].facts()["checkpoints"])


def newest_fence(place: Path) -> int:
    entries = load_entries(SnapshotStore(str(place / "chk" / job_directory("twice"))))
    return max((entry.seq for entry in entries if isinstance(entry, Fence)), default=0)


@pytest.mark.parametrize("graph", ["keyed", "sessions"])
def test_the_older_of_two_drivers_is_fenced_and_the_output_is_exact(graph: str, tmp_path: Path) -> None:
    _, golden = GRAPHS[graph]
    with local_cluster() as launcher:
        older = start(graph, tmp_path)
        until(lambda: snapshots(launcher, 0) >= 2, "the older driver has published")
        newer = start(graph, tmp_path)
        with pytest.raises(JobFailedError) as caught:
            finish(older)
        assert isinstance(caught.value.cause, FencedError)
        published = snapshots(launcher, 0)
        until(lambda: snapshots(launcher, 1) >= 2, "the newer driver has published")
        entries = history(load_entries(SnapshotStore(str(tmp_path / "chk" / job_directory("twice")))))
        (tmp_path / "gate").touch()
        finish(newer)
        assert snapshots(launcher, 0) == published
    takeover = max(number for number, entry in enumerate(entries) if isinstance(entry, Fence))
    generation = entries[takeover].generation
    after = [entry for entry in entries[takeover:] if isinstance(entry, Published)]
    assert len(after) >= 2 and {entry.generation for entry in after} == {generation}
    assert SINKS[sink_of(graph)][1](tmp_path / "out") == golden(COUNT)


def test_drivers_that_take_over_from_each_other_again_and_again(tmp_path: Path) -> None:
    """Four start while the ones before still run; whoever is newest brings the job to its end."""
    _, golden = GRAPHS["keyed"]
    with local_cluster() as launcher:
        clients = []
        for _ in range(4):
            before = newest_fence(tmp_path)
            clients.append(start("keyed", tmp_path))
            until(lambda before=before: newest_fence(tmp_path) > before, "the newest has claimed the job")
        (tmp_path / "gate").touch()
        for client in clients[:-1]:
            with pytest.raises(JobFailedError, match="does not own|came too late|generation"):
                finish(client)
        finish(clients[-1])
        assert len(launcher.jobs) == 4
    assert SINKS[sink_of("keyed")][1](tmp_path / "out") == golden(COUNT)


def test_a_driver_started_again_takes_over_where_the_old_one_was(tmp_path: Path) -> None:
    """The first driver ends without a word (its gang is gone and nobody restarts it)."""
    _, golden = GRAPHS["keyed"]
    with local_cluster() as launcher:
        env = environment(tmp_path / "chk", restart_strategy__type="none").set_parallelism(2)
        build, _ = GRAPHS["keyed"]
        sink = SINKS[sink_of("keyed")][0]
        build(env, lambda: sink(tmp_path / "out"), COUNT, Pace(2500.0, tmp_path / "gate"))
        client = env.execute_async("twice")
        until(lambda: snapshots(launcher, 0) >= 3, "some snapshots are published")
        launcher.clusters[0].kill(0)
        with pytest.raises(JobFailedError):
            finish(client)
        (tmp_path / "gate").touch()
        finish(start("keyed", tmp_path))
        restored = launcher.jobs[1].coordinator._restored
        assert restored is not None and restored.epoch >= 3
    assert SINKS[sink_of("keyed")][1](tmp_path / "out") == golden(COUNT)
