"""Visits every state that drivers of one job can reach together, and checks each.

Drivers run the real Repository, one storage operation at a time: a driver's current call is run again
with the recorded results of the operations it has done, and stops at the first new one.  States (the
stored files plus what each driver knows) are remembered, so all interleavings are covered.  A crash of
a driver is a state from which it is never scheduled again; since every state is checked, a crash after
every operation of every driver is covered too.

Small scenarios pause at every operation; large ones read the journal in one operation (``coarse``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from snap_fixtures import make_manifest

from penstock.core.errors import CorruptSnapshotError, FencedError
from penstock.snapshot import journal
from penstock.snapshot.journal import (
    Entry,
    Fence,
    Published,
    Seq,
    candidates,
    history,
    next_epoch,
)
from penstock.snapshot.permit import CommitPermit, Ownership
from penstock.snapshot.reading import load_entries
from penstock.snapshot.recovery import latest_valid
from penstock.snapshot.repository import Repository
from penstock.snapshot.storage import FileWriter, MemoryStore, SnapshotStore

Files = tuple[tuple[str, bytes], ...]


class Pause(BaseException):
    """The driver has done one new operation and is about to do the next."""


class Replayed(SnapshotStore):
    """Answers from a driver's log, performs one operation beyond it, and stops the driver at the next."""

    url = "memory:"

    def __init__(self, real: MemoryStore, log: tuple[Any, ...], coarse: bool) -> None:
        self.real = real
        self.log = log
        self.coarse = coarse
        self.loading = False
        self.done = 0
        self.fresh = False

    def _step(self, operation: Callable[[], Any], kind: str = "") -> Any:
        joined = self.coarse and self.loading and kind == "read"
        self.loading = kind == "list" or joined
        if self.done == len(self.log):
            if self.fresh and not joined:
                raise Pause
            self.fresh = True
            try:
                outcome = operation()
            except CorruptSnapshotError:
                outcome = CorruptSnapshotError
            self.log = (*self.log, tuple(outcome) if isinstance(outcome, list) else outcome)
        outcome = self.log[self.done]
        self.done += 1
        if outcome is CorruptSnapshotError:
            raise CorruptSnapshotError("missing")
        return outcome

    def create_if_absent(self, path: str, data: bytes) -> bool:
        return self._step(lambda: self.real.create_if_absent(path, data))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._step(lambda: self.real.read(path, offset, length), "read")

    def size(self, path: str) -> int | None:
        return self._step(lambda: self.real.size(path))

    def list(self, prefix: str = "") -> Any:
        return self._step(lambda: self.real.list(prefix), "list")

    def delete(self, path: str) -> None:
        self._step(lambda: self.real.delete(path))

    def delete_tree(self, prefix: str = "") -> None:
        self._step(lambda: self.real.delete_tree(prefix))

    def write(self, path: str) -> FileWriter:
        raise NotImplementedError

    def sub(self, path: str) -> SnapshotStore:
        return self


@dataclass(frozen=True)
class Driver:
    """What one driver knows: the state of its Repository between calls, and the call under way."""

    owner: str
    calls: tuple[str, ...]
    ownership: Ownership | None = None
    entries: tuple[Entry, ...] = ()
    founder: bool = False
    epoch: int = 0
    recovered: int | None = None
    permits: frozenset[CommitPermit] = frozenset()
    fenced: bool = False
    coarse: bool = False
    crowded: int = journal.CROWDED
    known: tuple[tuple[Seq, bytes], ...] = ()
    """Entries that it has read before."""
    log: tuple[Any, ...] = ()

    @property
    def done(self) -> bool:
        return self.fenced or not self.calls

    @cache
    def step(self, files: Files) -> tuple[Files, Driver]:
        """Do one storage operation, and everything up to the next one."""
        real = memory(files)
        store = Replayed(real, self.log, self.coarse)
        after = self._run(store) or replace(self, log=store.log)
        return tuple(sorted(real.files.files.items())), after

    def _run(self, store: Replayed) -> Driver | None:
        """The driver after its current call, ``None`` if the call is not through."""
        repository = Repository(store, "job", self.owner)
        repository._ownership = self.ownership
        repository._entries = list(self.entries)
        repository._founder = self.founder
        repository._reader._known = dict(self.known)
        journal.CROWDED = self.crowded
        try:
            changed = self._call(repository)
        except Pause:
            return None
        except FencedError:
            changed = {"fenced": True}
        finally:
            journal.CROWDED = Driver.crowded
        return replace(
            self,
            calls=self.calls[1:],
            ownership=repository._ownership,
            entries=tuple(repository._entries),
            founder=repository._founder,
            known=tuple(repository._reader._known.items()),
            log=(),
            **changed,
        )

    def _call(self, repository: Repository) -> dict[str, Any]:
        match self.calls[0]:
            case "claim":
                _, entries = repository.claim()
                return {"epoch": next_epoch(entries) - 1}
            case "recover":
                found = repository.latest_valid()
                return {"recovered": found.manifest.epoch if found else 0}
            case "publish":
                assert repository._ownership is not None
                permit = repository.publish(manifest(self.epoch + 1, repository._ownership.generation))
                return {"epoch": self.epoch + 1, "permits": self.permits | {permit}}
            case "retain":
                repository.retain(1)
                return {}
            case "drop":
                repository.drop_all()
                return {}
        raise AssertionError(self.calls[0])


