"""Fences of attempts that publish nothing do not pile up, and entries are not read over and over."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from snap_fixtures import make_manifest, store_state

from penstock.core.errors import FencedError, SnapshotError
from penstock.core.handles import digest
from penstock.core.ids import Epoch, Generation
from penstock.snapshot.journal import (
    CROWDED,
    Fence,
    Published,
    Seq,
    Unreadable,
    candidates,
    decode,
    encode,
    entry_path,
)
from penstock.snapshot.paths import JOURNAL
from penstock.snapshot.reading import load_entries
from penstock.snapshot.repository import Repository
from penstock.snapshot.storage import MemoryStore

BOUND = CROWDED + 4


class Counting(MemoryStore):
    """Counts how often each file is read, and can refuse to delete."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()
        self.stuck = False

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self.reads[path] += 1
        return super().read(path, offset, length)

    def delete(self, path: str) -> None:
        if self.stuck:
            raise SnapshotError("the storage does not answer")
        super().delete(path)

    def sub(self, path: str) -> Any:
        return self


def started(store: MemoryStore, *epochs: int, first: int = 1) -> Repository:
    repository = Repository(store, "job", first_generation=first)
    generation, _ = repository.claim()
    for epoch in epochs:
        repository.publish(
            make_manifest(epoch, generation, (store_state(repository.root, epoch, generation),))
        )
    return repository


def publish(repository: Repository, generation: int) -> int:
    epoch = int(repository.next_epoch())
    blob = store_state(repository.root, epoch, generation)
    repository.publish(make_manifest(epoch, generation, (blob,)))
    return epoch


def size(repository: Repository) -> int:
    return len(repository.root.list(JOURNAL))


def test_attempts_that_publish_nothing_leave_a_bounded_journal() -> None:
    """A job that failed once a minute left a fence for each attempt, and every start read all of them."""
    repository = started(MemoryStore(), 1, 2)
    repository.retain(2)
    for _ in range(5 * CROWDED):
        repository.claim()
        assert size(repository) <= BOUND
        found = repository.latest_valid(checksums=True)
        assert found is not None and found.manifest.epoch == 2
    assert [entry.epoch for entry in candidates(repository.load_entries())] == [2, 1], "both are still there"
    assert repository.next_epoch() == 3


def test_new_drivers_that_publish_nothing_leave_a_bounded_journal() -> None:
    store = MemoryStore()
    for _ in range(5 * CROWDED):
        Repository(store, "job").claim()
        assert len(store.list("job/journal")) <= BOUND
    assert Repository(store, "job").latest_valid() is None, "nothing is missing, for nothing was published"


def test_a_job_that_fails_after_each_snapshot_keeps_what_retention_keeps() -> None:
    repository = started(MemoryStore())
    newest = 0
    for _ in range(3 * CROWDED):
        for _ in range(CROWDED // 2):
            generation, _ = repository.claim()
        newest = publish(repository, generation)
        repository.retain(3)
        assert size(repository) <= BOUND + 3
    found = [int(entry.epoch) for entry in candidates(repository.load_entries())]
    assert found[:3] == [newest, newest - 1, newest - 2]
    assert len(found) <= 3 + 1
    carried = [e.carried or () for e in repository.load_entries() if isinstance(e, Fence)]
    assert max(map(len, carried)) <= 4, "what retention has removed is not carried on"


def test_a_zombie_publishes_nothing_behind_a_compaction() -> None:
    """Also not at a number that the compaction has deleted."""
    store = MemoryStore()
    old = started(store, 1)
    new = Repository(store, "job")
    for _ in range(CROWDED + 1):
        new.claim()
    assert not store.exists(f"job/{entry_path(Seq(3))}"), "the zombie's number is free again"
    with pytest.raises(FencedError):
        old.publish(make_manifest(2, 1))
    found = new.latest_valid()
    assert found is not None and found.manifest.epoch == 1


def test_a_compaction_that_cannot_delete_is_made_up_for() -> None:
    store = Counting()
    repository = started(store, 1)
    store.stuck = True
    for _ in range(2 * CROWDED):
        repository.claim()
    found = repository.latest_valid()
    assert found is not None and found.manifest.epoch == 1
    store.stuck = False
    repository.claim()
    assert size(repository) <= BOUND
    found = repository.latest_valid()
    assert found is not None and found.manifest.epoch == 1


def test_damage_is_not_hidden_by_a_compaction(caplog: pytest.LogCaptureFixture) -> None:
    """The newest publication rots while the job fails: no fence may carry the rest as if it were all."""
    store = MemoryStore()
    started(store, 1, 2)
    path = f"job/{entry_path(Seq(3))}"
    store.files.files[path] = store.files.files[path][:20]
    for _ in range(2 * CROWDED):
        Repository(store, "job").claim()
    found = Repository(store, "job").latest_valid()
    assert found is not None and found.manifest.epoch == 1
    assert "damaged and may have announced a snapshot" in caplog.text


def test_a_lost_manifest_is_not_hidden_by_a_compaction() -> None:
    store = MemoryStore()
    repository = started(store, 1, 2)
    store.delete("job/chk-2/_metadata")
    for _ in range(2 * CROWDED):
        repository.claim()
    assert [entry.epoch for entry in candidates(repository.load_entries())] == [2, 1]


def test_what_a_fence_carries_comes_back() -> None:
    told = tuple(
        Published(Seq(n), Generation(4), Epoch(n), f"chk-{n}/_metadata", digest(b"m"), 1) for n in (2, 5)
    )
    fence = Fence(Seq(9), Generation(7), "me", digest(b"before"), 4, False, told)
    raw = encode(fence)
    assert decode(Seq(9), raw) == fence
    for carried in (told[::-1], (replace(told[0], seq=Seq(9)),), (told[0], told[0])):
        assert isinstance(decode(Seq(9), encode(replace(fence, carried=carried))), Unreadable)
    for bit in range(0, 8 * len(raw), 7):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        assert decode(Seq(9), bytes(flipped)) != fence


def test_a_start_reads_each_entry_once() -> None:
    """Looking for the newest snapshot, taking over and permitting its commits each read the whole journal."""
    store = Counting()
    started(store, *range(1, 9))
    store.reads.clear()
    driver = Repository(store, "job")
    driver.latest_valid(verify=False)
    found = driver.latest_valid()
    assert found is not None
    driver.claim()
    driver.sweep_shared()
    assert not driver.moved_on()
    driver.permit_restored(found.manifest)
    numbers = sorted(path for path in store.reads if path.startswith(JOURNAL))
    assert [store.reads[path] for path in numbers[:-2]] == [1] * 8, "but for the newest and the own fence"


def test_an_entry_that_was_replaced_is_read_again() -> None:
    """A directory was deleted and the job began anew: the same numbers, other bytes."""
    store = MemoryStore()
    old = started(store, 1, 2)
    assert len(old.load_entries()) == 3
    for path in store.list():
        store.delete(path)
    started(store, 1, 2, first=1000)
    assert old.load_entries() == load_entries(store.sub("job"))
    with pytest.raises(FencedError):
        old.permit_restored(make_manifest(2, 1))
    with pytest.raises(FencedError):
        old.publish(make_manifest(3, 1))
