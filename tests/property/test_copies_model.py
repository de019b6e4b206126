"""Copies of checkpoint files against a simple model: whatever fails, state and storage have the right bytes.

Steps are those of a slot with a database: files are written, stored, merged away and restored; storage fails
before, amid and after a file; copies go bad; the process is killed, with a link half way to its name.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.clock import SystemClock
from penstock.core.errors import SnapshotError
from penstock.core.handles import Blob, NativeHandle, OperatorSnapshot, SubtaskSnapshot, digest
from penstock.core.ids import Epoch, Generation, OperatorId, SlotId, Subtask, SubtaskIndex, VertexId
from penstock.snapshot.local_backup import LocalBackup
from penstock.snapshot.storage import SnapshotStore

SUBTASK = Subtask(VertexId("v"), SubtaskIndex(0))
WHEN = ("never", "before", "amid", "after")


class Failing(SnapshotStore):
    """Storage that fails where it is told to."""

    fails = "never"

    def write_file(self, path: str, chunks: Iterable[bytes]) -> Blob:
        if self.fails == "before":
            raise SnapshotError("not reached")
        blob = super().write_file(path, self._broken_off(chunks) if self.fails == "amid" else chunks)
        if self.fails == "after":
            raise SnapshotError("the answer got lost")
        return blob

    def _broken_off(self, chunks: Iterable[bytes]) -> Iterable[bytes]:
        yield from list(chunks)[:1]
        raise SnapshotError("broken off")


class Machine:
    """A slot on a machine, and what must be in its files."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.store = Failing(str(place / "far away"))
        self.store.at_once = 2
        self.generation = self.epoch = self.made = 0
        self.files: dict[str, Path] = {}
        """The files of the working database, by where they are stored."""
        self.stored: dict[str, Blob] = {}
        self.complete: dict[str, Blob] = {}
        self.begin()

    def begin(self) -> None:
        """A process begins, and restores the newest complete checkpoint."""
        self.generation += 1
        who = (Generation(self.generation), SlotId(0), SystemClock())
        self.slot = LocalBackup(self.store, self.place / "near", *who)
        self.own = next((self.place / "near").rglob(f"{self.generation}-0"))
        working = self.place / f"db-{self.generation}"
        working.mkdir()
        wanted = [(blob, working / path.replace("/", "-")) for path, blob in self.complete.items()]
        self.slot.fetch(wanted)
        self.files = {str(blob.path): target for blob, target in wanted}
        self.stored = dict(self.complete)

    def write(self, number: int) -> None:
        """A file that never changes."""
        self.made += 1
        path = f"shared/{self.made}-{self.generation}"
        file = self.place / f"db-{self.generation}" / f"{self.made}.sst"
        file.write_bytes(content(path))
        self.files[path] = file

    def put_away(self, number: int, fails: str) -> None:
        """Some file is stored, maybe once more."""
        if self.files:
            path = sorted(self.files)[number % len(self.files)]
            self.store.fails = fails
            try:
                self.stored[path] = self.slot.store(path, self.files[path])
            except SnapshotError:
                assert fails != "never"

    def merge(self, number: int) -> None:
        """Some file is gone, for good."""
        if self.files:
            path = sorted(self.files)[number % len(self.files)]
            self.files.pop(path).unlink()
            self.stored.pop(path, None)

    def checkpoint(self, number: int) -> None:
        """What is stored becomes a complete checkpoint."""
        self.epoch += 1
        files = tuple((path.replace("/", "-"), blob) for path, blob in sorted(self.stored.items()))
        keyed = NativeHandle("rocksdb", files, (0, 127), False)
        operator = OperatorSnapshot(OperatorId("op"), (keyed,), None, ())
        self.slot.taken(Epoch(self.epoch), SubtaskSnapshot(SUBTASK, (operator,), False))
        self.complete = dict(self.stored)
        self.slot.completed(Epoch(self.epoch))

    def spoil(self, number: int) -> None:
        """Some copy is exchanged for another file, cut off or changed; links to it are left alone."""
        found = sorted(path for path in (self.place / "near").rglob("shared~*") if path.is_file())
        if found:
            victim = found[number % len(found)]
            data = victim.read_bytes()
            victim.unlink()
            victim.write_bytes([data[:-1], data[:-1] + b"?", b"", content("other")][number % 4])

    def kill(self, number: int) -> None:
        """The process is killed; a link to a file may not have its name yet."""
        if self.files and number % 2:
            path = sorted(self.files)[number % len(self.files)]
            draft = self.own / f"{path.replace('/', '~')}.draft"
            draft.unlink(missing_ok=True)
            os.link(self.files[path], draft)
        self.begin()

    def check(self) -> None:
        """Every file holds what was written into it, here and far away."""
        for path, file in self.files.items():
            assert file.read_bytes() == content(path)
        for path, blob in (self.stored | self.complete).items():
            assert blob == Blob(len(content(path)), digest(content(path)), path)
            assert self.store.read_blob(blob) == content(path)


def content(path: str) -> bytes:
    return path.encode() * 40


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["write", "merge", "checkpoint", "spoil", "kill"]), st.integers(0, 20)),
        st.tuples(st.just("put_away"), st.integers(0, 3), st.sampled_from(WHEN)),
        st.tuples(st.just("put_away"), st.integers(0, 3), st.just("after")),
    ),
    max_size=40,
)


@settings(max_examples=150)
@given(STEPS)
def test_files_keep_their_bytes(steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")) as place:
        machine = Machine(Path(place))
        machine.write(0)
        for name, *rest in steps:
            getattr(machine, name)(*rest)
            machine.check()


def test_the_model_finds_what_it_is_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Storage that writes into what it is given is seen: else nothing here could fail."""

    def spoiling(self: LocalBackup, path: str, file: Path) -> Blob:
        file.write_bytes(b"")
        return self.write_file(path, [b""])

    monkeypatch.setattr(LocalBackup, "store", spoiling)
    machine = Machine(tmp_path)
    machine.write(0)
    machine.put_away(0, "never")
    with pytest.raises(AssertionError):
        machine.check()