@cache
def manifest(epoch: int, generation: int) -> Any:
    return make_manifest(epoch, generation, parallelism=1)


def memory(files: Files) -> MemoryStore:
    store = MemoryStore()
    store.files.files.update(files)
    return store


def explore(*drivers: Driver, coarse: bool = False) -> tuple[int, list[tuple[Driver, ...]]]:
    """Visit every state the drivers can reach together; the number of states and the final ones."""
    start = (START, tuple(replace(driver, coarse=coarse) for driver in drivers))
    seen = {start}
    todo = [start]
    ends = []
    while todo:
        files, now = todo.pop()
        if all(driver.done for driver in now):
            ends.append(now)
        for index, driver in enumerate(now):
            if driver.done:
                continue
            after_files, after_driver = driver.step(files)
            after = (after_files, (*now[:index], after_driver, *now[index + 1 :]))
            if after not in seen:
                check(files, *after)
                seen.add(after)
                todo.append(after)
    return len(seen), ends


def check(before: Files, after: Files, drivers: tuple[Driver, ...]) -> None:
    old, new = chain(before), chain(after)
    assert continues(old, new), (old, new)
    check_fences(new)
    claimed = [driver.ownership.generation for driver in drivers if driver.ownership is not None]
    assert len(set(claimed)) == len(claimed)
    dropped = any(driver.ownership and not driver.calls and driver.founder for driver in drivers)
    found = candidates(new)
    permits = {permit for driver in drivers for permit in driver.permits}
    closed = bool(new) and not found
    if not permits or dropped or closed:
        return
    for permit in permits:
        held = any((e.epoch, e.generation) == (permit.epoch, permit.generation) for e in found)
        assert held or any(e.epoch > permit.epoch for e in found), f"{permit} cannot be recovered"
    assert recoverable(after) >= max(permit.epoch for permit in permits)


@cache
def chain(files: Files) -> tuple[Entry, ...]:
    return tuple(history(load_entries(memory(files))))


@cache
def recoverable(files: Files) -> int:
    found = latest_valid(memory(files))
    return found.manifest.epoch if found else 0


def continues(old: tuple[Entry, ...], new: tuple[Entry, ...]) -> bool:
    """One history: it only grows at the new end and shrinks at the old end."""
    if not old:
        return True
    if old[-1] not in new:
        return False
    kept = new[: new.index(old[-1]) + 1]
    return old[-len(kept) :] == kept


def check_fences(entries: tuple[Entry, ...]) -> None:
    """Nothing of an older generation comes after a fence."""
    highest = 0
    for entry in entries:
        assert isinstance(entry, Fence | Published)
        assert entry.generation > highest if isinstance(entry, Fence) else entry.generation >= highest
        highest = entry.generation


def drive(driver: Driver, files: Files) -> tuple[Driver, Files]:
    while not driver.done:
        files, driver = driver.step(files)
    return driver, files


OLD, START = drive(Driver("old", ("claim", "publish")), ())
"""The old driver after it has claimed the job and published snapshot 1, and the files then."""
