"""Whose checkpoints are whose: jobs with names that look alike, refused starts, directories of old."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import Pace, log_sink, read_log
from local_jobs import NO_TIME, environment, finish, until

from penstock.coordinator import restore_source
from penstock.core.errors import JobFailedError, SnapshotError
from penstock.snapshot.manifest import Manifest
from penstock.snapshot.repository import Repository
from penstock.testing.local import LocalLauncher, local_cluster

COUNT = 600
ALIKE = [
    ("заказы", "訂單"),
    ("orders (EU)", "orders [EU]"),
    ("orders/eu", "orders eu"),
    ("🚰", "🧨"),
    ("..", "."),
    ("a" * 400, "a" * 401),
    ("Orders", "orders"),
    ("line\nbreak", "line break"),
]


def start(place: Path, name: str | None, first: int = 0, uid: str = "kept", **settings: str) -> Any:
    settings.setdefault(
        "execution__checkpointing__externalized_checkpoint_retention", "RETAIN_ON_CANCELLATION"
    )
    env = environment(place / "chk", **settings).set_parallelism(1)
    source = Pace(4000.0, place / f"gate-{first}").source(lambda i: str(first + i), COUNT)
    numbers = env.from_source(source, NO_TIME, "numbers").uid(f"numbers-{uid}")
    numbers.sink_to(log_sink(place / f"out-{first}")).uid("out")
    return env.execute_async(name)


def expected(first: int) -> list[str]:
    return sorted(str(first + i) for i in range(COUNT))


def written(place: Path, first: int) -> list[str]:
    return sorted(map(str, read_log(place / f"out-{first}")))


def wait_for(launcher: LocalLauncher, job: int, count: int) -> None:
    running = launcher.jobs[job]
    until(
        lambda: running.facts()["checkpoints"] >= count or running.result().done(),
        f"{count} snapshots are published",
    )
    assert not running.result().done() or running.result().exception() is None, running.result().exception()


def interrupted(place: Path, name: str | None, first: int = 0) -> Path:
    """A job in the middle of its work, cancelled, with its checkpoints kept; its directory."""
    with local_cluster() as launcher:
        client = start(place, name, first)
        wait_for(launcher, 0, 3)
        client.cancel().result()
        return place / "chk" / launcher.jobs[0].job.directory


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_names_that_look_alike_are_two_jobs(one: str, other: str, tmp_path: Path) -> None:
    """The second began with the state of the first, skipped its own records, and fenced the first."""
    with local_cluster() as launcher:
        first = start(tmp_path, one, 0)
        wait_for(launcher, 0, 2)
        second = start(tmp_path, other, 100_000)
        wait_for(launcher, 1, 2)
        for gate in (0, 100_000):
            (tmp_path / f"gate-{gate}").touch()
        finish(first)
        finish(second)
    assert written(tmp_path, 0) == expected(0)
    assert written(tmp_path, 100_000) == expected(100_000)


def test_a_refused_start_does_not_harm_the_running_job(tmp_path: Path) -> None:
    """The fence was written before the state was matched: the job that ran was stopped for nothing."""
    with local_cluster() as launcher:
        running = start(tmp_path, "orders")
        wait_for(launcher, 0, 2)
        changed = start(tmp_path, "orders", uid="renamed")
        with pytest.raises(JobFailedError, match="state of operators that the program does not have"):
            finish(changed)
        seen = launcher.jobs[0].facts()["checkpoints"]
        wait_for(launcher, 0, seen + 2)
        (tmp_path / "gate-0").touch()
        finish(running)
        assert launcher.jobs[0].driver.restarts == 0
    assert written(tmp_path, 0) == expected(0)


def test_cancelling_a_start_that_never_owned_the_job_deletes_nothing(tmp_path: Path) -> None:
    """Cancelled before it was refused, it claimed the job to delete its checkpoints."""
    with local_cluster() as launcher:
        running = start(tmp_path, "orders")
        wait_for(launcher, 0, 2)
        delete = {"execution__checkpointing__externalized_checkpoint_retention": "DELETE_ON_CANCELLATION"}
        changed = start(tmp_path, "orders", uid="renamed", **delete)
        changed.cancel().result()
        seen = launcher.jobs[0].facts()["checkpoints"]
        wait_for(launcher, 0, seen + 2)
        (tmp_path / "gate-0").touch()
        finish(running)
    assert written(tmp_path, 0) == expected(0)


def test_snapshots_of_another_job_in_ones_own_directory_are_refused(tmp_path: Path) -> None:
    """Copied there by a person, or by whatever: they are somebody else's."""
    theirs = interrupted(tmp_path, "theirs")
    mine = interrupted(tmp_path, "mine")
    shutil.rmtree(mine)
    shutil.copytree(theirs, mine)
    before = {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()}
    with local_cluster(), pytest.raises((SnapshotError, JobFailedError), match="'theirs', not of job 'mine'"):
        finish(start(tmp_path, "mine"))
    assert {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("name", "slug"), [("orders", "orders"), ("orders (EU)", "orders-EU"), ("訂單", "job")]
)
def test_a_job_goes_on_in_the_directory_it_had_before(name: str, slug: str, tmp_path: Path) -> None:
    """Directories were once named without the hash."""
    now = interrupted(tmp_path, name)
    old = tmp_path / "chk" / slug
    if now != old:
        now.rename(old)
    (tmp_path / "gate-0").touch()
    with local_cluster() as launcher:
        finish(start(tmp_path, name))
        restored = launcher.jobs[0].coordinator._restored
        assert restored is not None and restored.epoch >= 3
        assert launcher.jobs[0].job.directory == slug
    assert written(tmp_path, 0) == expected(0)
    (tmp_path / "gate-7").touch()
    with local_cluster() as launcher:
        finish(start(tmp_path, name, 7))
        assert launcher.jobs[0].job.directory != slug, "the next life of the job has the new place"


