"""Copies of a slot's snapshot files on its machine's disk: what is read from them, and what is not."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest
from near_copies import backup, copies, lose, snapshot

from penstock.core.clock import SystemClock
from penstock.core.errors import CorruptSnapshotError
from penstock.core.handles import Blob, digest
from penstock.core.ids import Epoch, Generation, SlotId
from penstock.snapshot import local_backup as copying
from penstock.snapshot.local_backup import LocalBackup, local_backup
from penstock.snapshot.storage import MemoryStore, SnapshotStore
from penstock.snapshot.store import open_store


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return open_store(str(tmp_path / "far away"))


def test_a_new_process_restores_from_the_copies_of_the_dead_one(store: SnapshotStore, tmp_path: Path) -> None:
    blob = backup(store, tmp_path).write_file("shared/a", [b"sta", b"te"])
    lose(store, blob)
    after = backup(store, tmp_path, generation=2, slot=5)
    assert after.read_blob(blob) == b"state"
    part = Blob(2, digest(b"ta"), "shared/a", 1)
    assert after.read_blob(part) == b"ta"


def test_what_was_written_far_away_is_whole_there(store: SnapshotStore, tmp_path: Path) -> None:
    blob = backup(store, tmp_path).write_file("chk-1/x.state", iter([b"sta", b"te"]))
    assert (blob.length, blob.checksum) == (5, digest(b"state"))
    assert store.read_blob(blob) == b"state"


@pytest.mark.parametrize("damage", [b"stat", b"STATE", b""])
def test_a_damaged_copy_is_as_good_as_none(store: SnapshotStore, tmp_path: Path, damage: bytes) -> None:
    blob = backup(store, tmp_path).write_file("shared/a", [b"state"])
    next((tmp_path / "near").rglob("shared~a")).write_bytes(damage)
    assert backup(store, tmp_path, 2).read_blob(blob) == b"state"
    lose(store, blob)
    with pytest.raises(CorruptSnapshotError):
        backup(store, tmp_path, 2).read_blob(blob)


def test_another_jobs_copies_are_not_looked_at(store: SnapshotStore, tmp_path: Path) -> None:
    blob = backup(store, tmp_path).write_file("shared/a", [b"state"])
    other = backup(open_store(str(tmp_path / "other")), tmp_path, 2)
    with pytest.raises(CorruptSnapshotError):
        other.read_blob(blob)


def test_only_what_the_newest_complete_checkpoint_needs_is_kept(store: SnapshotStore, tmp_path: Path) -> None:
    slot = backup(store, tmp_path)
    kept, gone, coming = (slot.write_file(f"shared/{name}", [name.encode()]) for name in ("a", "b", "c"))
    slot.taken(Epoch(1), snapshot(kept, gone))
    slot.taken(Epoch(2), snapshot(kept))
    slot.taken(Epoch(3), snapshot(kept, coming))
    slot.completed(Epoch(1))
    assert copies(tmp_path) == ["shared~a", "shared~b", "shared~c"]
    slot.completed(Epoch(2))
    assert copies(tmp_path) == ["shared~a", "shared~c"]


def test_a_savepoint_takes_nothing_away(store: SnapshotStore, tmp_path: Path) -> None:
    slot = backup(store, tmp_path)
    slot.taken(Epoch(1), snapshot(slot.write_file("shared/a", [b"a"])))
    slot.completed(Epoch(2))
    assert copies(tmp_path) == ["shared~a"]


def test_what_was_restored_is_kept_without_the_dead_attempts(store: SnapshotStore, tmp_path: Path) -> None:
    dead = backup(store, tmp_path)
    blob = dead.write_file("shared/a", [b"state"])
    dead.write_file("shared/never-named", [b"x"])
    slot = backup(store, tmp_path, 2)
    slot.read_blob(blob)
    slot.taken(Epoch(7), snapshot(blob))
    slot.completed(Epoch(7))
    assert copies(tmp_path) == ["shared~a"]
    lose(store, blob)
    assert backup(store, tmp_path, 3).read_blob(blob) == b"state"


def test_slots_of_one_attempt_leave_each_others_copies_alone(store: SnapshotStore, tmp_path: Path) -> None:
    dead, one, two = backup(store, tmp_path), backup(store, tmp_path, 2, 0), backup(store, tmp_path, 2, 1)
    dead.write_file("shared/old", [b"old"])
    mine, others = one.write_file("shared/a", [b"a"]), two.write_file("shared/b", [b"b"])
    restarted = backup(store, tmp_path, 3, 0)
    last = backup(store, tmp_path, 3, 1)
    assert (last.read_blob(mine), restarted.read_blob(others)) == (b"a", b"b")
    restarted.taken(Epoch(1), snapshot(others))
    restarted.completed(Epoch(1))
    assert copies(tmp_path) == ["shared~a", "shared~b"]


def test_a_finished_slot_leaves_nothing(store: SnapshotStore, tmp_path: Path) -> None:
    slot = backup(store, tmp_path)
    slot.write_file("shared/a", [b"a"])
    slot.remove()
    assert list((tmp_path / "near").iterdir()) == []


def test_a_directory_that_others_can_change_is_not_used(
    store: SnapshotStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blob = backup(store, tmp_path).write_file("shared/a", [b"state"])
    (place,) = (tmp_path / "near").iterdir()
    place.chmod(0o777)
    lose(store, blob)
    slot = backup(store, tmp_path, 2)
    with pytest.raises(CorruptSnapshotError):
        slot.read_blob(blob)
    slot.write_file("shared/b", [b"b"])
    assert copies(tmp_path) == ["shared~a"]
    assert "others can change it" in caplog.text


def test_a_link_in_the_place_of_the_directory_is_not_followed(store: SnapshotStore, tmp_path: Path) -> None:
    backup(store, tmp_path)
    (place,) = (tmp_path / "near").iterdir()
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    precious = tmp_path / "elsewhere" / "1-0" / "precious"
    precious.write_bytes(b"keep me")
    slot = backup(store, tmp_path, 2)
    slot.taken(Epoch(1), snapshot())
    slot.completed(Epoch(1))
    assert precious.exists()


def test_a_disk_without_room_costs_only_the_copy(
    store: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this machine has no /dev/full")
    slot, opened = backup(store, tmp_path), list[Path]()

    def full(path: Path, mode: str) -> Any:
        opened.append(path)
        return open("/dev/full", "wb")

    monkeypatch.setattr(copying, "open_file", full)
    blob = slot.write_file("shared/a", [b"x" * 1_000_000] * 3)
    assert store.read_blob(blob) == b"x" * 3_000_000
    assert backup(store, tmp_path, 2).read_blob(blob) == b"x" * 3_000_000
    assert copies(tmp_path) == [] and len(opened) == 1


def test_a_base_that_is_a_file_costs_only_the_copies(
    store: SnapshotStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "near").write_text("a file")
    blob = backup(store, tmp_path).write_file("shared/a", [b"state"])
    assert store.read_blob(blob) == b"state"
    assert "no local copies of checkpoints" in caplog.text


def test_what_a_job_left_behind_a_day_ago_is_removed(store: SnapshotStore, tmp_path: Path) -> None:
    backup(store, tmp_path).write_file("shared/a", [b"a"])
    (place,) = (tmp_path / "near").iterdir()
    long_ago = place.stat().st_mtime - 2 * 24 * 3600
    os.utime(place, (long_ago, long_ago))
    backup(open_store(str(tmp_path / "other")), tmp_path)
    assert not place.exists()


def stored(slot: LocalBackup, tmp_path: Path) -> Blob:
    """A file of a working database, put into a snapshot."""
    file = tmp_path / "000007.sst"
    file.write_bytes(b"rows" * 1000)
    blob = slot.store("shared/a", file)
    file.unlink()  # merged, later
    return blob


def no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> NoReturn:
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr(os, "link", refused)


def test_a_file_that_never_changes_is_linked_and_not_copied(store: SnapshotStore, tmp_path: Path) -> None:
    file = tmp_path / "000007.sst"
    file.write_bytes(b"rows")
    blob = backup(store, tmp_path).store("shared/a", file)
    (copy,) = (tmp_path / "near").rglob("shared~a")
    assert copy.samefile(file)
    assert blob == Blob(4, digest(b"rows"), "shared/a")
    far = Path(store.root) / "shared/a"
    assert far.read_bytes() == b"rows" and not far.samefile(file)


def test_a_restored_file_is_a_link_to_the_copy_and_kept_for_the_next(
    store: SnapshotStore, tmp_path: Path
) -> None:
    blob = stored(backup(store, tmp_path), tmp_path)
    lose(store, blob)
    slot = backup(store, tmp_path, 2)
    slot.fetch([(blob, tmp_path / "2.sst")])
    assert (tmp_path / "2.sst").read_bytes() == b"rows" * 1000
    slot.taken(Epoch(1), snapshot(blob))
    slot.completed(Epoch(1))
    (copy,) = (tmp_path / "near").rglob("shared~a")
    assert copy.samefile(tmp_path / "2.sst")
    backup(store, tmp_path, 3).fetch([(blob, tmp_path / "3.sst")])
    assert (tmp_path / "3.sst").read_bytes() == b"rows" * 1000


def test_what_was_fetched_from_afar_is_at_hand_the_next_time(store: SnapshotStore, tmp_path: Path) -> None:
    blob = stored(backup(store, tmp_path / "another machine"), tmp_path)
    backup(store, tmp_path, 2).fetch([(blob, tmp_path / "2.sst")])
    lose(store, blob)
    backup(store, tmp_path, 3).fetch([(blob, tmp_path / "3.sst")])
    assert (tmp_path / "3.sst").read_bytes() == b"rows" * 1000


def test_across_disks_files_are_copied(
    store: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_links(monkeypatch)
    blob = stored(backup(store, tmp_path), tmp_path)
    lose(store, blob)
    backup(store, tmp_path, 2).fetch([(blob, tmp_path / "2.sst")])
    assert (tmp_path / "2.sst").read_bytes() == b"rows" * 1000


@pytest.mark.parametrize("can_link", [True, False])
@pytest.mark.parametrize("damage", [b"rows" * 999, b"rows" * 999 + b"ROWS"])
def test_a_damaged_copy_is_not_linked_to(
    store: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes, can_link: bool
) -> None:
    blob = stored(backup(store, tmp_path), tmp_path)
    (copy,) = (tmp_path / "near").rglob("shared~a")
    copy.write_bytes(damage)
    if not can_link:
        no_links(monkeypatch)
    target = tmp_path / "2.sst"
    backup(store, tmp_path, 2).fetch([(blob, target)])
    assert target.read_bytes() == b"rows" * 1000
    assert copy.read_bytes() == damage, "what was put beside it did not go through a link"
    lose(store, blob)
    for attempt in (tmp_path / "near").rglob("shared~a"):
        attempt.write_bytes(damage)
    with pytest.raises(CorruptSnapshotError):
        backup(store, tmp_path, 3).fetch([(blob, tmp_path / "3.sst")])
    assert not (tmp_path / "3.sst").exists()


def test_many_files_are_fetched_side_by_side(store: SnapshotStore, tmp_path: Path) -> None:
    slot, wanted = backup(store, tmp_path), list[tuple[Blob, Path]]()
    for number in range(40):
        file = tmp_path / f"{number}.sst"
        file.write_bytes(b"%d" % number)
        wanted.append((slot.store(f"shared/{number}", file), tmp_path / "db" / file.name))
    (tmp_path / "db").mkdir()
    for blob, _ in wanted[::2]:
        lose(store, blob)
    for copy in list((tmp_path / "near").rglob("shared~*[13579]")):
        copy.unlink()
    store.at_once = 4
    backup(store, tmp_path, 2).fetch(wanted)
    assert [target.read_bytes() for _, target in wanted] == [b"%d" % number for number in range(40)]


def test_there_are_none_where_nothing_is_in_files(tmp_path: Path) -> None:
    who = (Generation(1), SlotId(0), SystemClock())
    assert local_backup(str(tmp_path), MemoryStore(), *who) is None
    assert local_backup(None, open_store(str(tmp_path)), *who) is None
