"""The journal protocol, checked in every reachable state.

Drivers run the real Repository, one storage operation at a time: a driver's program is run again from
its start with the recorded results of the operations it has done, and stops at the first new one.
States (stored files plus what each driver has seen) are remembered, so all interleavings are covered.
A crash of a driver is a state from which it is never scheduled again; since every state is checked, a
crash after every operation of every driver is covered too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from snap_fixtures import make_manifest

from penstock.core.errors import FencedError, SnapshotError
from penstock.core.ids import Epoch
from penstock.snapshot.finding import latest_valid, load_entries
from penstock.snapshot.journal import Entry, Fence, Published, candidates, history
from penstock.snapshot.memory import MemoryStore
from penstock.snapshot.permit import CommitPermit
from penstock.snapshot.repository import Repository
from penstock.snapshot.storage import FileWriter, SnapshotStore


class Pause(BaseException):
    """The driver has done one new operation."""


class Replayed(SnapshotStore):
    """Answers from a driver's log; performs one operation beyond it and stops the driver."""

    url = "memory:"

    def __init__(self, real: MemoryStore, log: tuple[Any, ...]) -> None:
        self.real = real
        self.log = log
        self.done = 0

    def _step(self, operation: Callable[[], Any]) -> Any:
        if self.done < len(self.log):
            outcome = self.log[self.done]
            self.done += 1
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        try:
            outcome = operation()
        except SnapshotError as error:
            outcome = error
        self.log = (*self.log, outcome)
        raise Pause

    def create_if_absent(self, path: str, data: bytes) -> bool:
        return self._step(lambda: self.real.create_if_absent(path, data))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._step(lambda: self.real.read(path, offset, length))

    def size(self, path: str) -> int | None:
        return self._step(lambda: self.real.size(path))

    def list(self, prefix: str = "") -> Any:
        return self._step(lambda: self.real.list(prefix))

    def delete(self, path: str) -> None:
        self._step(lambda: self.real.delete(path))

    def delete_tree(self, prefix: str = "") -> None:
        self._step(lambda: self.real.delete_tree(prefix))

    def write(self, path: str) -> FileWriter:
        raise NotImplementedError

    def sub(self, path: str) -> SnapshotStore:
        return self


Events = list[Any]
Program = Callable[[SnapshotStore, Events], None]


def publish(repository: Repository, generation: int, epoch: int, events: Events) -> None:
    events.append(repository.publish(make_manifest(epoch, generation, parallelism=1)))


class Explorer:
    """Visits every state that the programs can reach together."""

    def __init__(self, files: dict[str, bytes], programs: list[Program]) -> None:
        self.programs = programs
        self.seen: set[Any] = set()
        self.ends: list[tuple[Events, ...]] = []
        start = (tuple(sorted(files.items())), tuple(() for _ in programs))
        self.todo = [(start, frozenset())]

    def run(self) -> None:
        while self.todo:
            (files, logs), granted = self.todo.pop()
            moved = False
            for index in range(len(self.programs)):
                step = self._advance(files, logs, index)
                if step is None:
                    continue
                moved = True
                after, events = step
                permits = granted | {event for event in events if isinstance(event, CommitPermit)}
                self._check(files, after[0], permits)
                key = (after[0], tuple(map(_fingerprint, after[1])), permits)
                if key not in self.seen:
                    self.seen.add(key)
                    self.todo.append((after, permits))
            if not moved:
                self.ends.append(tuple(self._events(files, log, i) for i, log in enumerate(logs)))

    def _advance(self, files: Any, logs: Any, index: int) -> Any:
        real = MemoryStore()
        real._files.update(files)
        store = Replayed(real, logs[index])
        events: Events = []
        try:
            self.programs[index](store, events)
            return None
        except FencedError:
            return None
        except Pause:
            pass
        after_logs = (*logs[:index], store.log, *logs[index + 1 :])
        after_files = tuple(sorted(real._files.items()))
        # what the driver did right after the operation belongs to the same step
        return (after_files, after_logs), self._events(after_files, store.log, index)

    def _events(self, files: Any, log: Any, index: int) -> Events:
        real = MemoryStore()
        real._files.update(files)
        events: Events = []
        try:
            self.programs[index](Replayed(real, log), events)
        except (Pause, FencedError) as stop:
            if isinstance(stop, FencedError):
                events.append("fenced")
        return events

    def _check(self, before: Any, after: Any, permits: frozenset[CommitPermit]) -> None:
        old, new = history(_entries(before)), history(_entries(after))
        assert _continues(old, new), (old, new)
        _check_fences(new)
        found = candidates(new)
        for permit in permits:
            held = any(e.epoch == permit.epoch and e.generation == permit.generation for e in found)
            superseded = any(e.epoch > permit.epoch for e in found)
            assert held or superseded, f"{permit} cannot be recovered"
        if permits:
            real = MemoryStore()
            real._files.update(after)
            newest = latest_valid(real)
            assert newest is not None
            assert newest.manifest.epoch >= max(permit.epoch for permit in permits)


