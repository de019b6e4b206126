"""Shared files that no manifest names go when a driver takes the job over, and only then."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from snap_fixtures import make_manifest

from penstock.core.errors import FencedError, SnapshotError
from penstock.snapshot.repository import Repository
from penstock.snapshot.storage import SnapshotStore


def shared(repository: Repository) -> list[str]:
    return [path.removeprefix("shared/") for path in repository.root.list("shared")]


def test_only_what_no_manifest_names_is_swept(tmp_path: Path) -> None:
    old = Repository(SnapshotStore(str(tmp_path)), "job")
    generation, _ = old.claim()
    needed = old.root.write_file("shared/needed", [b"rows"])
    old.publish(make_manifest(1, generation, (needed,)))
    old.root.write_file("shared/given-up", [b"rows of a snapshot that failed"])
    old.retain(1)
    assert shared(old) == ["given-up", "needed"], "it might belong to a snapshot under way"
    new = Repository(SnapshotStore(str(tmp_path)), "job")
    new.claim()
    new.sweep_shared()
    assert shared(new) == ["needed"]


def test_an_unreadable_manifest_stops_the_sweep(tmp_path: Path) -> None:
    repository = Repository(SnapshotStore(str(tmp_path)), "job")
    repository.claim()
    repository.root.write_file("shared/some", [b"rows"])
    repository.root.write_file("chk-1/_metadata", [b"no manifest"])
    with pytest.raises(SnapshotError):
        repository.sweep_shared()
    assert shared(repository) == ["some"]


def test_a_driver_that_was_fenced_sweeps_nothing(tmp_path: Path) -> None:
    old = Repository(SnapshotStore(str(tmp_path)), "job")
    old.claim()
    Repository(SnapshotStore(str(tmp_path)), "job").claim()
    old.root.write_file("shared/of-the-new-one", [b"rows"])
    with pytest.raises(FencedError):
        old.sweep_shared()
    assert shared(old) == ["of-the-new-one"]


class _Hanging(SnapshotStore):
    """A store in which something happens just before the journal is read."""

    def __init__(self, root: Path, happening: Callable[[], None]) -> None:
        super().__init__(str(root))
        self._happening = happening

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        data = super().read(path, offset, length)
        self._happening()
        return data


def test_a_driver_that_hangs_in_its_check_sweeps_nothing_of_its_successor(tmp_path: Path) -> None:
    happening = [lambda: None]
    old = Repository(_Hanging(tmp_path, lambda: happening[0]()), "job")
    old.claim()
    old.root.write_file("shared/given-up", [b"rows"])
    new = Repository(SnapshotStore(str(tmp_path)), "job")

    def takeover() -> None:
        happening[0] = lambda: None
        new.claim()
        new.root.write_file("shared/under-way", [b"rows"])

    happening[0] = takeover
    with suppress(FencedError):
        old.sweep_shared()
    assert "under-way" in shared(new)
