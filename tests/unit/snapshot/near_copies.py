"""What tests of copies of checkpoint files share."""

from __future__ import annotations

from pathlib import Path

from penstock.core.clock import SystemClock
from penstock.core.handles import Blob, NativeHandle, OperatorSnapshot, SubtaskSnapshot
from penstock.core.ids import Generation, OperatorId, SlotId, Subtask, SubtaskIndex, VertexId
from penstock.snapshot.local_backup import LocalBackup
from penstock.snapshot.storage import SnapshotStore

SUBTASK = Subtask(VertexId("v"), SubtaskIndex(0))


def backup(store: SnapshotStore, tmp_path: Path, generation: int = 1, slot: int = 0) -> LocalBackup:
    return LocalBackup(store, tmp_path / "near", Generation(generation), SlotId(slot), SystemClock())


def snapshot(*blobs: Blob) -> SubtaskSnapshot:
    files = tuple((f"{number}.sst", blob) for number, blob in enumerate(blobs))
    keyed = NativeHandle("rocksdb", files, (0, 127), False)
    return SubtaskSnapshot(SUBTASK, (OperatorSnapshot(OperatorId("op"), (keyed,), None, ()),), False)


def copies(tmp_path: Path) -> list[str]:
    return sorted(file.name for file in (tmp_path / "near").rglob("*") if file.is_file())


def lose(store: SnapshotStore, blob: Blob) -> None:
    assert blob.path is not None
    (Path(store.root) / blob.path).unlink()
