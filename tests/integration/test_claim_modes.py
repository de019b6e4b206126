"""Starting from another job's checkpoint: whose it is afterwards."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from flow_graphs import GRAPHS, SINKS, Pace, sink_of
from local_jobs import environment, finish, until

from penstock.coordinator.job_directory import job_directory
from penstock.core.errors import ConfigError
from penstock.core.ids import Epoch
from penstock.snapshot.manifest import Manifest, OperatorEntry
from penstock.snapshot.recovery import Found, read_manifest
from penstock.snapshot.verification import check_snapshot
from penstock.testing.local import LocalLauncher, local_cluster

COUNT = 900
_, GOLDEN = GRAPHS["keyed"]
SINK, READ = SINKS[sink_of("keyed")]


def start(place: Path, name: str, **settings: str) -> object:
    env = environment(
        place / "chk",
        execution__checkpointing__data_inline_threshold="0 b",
        execution__checkpointing__externalized_checkpoint_retention="RETAIN_ON_CANCELLATION",
        **settings,
    ).set_parallelism(2)
    build, _ = GRAPHS["keyed"]
    build(env, lambda: SINK(place / "out"), COUNT, Pace(2500.0, place / "gate"))
    return env.execute_async(name)


def wait_for(launcher: LocalLauncher, count: int) -> None:
    until(lambda: launcher.jobs[-1].facts()["checkpoints"] >= count, f"{count} snapshots are published")


def first_job(place: Path) -> Found:
    """A job that was cancelled and left a checkpoint behind."""
    with local_cluster() as launcher:
        client = start(place, "first")
        wait_for(launcher, 3)
        client.cancel().result()
    return read_manifest(str(place / "chk" / job_directory("first")))


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_no_claim_is_the_default_and_never_touches_the_checkpoint(tmp_path: Path) -> None:
    found = first_job(tmp_path)
    before = contents(tmp_path / "chk" / job_directory("first"))
    with local_cluster() as launcher:
        client = start(tmp_path, "second", execution__state_recovery__path=str(found.location))
        wait_for(launcher, 5)
        (tmp_path / "gate").touch()
        finish(client)
    assert contents(tmp_path / "chk" / job_directory("first")) == before
    assert READ(tmp_path / "out") == GOLDEN(COUNT)


def test_the_first_checkpoint_after_no_claim_needs_no_file_of_the_old_one(tmp_path: Path) -> None:
    """The old job's directory goes away once the new one has a checkpoint; a crash is survived."""
    found = first_job(tmp_path)
    with local_cluster() as launcher:
        client = start(tmp_path, "second", execution__state_recovery__path=str(found.location))
        wait_for(launcher, 1)
        shutil.rmtree(tmp_path / "chk" / job_directory("first"))
        own = tmp_path / "chk" / job_directory("second")
        read = [file for file in check_snapshot(str(own)) if not file.problems]
        assert read and all(file.name.startswith(own.as_uri()) for file in read)
        launcher.clusters[-1].kill(1)
        (tmp_path / "gate").touch()
        finish(client)
        assert launcher.jobs[-1].driver.restarts == 1
    assert READ(tmp_path / "out") == GOLDEN(COUNT)


def test_a_claimed_checkpoint_goes_when_the_job_has_its_own(tmp_path: Path) -> None:
    """Only what no other snapshot of the old directory names: here a second manifest shares its files."""
    found = first_job(tmp_path)
    old = tmp_path / "chk" / job_directory("first")
    files = set(found.manifest.files())
    shared = min(files)
    other = replace(found.manifest, epoch=Epoch(1), operators=_only(found.manifest, shared))
    (old / "chk-1").mkdir(exist_ok=True)
    (old / "chk-1" / "_metadata").write_bytes(other.to_json())
    with local_cluster() as launcher:
        path = str(found.location)
        settings = {"execution__state_recovery__path": path, "execution__state_recovery__claim_mode": "CLAIM"}
        client = start(tmp_path, "second", **settings)
        until(lambda: not (old / found.location.manifest).exists(), "the claimed checkpoint is deleted")
        launcher.clusters[-1].kill(1)
        (tmp_path / "gate").touch()
        finish(client)
    assert (old / shared).exists(), "another snapshot needs it"
    assert files != {shared} and not any((old / path).exists() for path in files - {shared})
    assert READ(tmp_path / "out") == GOLDEN(COUNT)


def _only(manifest: Manifest, path: str) -> tuple[OperatorEntry, ...]:
    """The operators of a snapshot that uses one of its files."""
    return tuple(
        replace(
            operator,
            subtasks=tuple(
                entry for entry in operator.subtasks if path in {blob.path for blob in entry.state.blobs()}
            ),
        )
        for operator in manifest.operators
    )


@pytest.mark.parametrize("key", ["execution.state-recovery.claim-mode", "execution.savepoint-restore-mode"])
def test_legacy_is_refused_under_both_names(key: str, tmp_path: Path) -> None:
    setting = {key.replace(".", "__").replace("-", "_"): "LEGACY"}
    with local_cluster(), pytest.raises(ConfigError, match="LEGACY is not supported"):
        start(tmp_path, "second", **setting)
