"""What a job starts from when a snapshot is named and it has checkpoints of its own."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import GRAPHS, Pace
from local_jobs import finish, output, published, start_graph, until, wait_for_snapshots

from penstock.common.job_client import JobClient
from penstock.coordinator.job_directory import job_directory
from penstock.core.errors import SnapshotError
from penstock.testing.local import LocalLauncher, local_cluster
from tests.patience import PATIENCE_S

COUNT, RATE = 900, 2500.0
TIMEOUT = PATIENCE_S


@pytest.fixture(autouse=True)
def launcher() -> Iterator[LocalLauncher]:
    with local_cluster() as made:
        yield made


def start(tmp_path: Path, path: str | None = None, interval: str = "15 ms", **settings: str) -> JobClient:
    if path is not None:
        settings["execution__state_recovery__path"] = path
    settings["execution__checkpointing__interval"] = interval
    pace = Pace(RATE, tmp_path / "gate")
    return start_graph("keyed", tmp_path / "out", tmp_path / "chk", 2, COUNT, pace, **settings)


def restored(launcher: LocalLauncher) -> Any:
    """What the newest attempt of the newest job started from."""
    job = launcher.jobs[-1]
    until(lambda: job.status().name == "RUNNING", "the job runs")
    return job.coordinator._restored


def crash(client: JobClient) -> None:
    """As far as storage is concerned: the driver goes, its checkpoints stay."""
    client.cancel().result()


def savepoint(client: JobClient, tmp_path: Path) -> str:
    return client.trigger_savepoint(str(tmp_path / "sp")).result(TIMEOUT)


def test_a_named_snapshot_wins_over_other_checkpoints_of_the_job(
    tmp_path: Path, launcher: LocalLauncher
) -> None:
    client = start(tmp_path)
    wait_for_snapshots(launcher, 1)
    path = savepoint(client, tmp_path)
    wait_for_snapshots(launcher, 2)
    newest = published(launcher)
    crash(client)
    client = start(tmp_path, path)
    assert restored(launcher).root == path and restored(launcher).epoch < newest
    wait_for_snapshots(launcher, 1)
    assert published(launcher) > newest, "numbers go on above all that were used"
    crash(client)


def test_the_same_command_again_goes_on_where_the_job_was(
    tmp_path: Path, launcher: LocalLauncher, caplog: pytest.LogCaptureFixture
) -> None:
    """A driver crashed and its supervisor starts it anew: it must not go back to the savepoint."""
    first = start(tmp_path)
    wait_for_snapshots(launcher, 1)
    path = first.stop_with_savepoint(False, str(tmp_path / "sp")).result(TIMEOUT)
    for _ in range(2):
        client = start(tmp_path, path)
        wait_for_snapshots(launcher, 2)
        newest = published(launcher)
        crash(client)
        client = start(tmp_path, path)
        assert restored(launcher).epoch == newest
        crash(client)
    assert "has gone on from" in caplog.text and path in caplog.text
    shutil.rmtree(path.removeprefix("file://"))
    client = start(tmp_path, path)
    assert restored(launcher).epoch == newest, "not even if the savepoint is gone by now"
    (tmp_path / "gate").touch()
    finish(client)
    assert output("keyed", tmp_path / "out") == GRAPHS["keyed"][1](COUNT)


def test_restarts_before_the_first_own_checkpoint_begin_with_the_savepoint(
    tmp_path: Path, launcher: LocalLauncher
) -> None:
    client = start(tmp_path)
    wait_for_snapshots(launcher, 1)
    path = savepoint(client, tmp_path)
    wait_for_snapshots(launcher, 1)
    crash(client)
    client = start(tmp_path, path, interval="1 h")
    assert restored(launcher).root == path
    launcher.clusters[-1].kill(0)
    until(lambda: launcher.jobs[-1].driver.restarts == 1, "the job restarts")
    assert restored(launcher).root == path, "not with a checkpoint of the line that was left"
    crash(client)
    start(tmp_path, path, interval="1 h")
    assert restored(launcher).root == path, "nor after a crash of the driver"


def test_another_snapshot_is_gone_to_even_if_the_job_has_gone_on(
    tmp_path: Path, launcher: LocalLauncher
) -> None:
    client = start(tmp_path)
    wait_for_snapshots(launcher, 1)
    one, two = savepoint(client, tmp_path), savepoint(client, tmp_path)
    crash(client)
    for path in (one, two, one):
        client = start(tmp_path, path)
        assert restored(launcher).root == path
        wait_for_snapshots(launcher, 1)
        crash(client)


def test_a_retained_checkpoint_is_restored_the_same_way(tmp_path: Path, launcher: LocalLauncher) -> None:
    client = start(tmp_path)
    wait_for_snapshots(launcher, 2)
    crash(client)
    (kept,) = [
        path
        for path in (tmp_path / "chk" / job_directory("job keyed")).iterdir()
        if path.name.startswith("chk-")
    ]
    client = start(tmp_path, str(kept))
    assert restored(launcher).epoch == int(kept.name.removeprefix("chk-"))
    wait_for_snapshots(launcher, 3)
    assert not kept.exists(), "it is the job's own: retention has taken it"
    newest = published(launcher)
    crash(client)
    client = start(tmp_path, str(kept))
    assert restored(launcher).epoch >= newest
    (tmp_path / "gate").touch()
    finish(client)
    assert output("keyed", tmp_path / "out") == GRAPHS["keyed"][1](COUNT)


@pytest.mark.parametrize("claim", [True, False])
def test_claimed_savepoints_go_when_they_are_not_needed(
    claim: bool, tmp_path: Path, launcher: LocalLauncher
) -> None:
    client = start(tmp_path)
    wait_for_snapshots(launcher, 1)
    path = client.stop_with_savepoint(False, str(tmp_path / "sp")).result(TIMEOUT)
    place = Path(path.removeprefix("file://"))
    mode = {"execution__state_recovery__claim_mode": "CLAIM" if claim else "NO_CLAIM"}
    client = start(tmp_path, path, execution__checkpointing__num_retained="3", **mode)
    wait_for_snapshots(launcher, 1)
    assert (place / "_metadata").exists(), "with three to retain it still counts"
    wait_for_snapshots(launcher, 5)
    assert place.exists() is not claim
    (tmp_path / "gate").touch()
    finish(client)
    assert output("keyed", tmp_path / "out") == GRAPHS["keyed"][1](COUNT)


def test_a_snapshot_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="there is no snapshot at"):
        start(tmp_path, str(tmp_path / "nowhere"))


def test_steps_without_uid_are_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from local_jobs import environment, number_stream

    for checkpoints, level in ((tmp_path / "chk", logging.WARNING), (None, logging.INFO)):
        caplog.clear()
        caplog.set_level(logging.INFO, "penstock")
        env = environment(checkpoints)
        stream = number_stream(env, 10).uid("numbers").key_by(lambda i: i % 2).reduce(lambda a, b: a + b)
        stream.set_description("sums")
        assert len(list(stream.execute_and_collect())) == 10
        (record,) = [one for one in caplog.records if "without a uid()" in one.getMessage()]
        assert record.levelno == level and "Reduce" in record.getMessage()
