"""Planted bugs around copies of checkpoint files near the slots: each must be found within some seeds."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from sim_graphs import faults_of, simulation_of
from sim_planted import Patch, Planted, must_be_found

from penstock.core.handles import Blob
from penstock.snapshot import local_backup
from penstock.snapshot.local_backup import LocalBackup
from penstock.state.rocks import database


def copies_are_believed(patch: Patch) -> None:
    """What has the name of a file is taken for it, whatever is in it."""

    def read(copy: Path, blob: Blob) -> bytes | None:
        try:
            return copy.read_bytes()[blob.offset : blob.offset + blob.length]
        except OSError:
            return None

    patch.setattr(local_backup, "_bytes_of", read)


def the_copy_is_the_original(patch: Patch) -> None:
    """What is near need not be far away, too."""
    write = LocalBackup.write_file

    def written(self: LocalBackup, path: str, chunks: Iterable[bytes]) -> Blob:
        blob = write(self, path, chunks)
        self._storage.delete(path)
        return blob

    patch.setattr(LocalBackup, "write_file", written)


def links_are_believed(patch: Patch) -> None:
    """What can be linked to is the file; and what RocksDB refuses of it is not looked for elsewhere."""
    patch.setattr(local_backup, "_is_file_of", lambda file, blob: True)
    patch.setattr(database, "_refusals", nullcontext)


MUTATIONS = {
    "copies are believed": Planted(copies_are_believed, "near_copies", 148),
    "the copy is the original": Planted(the_copy_is_the_original, "near_copies"),
    "links are believed": Planted(links_are_believed, "near_copies_rocks", 61),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_planted_bug_is_found(mutation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    must_be_found(MUTATIONS[mutation], monkeypatch)


def test_copies_go_bad() -> None:
    """A fault that never happens protects nobody."""
    simulation, faults = simulation_of("near_copies"), replace(faults_of("near_copies"), bad_copy=0.9)
    assert sum(simulation.check(seed, faults).faults["bad_copy"] for seed in (8, 21, 37, 48)) > 0
