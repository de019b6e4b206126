"""Jobs that restore from copies on the slots' own disk: the storage is not asked for their state."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from flow_graphs import GRAPHS, Pace
from local_jobs import finish, kill_slot, output, start_graph, wait_for_snapshots

from penstock.core.handles import Blob
from penstock.snapshot.local_backup import LocalBackup
from penstock.snapshot.storage import SnapshotStore
from penstock.testing.local import local_cluster

COUNT, RATE = 900, 2500.0


@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
def test_state_is_restored_from_the_disk_of_the_slot(
    backend: str, tmp_path: Path, quick_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[str | None] = []
    fetched: list[str | None] = []
    place = threading.local()
    near, near_files, far = LocalBackup.read_blob, LocalBackup.fetch, SnapshotStore.read_blob

    @contextmanager
    def asked(blobs: Iterable[Blob]) -> Iterator[None]:
        wanted.extend(blob.path for blob in blobs if blob.path is not None)
        before, place.is_slot = getattr(place, "is_slot", False), True
        try:
            yield
        finally:
            place.is_slot = before

    def by_slot(self: LocalBackup, blob: Blob) -> bytes:
        with asked([blob]):
            return near(self, blob)

    def files_by_slot(self: LocalBackup, files: Sequence[tuple[Blob, Path]]) -> None:
        with asked(blob for blob, _ in files):
            near_files(self, files)

    def by_anybody(self: SnapshotStore, blob: Blob) -> bytes:
        if blob.path is not None and getattr(place, "is_slot", False):
            fetched.append(blob.path)
        return far(self, blob)

    monkeypatch.setattr(LocalBackup, "read_blob", by_slot)
    monkeypatch.setattr(LocalBackup, "fetch", files_by_slot)
    monkeypatch.setattr(SnapshotStore, "read_blob", by_anybody)
    chosen = {
        "state__backend__type": backend,
        "state__storage__fs__memory_threshold": "0",
        "execution__checkpointing__local_backup__enabled": "true",
        "execution__checkpointing__local_backup__dirs": str(quick_disk),
    }
    with local_cluster() as launcher:
        pace = Pace(RATE, tmp_path / "gate")
        client = start_graph("keyed", tmp_path / "out", tmp_path / "chk", 2, COUNT, pace, **chosen)
        wait_for_snapshots(launcher, 3)
        kill_slot(launcher)
        wait_for_snapshots(launcher, 2)
        kill_slot(launcher, 1)
        pace.gate.touch()
        finish(client)
    assert output("keyed", tmp_path / "out") == GRAPHS["keyed"][1](COUNT)
    assert any(str(path).startswith("shared/") for path in wanted) == (backend == "rocksdb")
    assert wanted
    assert fetched == []
    assert list(quick_disk.glob("penstock-backup-*")) == []
