from __future__ import annotations

import logging
import uuid
from pathlib import Path

import pytest
from snap_fixtures import make_manifest, store_state

from penstock.core.errors import ConfigError, CorruptSnapshotError, FencedError, SnapshotError
from penstock.core.handles import Blob
from penstock.core.signals import SnapshotKind
from penstock.snapshot.journal import Fence, Published, Seq, entry_path
from penstock.snapshot.recovery import read_manifest
from penstock.snapshot.repository import Repository, write_savepoint
from penstock.snapshot.retain import plan_deletions
from penstock.snapshot.storage import MemoryStore, SnapshotStore
from penstock.snapshot.store import open_store


@pytest.fixture(params=["local", "memory", "fsspec"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SnapshotStore:
    if request.param == "local":
        return SnapshotStore(str(tmp_path))
    return MemoryStore() if request.param == "memory" else SnapshotStore(f"memory://{uuid.uuid4().hex}")


def started(store: SnapshotStore, *epochs: int) -> Repository:
    """A repository that has claimed the job and published the epochs, each with a state file."""
    repository = Repository(store, "job")
    generation, _ = repository.claim()
    for epoch in epochs:
        blob = store_state(repository.root, epoch, generation)
        repository.publish(make_manifest(epoch, generation, (blob,)))
    return repository


def test_snap_a_new_job_has_nothing(store: SnapshotStore) -> None:
    repository = Repository(store, "job")
    generation, entries = repository.claim()
    assert generation == 1
    assert [type(entry) for entry in entries] == [Fence]
    assert repository.latest_valid() is None
    assert repository.next_epoch() == 1


def test_snap_published_snapshots_are_found(store: SnapshotStore) -> None:
    repository = started(store, 1)
    permit = repository.publish(make_manifest(2, 1))
    assert (permit.epoch, permit.generation) == (2, 1)
    found = repository.latest_valid(checksums=True)
    assert found is not None
    assert found.manifest == make_manifest(2, 1)
    assert str(found.location).endswith("job/chk-2/_metadata")
    assert repository.next_epoch() == 3


def test_snap_a_new_driver_takes_over(store: SnapshotStore) -> None:
    old = started(store, 1, 2)
    new = Repository(store, "job")
    generation, _ = new.claim()
    assert generation == 2
    found = new.latest_valid()
    assert found is not None and found.manifest.epoch == 2
    assert new.permit_restored(found.manifest).epoch == 2
    with pytest.raises(FencedError):
        old.publish(make_manifest(3, 1))
    with pytest.raises(FencedError):
        old.claim()
    with pytest.raises(FencedError):
        old.retain(1)
    with pytest.raises(FencedError):
        old.drop_all()
    with pytest.raises(FencedError):
        old.permit_restored(found.manifest)
    assert new.publish(make_manifest(3, 2)).generation == 2


def test_snap_manifest_of_a_zombie_does_not_block_its_epoch(store: SnapshotStore) -> None:
    old = started(store, 1)
    new = started(store)
    with pytest.raises(FencedError):
        old.publish(make_manifest(2, 1))
    assert new.root.exists("chk-2/_metadata")
    new.publish(make_manifest(2, 2))
    found = new.latest_valid()
    assert found is not None
    assert (found.manifest.generation, found.location.manifest) == (2, "chk-2/_metadata-2")


def test_snap_restarts_renew_the_claim(store: SnapshotStore) -> None:
    repository = started(store, 1)
    assert repository.claim()[0] == 2
    with pytest.raises(FencedError):
        repository.publish(make_manifest(2, 1))
    assert repository.publish(make_manifest(2, 2)).epoch == 2


def test_snap_nothing_works_without_a_claim(store: SnapshotStore) -> None:
    repository = Repository(store, "job")
    for call in (
        lambda: repository.publish(make_manifest(1)),
        lambda: repository.retain(1),
        repository.drop_all,
    ):
        with pytest.raises(FencedError):
            call()
    with pytest.raises(SnapshotError):
        Repository(store, "../job")


def test_snap_epochs_only_grow(store: SnapshotStore) -> None:
    repository = started(store, 1, 5)
    with pytest.raises(SnapshotError, match="snapshot 4 cannot be published after snapshot 5"):
        repository.publish(make_manifest(4))


def test_snap_damaged_snapshots_are_left_aside_loudly(
    store: SnapshotStore, caplog: pytest.LogCaptureFixture
) -> None:
    repository = started(store, 1, 2, 3)
    repository.root.delete("chk-3/v1-0-1.state")
    with repository.root.write("chk-2/v1-0-1.state") as writer:
        writer.write(b"short")
    with caplog.at_level(logging.WARNING):
        found = repository.latest_valid()
    assert found is not None and found.manifest.epoch == 1
    assert "SNAPSHOT 3 IS NOT USED" in caplog.text and "chk-3/v1-0-1.state is missing" in caplog.text
    assert "SNAPSHOT 2 IS NOT USED" in caplog.text and "5 bytes" in caplog.text
    found = repository.latest_valid(verify=False)
    assert found is not None and found.manifest.epoch == 3


def test_snap_changed_bytes_need_checksums_to_be_noticed(store: SnapshotStore) -> None:
    repository = started(store, 1, 2)
    with repository.root.write("chk-2/v1-0-1.state") as writer:
        writer.write(b"STATE of 2")
    first, second = repository.latest_valid(), repository.latest_valid(checksums=True)
    assert first is not None and first.manifest.epoch == 2
    assert second is not None and second.manifest.epoch == 1


def test_snap_changed_manifests_are_noticed(store: SnapshotStore) -> None:
    repository = started(store, 1, 2)
    with repository.root.write("chk-2/_metadata") as writer:
        writer.write(make_manifest(2, 1).to_json())
    found = repository.latest_valid()
    assert found is not None and found.manifest.epoch == 1


def test_snap_all_damaged_is_an_error(store: SnapshotStore) -> None:
    repository = started(store, 1, 2)
    for epoch in (1, 2):
        repository.root.delete_tree(f"chk-{epoch}")
    with pytest.raises(CorruptSnapshotError, match="none of the 2 snapshots"):
        repository.latest_valid()


class _Failing(MemoryStore):
    """A store of which chosen reads fail, and of which listings may miss files."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: set[str] = set()
        self.unlisted: set[str] = set()

    def list(self, prefix: str = "") -> list[str]:
        return [path for path in super().list(prefix) if path not in self.unlisted]

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if path in self.failing:
            raise SnapshotError(f"{path}: timed out")
        return super().read(path, offset, length)

    def sub(self, path: str) -> MemoryStore:
        return self


def test_snap_storage_trouble_does_not_go_back_in_time() -> None:
    store = _Failing()
    repository = started(store, 1, 2)
    store.failing = {"chk-2/_metadata"}
    with pytest.raises(SnapshotError, match="timed out"):
        repository.latest_valid()


def test_snap_unconfirmed_publication_gives_no_foothold() -> None:
    """A zombie writes to a deleted number, cannot check it, and tries again: still no permit.

    Not even if its listing misses what others wrote meanwhile.
    """
    store = _Failing()
    old = started(store, 1)
    new = started(store, 2)
    new.retain(1)
    for epoch in (3, 4, 5):
        store_state(store, epoch, 2)
        new.publish(make_manifest(epoch, 2))
    new.retain(1)
    store.failing = {entry_path(Seq(2))}
    with pytest.raises(SnapshotError, match="timed out"):
        old.publish(make_manifest(2, 1))
    assert store.exists(entry_path(Seq(3)))
    store.failing = set()
    store.unlisted = set(store.list("journal")) - {entry_path(Seq(3))}
    with pytest.raises(FencedError):
        old.publish(make_manifest(3, 1))
    store.unlisted = set()
    found = new.latest_valid()
    assert found is not None and found.manifest.epoch == 5


def test_snap_unconfirmed_publication_of_the_owner_is_followed_by_the_next() -> None:
    store = _Failing()
    repository = started(store, 1)
    store.failing = {entry_path(Seq(2))}
    with pytest.raises(SnapshotError, match="timed out"):
        repository.publish(make_manifest(2))
    store.failing = set()
    assert repository.publish(make_manifest(3)).epoch == 3
    published = [e.epoch for e in repository.load_entries() if isinstance(e, Published)]
    assert published == [1, 2, 3]


def test_snap_a_publication_may_be_tried_again() -> None:
    store = _Failing()
    repository = started(store, 1)
    store.failing = {entry_path(Seq(2))}
    with pytest.raises(SnapshotError, match="timed out"):
        repository.publish(make_manifest(2))
    store.failing = set()
    assert repository.publish(make_manifest(2)).epoch == 2
    assert len(repository.load_entries()) == 3


def test_snap_torn_entry_is_passed_by_the_next_driver(store: SnapshotStore) -> None:
    old = started(store, 1)
    old.root.create_if_absent(entry_path(Seq(3)), b'{"entry":"fe')
    with pytest.raises(FencedError, match="unreadable"):
        old.publish(make_manifest(2))
    new = Repository(store, "job")
    generation, _ = new.claim()
    found = new.latest_valid()
    assert found is not None and found.manifest.epoch == 1
    assert new.publish(make_manifest(2, generation)).epoch == 2


def test_snap_retention_keeps_the_newest(store: SnapshotStore) -> None:
    repository = started(store, 1, 2, 3, 4)
    store_state(repository.root, 2, 9, "never-published")
    store_state(repository.root, 5)
    repository.retain(2)
    assert repository.root.list() == [
        "chk-3/_metadata",
        "chk-3/v1-0-1.state",
        "chk-4/_metadata",
        "chk-4/v1-0-1.state",
        "chk-5/v1-0-1.state",
        "journal/0000000004.json",
        "journal/0000000005.json",
    ]
    found = repository.latest_valid(checksums=True)
    assert found is not None and found.manifest.epoch == 4
    repository.publish(make_manifest(6))
    repository.retain(1)
    assert repository.root.list() == ["chk-6/_metadata", "journal/0000000006.json"]
    with pytest.raises(SnapshotError):
        repository.retain(0)


def test_snap_retention_does_not_count_damaged_snapshots(store: SnapshotStore) -> None:
    repository = started(store, 1, 2, 3)
    repository.root.delete("chk-3/_metadata")
    repository.retain(1)
    found = repository.latest_valid()
    assert found is not None and found.manifest.epoch == 2


def test_snap_shared_files_go_with_their_last_user(store: SnapshotStore) -> None:
    repository = started(store)
    root = repository.root
    a, b, c = (root.write_file(f"shared/{name}.sst", [name.encode()]) for name in "abc")
    root.write_file("shared/pending.sst", [b"under way"])
    root.write_file("taskowned/x", [b"x"])
    for epoch, blobs in ((1, (a, b)), (2, (b, c)), (3, (c,))):
        repository.publish(make_manifest(epoch, 1, blobs))
        repository.retain(1)
        if epoch == 2:
            assert root.list("shared") == ["shared/b.sst", "shared/c.sst", "shared/pending.sst"]
    assert root.list("shared") == ["shared/c.sst", "shared/pending.sst"]
    assert root.exists("taskowned/x")


def test_snap_retention_plan_never_touches_referenced_files() -> None:
    kept = make_manifest(5, 1, (Blob(1, "0" * 32, "chk-2/old"), Blob(1, "0" * 32, "shared/s")))
    dropped = make_manifest(3, 1, (Blob(1, "0" * 32, "shared/s"), Blob(1, "0" * 32, "shared/t")))
    seen = ["chk-2/old", "chk-2/other", "chk-3/_metadata", "chk-5/_metadata", "chk-5/extra"]
    seen += ["shared/s", "shared/t", "shared/u", "journal/0000000001.json", "chk-4", "chk-x/y"]
    plan = plan_deletions({"chk-5/_metadata": kept}, [dropped], kept.epoch, seen)
    assert plan.trees == ("chk-3",)
    assert plan.files == ("chk-2/other", "shared/t")


def test_snap_success_deletes_everything(store: SnapshotStore) -> None:
    repository = started(store, 1, 2)
    repository.drop_all()
    assert store.list() == []
    with pytest.raises(FencedError):
        repository.publish(make_manifest(3, 2))
    again = Repository(store, "job")
    assert again.claim()[0] == 1
    assert again.latest_valid() is None


def test_snap_success_leaves_a_fence_against_older_drivers(store: SnapshotStore) -> None:
    old = started(store, 1)
    new = started(store)
    new.drop_all()
    assert store.list() == ["job/journal/0000000004.json"]
    with pytest.raises(FencedError):
        old.publish(make_manifest(2, 1))
    again = Repository(store, "job")
    assert again.claim()[0] == 4
    assert again.latest_valid() is None


def test_snap_memory_limits_inline_state() -> None:
    repository = Repository(MemoryStore(max_state_bytes=100), "job")
    repository.claim()
    repository.publish(make_manifest(1, 1, (Blob.of(b"x" * 80),)))
    with pytest.raises(SnapshotError, match=r"step 'Count', subtask 0, has 107 bytes.*100"):
        repository.publish(make_manifest(2, 1, (Blob.of(b"x" * 100),)))


def test_snap_explicit_paths(tmp_path: Path) -> None:
    store = SnapshotStore(str(tmp_path))
    started(store, 1, 2)
    job = tmp_path / "job"
    for path in (f"{job}/chk-1", f"{job}/chk-1/", f"{job}/chk-1/_metadata", (job / "chk-1").as_uri()):
        found = read_manifest(path)
        assert found.manifest.epoch == 1
        assert (found.location.root, found.location.manifest) == (job.as_uri(), "chk-1/_metadata")
    assert read_manifest(str(job)).manifest.epoch == 2
    (job / "chk-2" / "v1-0-1.state").unlink()
    assert read_manifest(job.as_uri()).manifest.epoch == 1
    with pytest.raises(CorruptSnapshotError, match="is missing"):
        read_manifest(f"{job}/chk-2")
    assert read_manifest(f"{job}/chk-2", verify=False).manifest.epoch == 2


def test_snap_explicit_paths_without_a_snapshot(tmp_path: Path) -> None:
    started(SnapshotStore(str(tmp_path)))
    for path in (tmp_path, tmp_path / "job", tmp_path / "nowhere"):
        with pytest.raises(SnapshotError, match="no snapshot at"):
            read_manifest(str(path))
    with pytest.raises(CorruptSnapshotError, match="is missing"):
        read_manifest(str(tmp_path / "job" / "chk-1" / "_metadata"))
    with pytest.raises(ConfigError):
        read_manifest("nosuchscheme://x/chk-1")


def test_snap_savepoints_can_be_moved(tmp_path: Path) -> None:
    directory = open_store(str(tmp_path / "savepoint-job-1"))
    blob = directory.write_file("v1-0.state", [b"state"])
    savepoint = make_manifest(3, 1, (blob,), SnapshotKind.SAVEPOINT)
    write_savepoint(directory, savepoint)
    write_savepoint(directory, savepoint)
    with pytest.raises(SnapshotError, match="already holds"):
        write_savepoint(directory, make_manifest(4, 1, (), SnapshotKind.SAVEPOINT))
    (tmp_path / "savepoint-job-1").rename(tmp_path / "elsewhere")
    found = read_manifest(str(tmp_path / "elsewhere"))
    assert found.manifest == savepoint
    root = open_store(found.location.root, create=False)
    assert root.read_blob(blob) == b"state"


def test_snap_published_savepoints_count_for_recovery_and_are_never_deleted(tmp_path: Path) -> None:
    repository = started(SnapshotStore(str(tmp_path)), 1, 2)
    directory = open_store(str(tmp_path / "savepoint-job-1"))
    blob = directory.write_file("v1-0.state", [b"state"])
    savepoint = make_manifest(3, 1, (blob,), SnapshotKind.SAVEPOINT)
    with pytest.raises(SnapshotError, match="needs the directory"):
        repository.publish(savepoint)
    assert repository.publish(savepoint, directory).epoch == 3
    found = repository.latest_valid(checksums=True)
    assert found is not None and found.manifest.kind is SnapshotKind.SAVEPOINT
    repository.retain(1)
    assert repository.root.list() == [
        "chk-2/_metadata",
        "chk-2/v1-0-1.state",
        "journal/0000000003.json",
        "journal/0000000004.json",
    ]
    repository.drop_all()
    assert read_manifest(directory.url).manifest == savepoint
