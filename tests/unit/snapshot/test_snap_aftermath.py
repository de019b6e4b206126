"""What damage, crashes and the end of a job leave behind, and what the next driver makes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from snap_fixtures import make_manifest, store_state

from penstock.core.errors import CorruptSnapshotError
from penstock.core.ids import Generation
from penstock.snapshot.journal import Fence, Seq, decode, encode, entry_path
from penstock.snapshot.repository import Repository
from penstock.snapshot.storage import SnapshotStore
from penstock.snapshot.verification import check_snapshot


def driver(place: Path) -> Repository:
    repository = Repository(SnapshotStore(str(place)), "job")
    repository.claim()
    return repository


def publish(repository: Repository, epoch: int, generation: int, retained: int) -> None:
    blob = store_state(repository.root, epoch, generation)
    repository.publish(make_manifest(epoch, generation, (blob,)))
    repository.retain(retained)


def checkpoints(repository: Repository) -> list[str]:
    return sorted({path.split("/")[0] for path in repository.root.list() if path.startswith("chk-")})


def test_a_damaged_checkpoint_does_not_count_as_retained(tmp_path: Path) -> None:
    first = driver(tmp_path)
    for epoch in (1, 2, 3):
        publish(first, epoch, 1, 3)
    (tmp_path / "job/chk-3/v1-0-1.state").write_bytes(b"rotten bytes, of any length")
    second = driver(tmp_path)
    found = second.latest_valid(checksums=True)
    assert found is not None and found.manifest.epoch == 2
    publish(second, 4, 2, 2)
    assert checkpoints(second) == ["chk-2", "chk-4"], "2 is the last good one beside 4"
    third = driver(tmp_path)
    assert third.latest_valid() is not None
    publish(third, 5, 3, 3)
    assert checkpoints(third) == ["chk-2", "chk-4", "chk-5"], "also for drivers that did not see the damage"
    publish(third, 6, 3, 3)
    assert checkpoints(third) == ["chk-4", "chk-5", "chk-6"]


def test_a_deleted_journal_entry_is_no_fresh_start(tmp_path: Path) -> None:
    publish(driver(tmp_path), 1, 1, 1)
    second = driver(tmp_path)
    second.root.delete(entry_path(Seq(2)))
    with pytest.raises(CorruptSnapshotError, match=r"0000000002\.json is missing"):
        driver(tmp_path).latest_valid()
    problems = [problem for file in check_snapshot(str(tmp_path / "job")) for problem in file.problems]
    assert len(problems) == 1 and "0000000002.json is missing" in problems[0]


class _Crash(Exception):
    pass


def _die() -> None:
    raise _Crash


class _Dying(SnapshotStore):
    """A store in which something happens before the n-th deletion: its driver dies, or somebody else acts."""

    left = 0
    happening: Callable[[], None] = staticmethod(_die)

    def delete(self, path: str) -> None:
        self._count()
        super().delete(path)

    def delete_tree(self, prefix: str = "") -> None:
        self._count()
        super().delete_tree(prefix)

    def _count(self) -> None:
        _Dying.left -= 1
        if _Dying.left == -1:
            _Dying.happening()


@pytest.mark.parametrize("drivers", [1, 2])
@pytest.mark.parametrize("deletions", range(8))
def test_a_job_that_has_ended_is_over_however_far_its_cleaning_got(
    tmp_path: Path, drivers: int, deletions: int
) -> None:
    for generation in range(1, drivers + 1):
        _Dying.left = 100
        repository = Repository(_Dying(tmp_path), "job")
        repository.claim()
        publish(repository, 2 * generation, generation, 2)
        publish(repository, 2 * generation + 1, generation, 2)
    _Dying.left = deletions
    try:
        repository.drop_all()
    except _Crash:
        pass
    again = driver(tmp_path)
    assert again.latest_valid() is None
    generation = again._owned().generation
    publish(again, again.next_epoch(), generation, 1)
    found = driver(tmp_path).latest_valid()
    assert found is not None and found.manifest.generation == generation
    assert len(checkpoints(again)) == 1, "retention has removed what the crash left"


@pytest.mark.parametrize("deletions", range(8))
def test_what_an_ended_job_left_is_not_taken_for_a_snapshot_behind_a_torn_claim(
    tmp_path: Path, deletions: int
) -> None:
    """A new driver dies while it claims the job; its entry could have announced nothing that is there."""
    _Dying.left = 100
    repository = Repository(_Dying(tmp_path), "job")
    repository.claim()
    publish(repository, 1, 1, 2)
    publish(repository, 2, 1, 2)
    _Dying.left = deletions
    try:
        repository.drop_all()
    except _Crash:
        pass
    driver(tmp_path)
    newest = max((tmp_path / "job" / "journal").iterdir())
    newest.write_bytes(newest.read_bytes()[:20])
    again = driver(tmp_path)
    assert again.latest_valid() is None
    publish(again, again.next_epoch(), again._owned().generation, 1)
    torn = max((tmp_path / "job" / "journal").iterdir())
    torn.write_bytes(torn.read_bytes()[:20])
    with pytest.raises(CorruptSnapshotError, match="damaged and may have announced"):
        driver(tmp_path).latest_valid()


def test_a_torn_first_claim_hides_nothing(tmp_path: Path) -> None:
    """The first driver dies while it claims, the second before its first manifest is in the journal.

    The simulator found the third one refusing to start (``two_phase_broker_crowded``, seed 4147).
    """
    driver(tmp_path)
    (first,) = (tmp_path / "job" / "journal").iterdir()
    first.write_bytes(first.read_bytes()[:20])
    second = driver(tmp_path)
    second.publish(make_manifest(1, second._owned().generation, ()))
    announced = max((tmp_path / "job" / "journal").iterdir())
    announcement = announced.read_bytes()
    announced.unlink()
    assert driver(tmp_path).latest_valid() is None
    max((tmp_path / "job" / "journal").iterdir()).unlink()
    announced.write_bytes(announcement[:20])
    with pytest.raises(CorruptSnapshotError, match="0003.json is damaged and may have announced"):
        driver(tmp_path).latest_valid()


@pytest.mark.parametrize("drivers", [1, 2])
@pytest.mark.parametrize("deletions", range(9))
def test_cleaning_up_touches_nothing_of_a_job_that_is_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drivers: int, deletions: int
) -> None:
    for generation in range(1, drivers + 1):
        _Dying.left = 100
        old = Repository(_Dying(tmp_path), "job")
        old.claim()
        shared = old.root.write_file(f"shared/{generation}", [b"rows"])
        old.publish(make_manifest(generation, generation, (shared,)))
    published = []

    def start_anew() -> None:
        new = driver(tmp_path)
        assert new.latest_valid() is None
        epoch, generation = new.next_epoch(), new._owned().generation
        shared = new.root.write_file("shared/new", [b"rows of the new run"])
        state = store_state(new.root, epoch, generation)
        new.publish(make_manifest(epoch, generation, (shared, state)))
        published.append(epoch)

    monkeypatch.setattr(_Dying, "happening", staticmethod(start_anew))
    _Dying.left = deletions
    old.drop_all()
    assert (tmp_path / "job").exists() is bool(published or drivers == 2)
    found = driver(tmp_path).latest_valid(checksums=True)
    assert [found.manifest.epoch if found else None] == (published or [None])
    if not published:
        assert [path for path in found_files(tmp_path) if "journal" not in path] == []


def found_files(place: Path) -> list[str]:
    return SnapshotStore(str(place)).list()


def test_entries_of_older_formats_keep_their_bytes() -> None:
    for version in (1, 2):
        fence = Fence(Seq(4), Generation(2), "me", "0" * 32, version)
        assert b"closing" not in encode(fence)
        assert decode(Seq(4), encode(fence)) == fence
    closing = Fence(Seq(4), Generation(2), "me", "0" * 32, closing=True)
    assert decode(Seq(4), encode(closing)) == closing


def test_files_that_a_crash_left_half_written_are_swept(tmp_path: Path) -> None:
    root = tmp_path / "job"
    (root / "shared").mkdir(parents=True)
    (root / "shared/.tmp-1").write_bytes(b"half a file")
    (root / ".tmp-2/inside").mkdir(parents=True)
    (root / ".tmp-2/_metadata").write_bytes(b"a directory that was being deleted")
    repository = driver(tmp_path)
    assert repository.root.list() == [entry_path(Seq(1))]
    repository.sweep_shared()
    assert sorted(path.name for path in root.iterdir()) == ["journal", "shared"]
    assert list((root / "shared").iterdir()) == []