def test_an_old_directory_of_another_name_is_left_alone(tmp_path: Path) -> None:
    now = interrupted(tmp_path, "orders (EU)")
    old = tmp_path / "chk" / "orders-EU"
    if now != old:
        now.rename(old)
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    (tmp_path / "gate-50").touch()
    with local_cluster():
        finish(start(tmp_path, "orders [EU]", 50))
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before
    assert written(tmp_path, 50) == expected(50)


@pytest.fixture
def late_fence(monkeypatch: pytest.MonkeyPatch) -> Callable[[LocalLauncher], list[int]]:
    """The first job publishes once more between the second one's look at its snapshots and its fence."""

    def arrange(launcher: LocalLauncher) -> list[int]:
        real, seen = Repository.claim, []

        def claim(self: Repository, closing: bool = False) -> Any:
            if not self.is_claimed and self is not launcher.jobs[0].job.repository:
                seen.append(launcher.jobs[0].facts()["checkpoints"])
                wait_for(launcher, 0, seen[-1] + 2)
            return real(self, closing)

        monkeypatch.setattr(Repository, "claim", claim)
        return seen

    return arrange


def test_a_snapshot_published_before_the_fence_is_not_lost(
    tmp_path: Path, late_fence: Callable[[LocalLauncher], list[int]]
) -> None:
    with local_cluster() as launcher:
        first = start(tmp_path, "orders")
        wait_for(launcher, 0, 2)
        seen = late_fence(launcher)
        second = start(tmp_path, "orders")
        with pytest.raises(JobFailedError, match="does not own|came too late"):
            finish(first)
        (tmp_path / "gate-0").touch()
        finish(second)
        restored = launcher.jobs[1].coordinator._restored
        assert restored is not None and restored.epoch >= seen[0] + 2
    assert written(tmp_path, 0) == expected(0)


def test_a_snapshot_published_before_the_fence_is_matched_too(
    tmp_path: Path,
    late_fence: Callable[[LocalLauncher], list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the program cannot take that one, it is too late: the job was taken over, and is told so."""
    real, matched = restore_source.check_restorable, []

    def once(plan: Any, manifest: Manifest, allowed: bool) -> None:
        matched.append(manifest.epoch)
        if len(matched) > 1:
            raise SnapshotError("the program has no such step")
        real(plan, manifest, allowed)

    with local_cluster() as launcher:
        start(tmp_path, "orders")
        wait_for(launcher, 0, 2)
        late_fence(launcher)
        monkeypatch.setattr(restore_source, "check_restorable", once)
        with pytest.raises(JobFailedError, match="no such step. The job was taken over already"):
            finish(start(tmp_path, "orders"))
    assert matched[0] < matched[1]
