"""Copies of checkpoint files where storage fails, processes are killed and others reach into directories."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from near_copies import backup, copies, lose, snapshot

from penstock.core.errors import SnapshotError
from penstock.core.handles import Blob, digest
from penstock.core.ids import Epoch
from penstock.snapshot.storage import SnapshotStore

ROWS = b"rows" * 1000


class Unsure(SnapshotStore):
    """Writes files, and says that it has not."""

    answers = False

    def write_file(self, path: str, chunks: Iterable[bytes]) -> Blob:
        blob = super().write_file(path, chunks)
        if not self.answers:
            raise SnapshotError("the answer got lost")
        return blob


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(str(tmp_path / "far away"))


def working_file(place: Path) -> Path:
    file = place / "000007.sst"
    file.write_bytes(ROWS)
    return file


def test_a_file_that_cannot_be_stored_stays_as_it_is(tmp_path: Path) -> None:
    """The third attempt wrote into the second one's link, which is the file itself."""
    store = Unsure(str(tmp_path / "far away"))
    slot, file = backup(store, tmp_path), working_file(tmp_path)
    for _ in range(4):
        with pytest.raises(SnapshotError):
            slot.store("shared/a", file)
        assert file.read_bytes() == ROWS
    store.answers = True
    assert slot.store("shared/a", file) == Blob(len(ROWS), digest(ROWS), "shared/a")
    assert store.read("shared/a") == ROWS
    assert copies(tmp_path) == ["shared~a"]


@pytest.mark.parametrize("linked", [True, False])
def test_what_was_not_stored_is_not_kept(tmp_path: Path, linked: bool) -> None:
    slot, file = backup(Unsure(str(tmp_path / "far away")), tmp_path), working_file(tmp_path)
    with pytest.raises(SnapshotError):
        slot.store("shared/a", file) if linked else slot.write_file("shared/a", [ROWS])
    assert copies(tmp_path) == []


def test_a_file_that_is_stored_twice_leaves_one_copy(store: SnapshotStore, tmp_path: Path) -> None:
    slot, file = backup(store, tmp_path), working_file(tmp_path)
    assert slot.store("shared/a", file) == slot.store("shared/a", file)
    assert copies(tmp_path) == ["shared~a"]
    assert file.read_bytes() == ROWS


def test_a_slot_killed_between_link_and_name_leaves_nothing_that_is_written_into(
    store: SnapshotStore, tmp_path: Path
) -> None:
    slot, file = backup(store, tmp_path), working_file(tmp_path)
    (own,) = (tmp_path / "near").rglob("1-0")
    os.link(file, own / "shared~a.draft")
    slot.store("shared/a", file)
    assert file.read_bytes() == ROWS
    assert slot.write_file("shared/a", [b"others"]).length == len(b"others")
    assert file.read_bytes() == ROWS


def test_nothing_is_removed_by_way_of_a_directory_that_others_can_change(
    store: SnapshotStore, tmp_path: Path
) -> None:
    """Whoever made it first may have put a link there, to where files lie that are ours."""
    backup(store, tmp_path)
    (place,) = (tmp_path / "near").iterdir()
    home = tmp_path / "home"
    home.mkdir()
    (home / "precious").write_bytes(b"keep me")
    (place / "2-0").symlink_to(home)
    place.chmod(0o777)
    slot = backup(store, tmp_path, 2)
    stored = slot.store("shared/a", working_file(tmp_path))
    slot.fetch([(stored, tmp_path / "2.sst")])
    slot.taken(Epoch(1), snapshot())
    slot.completed(Epoch(1))
    slot.remove()
    assert [(file.name, file.read_bytes()) for file in home.iterdir()] == [("precious", b"keep me")]
    assert (tmp_path / "2.sst").read_bytes() == ROWS


def test_nothing_is_made_behind_a_link(store: SnapshotStore, tmp_path: Path) -> None:
    backup(store, tmp_path)
    (place,) = (tmp_path / "near").iterdir()
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    backup(store, tmp_path, 2).write_file("shared/a", [b"a"])
    assert os.listdir(tmp_path / "elsewhere") == ["1-0"]


def test_one_directory_that_cannot_be_read_does_not_cost_the_others(
    store: SnapshotStore, tmp_path: Path
) -> None:
    blob = backup(store, tmp_path).write_file("shared/a", [b"state"])
    lose(store, blob)
    (place,) = (tmp_path / "near").iterdir()
    (place / "1-1").write_bytes(b"not a directory")
    assert backup(store, tmp_path, 2).read_blob(blob) == b"state"


def test_what_a_dying_attempt_still_writes_goes_with_it(store: SnapshotStore, tmp_path: Path) -> None:
    """It holds on to files that RocksDB has merged away, for as long as the job runs."""
    dying = backup(store, tmp_path)
    slot = backup(store, tmp_path, 2)
    dying.write_file("shared/a", [b"a"])
    blob = slot.write_file("shared/b", [b"b"])
    slot.taken(Epoch(1), snapshot(blob))
    slot.completed(Epoch(1))
    assert copies(tmp_path) == ["shared~b"]


def test_a_job_that_comes_back_after_days_finds_its_copies(store: SnapshotStore, tmp_path: Path) -> None:
    blob = backup(store, tmp_path).write_file("shared/a", [b"state"])
    (place,) = (tmp_path / "near").iterdir()
    long_ago = place.stat().st_mtime - 3 * 24 * 3600
    os.utime(place, (long_ago, long_ago))
    lose(store, blob)
    assert backup(store, tmp_path, 2).read_blob(blob) == b"state"


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EMLINK, errno.EPERM, errno.ENOSPC, errno.EROFS])
def test_without_links_state_comes_and_goes_all_the_same(
    store: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    asked: list[Any] = []

    def refused(*paths: Any) -> NoReturn:
        asked.append(paths)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refused)
    blob = backup(store, tmp_path).store("shared/a", working_file(tmp_path))
    backup(store, tmp_path, 2).fetch([(blob, tmp_path / "2.sst")])
    lose(store, blob)
    backup(store, tmp_path, 3).fetch([(blob, tmp_path / "3.sst")])
    assert (tmp_path / "2.sst").read_bytes() == (tmp_path / "3.sst").read_bytes() == ROWS
    assert len(asked) > 2


def test_copies_may_vanish_while_they_are_fetched(store: SnapshotStore, tmp_path: Path) -> None:
    """A former attempt that is still at work removes them, file by file."""
    former, wanted = backup(store, tmp_path), list[tuple[Blob, Path]]()
    for number in range(200):
        blob = former.write_file(f"shared/{number}", [b"%d" % number * 1000])
        wanted.append((blob, tmp_path / f"{number}.sst"))
    store.at_once = 4
    slot = backup(store, tmp_path, 2)
    (gone,) = (tmp_path / "near").rglob("1-0")
    removing = threading.Thread(target=shutil.rmtree, args=(gone,))
    removing.start()
    slot.fetch(wanted)
    removing.join()
    assert [target.read_bytes() for _, target in wanted] == [b"%d" % n * 1000 for n in range(200)]
