"""Planted bugs around incremental checkpoints: each must be found within a number of seeds."""

from __future__ import annotations

from typing import Any

import pytest
from sim_planted import Patch, Planted, must_be_found

import penstock.snapshot.repository
import penstock.state.rocks.backend
from penstock.core.handles import Blob, digest
from penstock.snapshot.retain import Deletions, plan_deletions
from penstock.state.backend import FrozenFiles, RestoredFiles
from penstock.state.rocks.cache import CachedRows
from penstock.state.rocks.files import rows_in_range


def delete_shared_files_in_use(patch: Patch) -> None:
    """What a snapshot that goes has named goes with it, whoever else names it."""

    def greedy(kept: Any, dropped: Any, newest: Any, seen: Any) -> Deletions:
        gone = list(dropped)
        planned = plan_deletions(kept, gone, newest, seen)
        shared = {path for manifest in gone for path in manifest.files() if path.startswith("shared/")}
        return Deletions(planned.trees, tuple(sorted(shared.union(planned.files) & set(seen))))

    patch.setattr(penstock.snapshot.repository, "plan_deletions", greedy)


def restore_a_wrong_range(patch: Patch) -> None:
    """After a change of parallelism some key groups are nobody's."""

    def short(source: Any, table: Any, first: int, last: int) -> Any:
        return rows_in_range(source, table, first, last - 40)

    patch.setattr(penstock.state.rocks.backend, "rows_in_range", short)


def restore_whole_files(patch: Patch) -> None:
    """Key groups of others are taken over with the files that they are in."""

    def all_of_it(
        self: Any, handles: Any, storage: Any, first: int, last: int, own_files: bool
    ) -> RestoredFiles:
        found = self._open_restored(handles[0], storage, own_files)
        for handle in handles[1:]:
            self._copy(handle, storage, first, last, dict(found.schemas))
        return found

    patch.setattr(penstock.state.rocks.backend.RocksBackend, "restore_files", all_of_it)


def known_before_it_is_stored(patch: Patch) -> None:
    """A file whose upload failed counts as stored from then on."""
    original = FrozenFiles.upload

    def upload(self: FrozenFiles, storage: Any) -> Any:
        class Hasty:
            def write_file(_, path: str, chunks: Any) -> Blob:
                data = b"".join(chunks)
                for file in self.directory.iterdir():
                    if self.is_lasting(file.name) and file.read_bytes() == data:
                        self.known[file.name] = Blob(len(data), digest(data), path)
                return storage.write_file(path, [data])

        return original(self, Hasty())

    patch.setattr(FrozenFiles, "upload", upload)


def checkpoint_without_the_cache(patch: Patch) -> None:
    """What is only in memory is left out."""
    original = penstock.state.rocks.backend.RocksBackend.checkpoint

    def checkpoint(self: Any, schemas: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(CachedRows, "flush", lambda table: None)
            return original(self, schemas)

    patch.setattr(penstock.state.rocks.backend.RocksBackend, "checkpoint", checkpoint)


MUTATIONS: dict[str, Planted] = {
    "a shared file is deleted while it is referred to": Planted(
        delete_shared_files_in_use, "two_inputs_rocks", 0
    ),
    "a range of key groups too small": Planted(restore_a_wrong_range, "two_inputs_rocks", 47),
    "a range of key groups too large": Planted(restore_whole_files, "session_rocks", 30),
    "a file counts as stored before it is": Planted(
        known_before_it_is_stored, "two_inputs_rocks", 4, oftener={"partial_file": 0.3}
    ),
    "the cache is not part of the checkpoint": Planted(checkpoint_without_the_cache, "two_inputs_rocks", 1),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_planted_bugs_are_found(name: str, monkeypatch: Patch) -> None:
    must_be_found(MUTATIONS[name], monkeypatch)