def _fingerprint(log: tuple[Any, ...]) -> Any:
    return tuple(repr(item) if isinstance(item, (Exception, list)) else item for item in log)


def _entries(files: Any) -> list[Entry]:
    real = MemoryStore()
    real._files.update(files)
    return load_entries(real)


def _continues(old: list[Entry], new: list[Entry]) -> bool:
    """One history: it only grows at the new end and shrinks at the old end."""
    if not old:
        return True
    if old[-1] not in new:
        return False
    kept = new[: new.index(old[-1]) + 1]
    return not kept or old[-len(kept) :] == kept


def _check_fences(chain: list[Entry]) -> None:
    """Nothing of an older generation comes after a fence."""
    highest = 0
    for entry in chain:
        if isinstance(entry, Fence):
            assert entry.generation > highest
            highest = entry.generation
        else:
            assert isinstance(entry, Published)
            assert entry.generation >= highest
            highest = entry.generation


def zombie(*epochs: int, retain: int | None = None) -> Program:
    """The old driver: it owns the job at first and publishes."""

    def program(store: SnapshotStore, events: Events) -> None:
        repository = _started_old(store)
        for epoch in epochs:
            publish(repository, 1, epoch, events)
            if retain is not None:
                repository.retain(retain)

    return program


def successor(*steps: str, owner: str = "new", retain: int = 1) -> Program:
    """A driver that takes over, recovers and goes on."""

    def program(store: SnapshotStore, events: Events) -> None:
        repository = Repository(store, "job", owner)
        generation, entries = repository.claim()
        events.append(("claimed", generation))
        found = latest_valid(store)
        epoch = max([e.epoch for e in entries if isinstance(e, Published)], default=0)
        events.append(("recovered", found.manifest.epoch if found else None))
        for step in steps:
            if step == "publish":
                epoch = Epoch(epoch + 1)
                publish(repository, generation, epoch, events)
            elif step == "retain":
                repository.retain(retain)
            else:
                repository.drop_all()

    return program


def _start() -> tuple[dict[str, bytes], tuple[Any, ...]]:
    """Files and the old driver's log after it has claimed the job and published snapshot 1."""
    real = MemoryStore()
    log: tuple[Any, ...] = ()
    while True:
        store = Replayed(real, log)
        try:
            repository = Repository(store, "job", "old")
            repository.claim()
            repository.publish(make_manifest(1, 1, parallelism=1))
            return dict(real._files), log
        except Pause:
            log = store.log


_FILES, _OLD_LOG = _start()


def _started_old(store: SnapshotStore) -> Repository:
    """The old driver as it stands after :func:`_start`, without asking the store."""
    repository = Repository(Replayed(MemoryStore(), _OLD_LOG), "job", "old")
    repository.claim()
    repository.publish(make_manifest(1, 1, parallelism=1))
    repository.root = store
    return repository


def explore(*programs: Program) -> Explorer:
    explorer = Explorer(_FILES, list(programs))
    explorer.run()
    return explorer


def test_snap_two_drivers_share_one_history() -> None:
    explorer = explore(zombie(2, 3), successor("publish"))
    assert len(explorer.seen) > 100
    outcomes = {("fenced" in old, len(new)) for old, new in explorer.ends}
    assert (True, 3) in outcomes
    assert (False, 3) in outcomes
    assert all(not isinstance(new[-1], str) for _, new in explorer.ends)


def test_snap_zombie_gets_no_permit_after_its_numbers_were_deleted() -> None:
    explorer = explore(zombie(2, 3), successor("publish", "retain", "publish", "retain"))
    fenced = [old for old, _ in explorer.ends if "fenced" in old]
    assert fenced
    for old, new in explorer.ends:
        recovered = next(event[1] for event in new if isinstance(event, tuple) and event[0] == "recovered")
        permitted = [event.epoch for event in old if isinstance(event, CommitPermit)]
        assert all(epoch <= recovered for epoch in permitted)


def test_snap_zombie_that_also_tidies_up() -> None:
    explorer = explore(zombie(2, retain=1), successor("publish", "retain"))
    assert explorer.ends


def test_snap_two_successors_race_for_the_job() -> None:
    explorer = explore(successor("publish", owner="a"), successor("publish", owner="b"))
    for first, second in explorer.ends:
        claims = [event[1] for event in (*first, *second) if isinstance(event, tuple) and event[0] == "claimed"]
        assert len(set(claims)) == len(claims)
        assert not ("fenced" in first and "fenced" in second)


def test_snap_a_claim_that_is_overtaken_by_retention() -> None:
    explorer = explore(successor(owner="late"), successor("publish", "retain", "publish", "retain"))
    generations = {event[1] for late, _ in explorer.ends for event in late if isinstance(event, tuple)}
    assert generations


def test_snap_zombie_after_the_job_succeeded() -> None:
    explorer = explore(zombie(2), successor("publish", "drop"))
    for old, new in explorer.ends:
        recovered = next(event[1] for event in new if isinstance(event, tuple) and event[0] == "recovered")
        assert all(event.epoch <= recovered for event in old if isinstance(event, CommitPermit))


if __name__ == "__main__":
    pytest.main([__file__])
