"""A driver that starts its job again looks before it claims, but only while the job is its own."""

from __future__ import annotations

import pytest
from snap_fixtures import make_manifest, store_state

from penstock.core.errors import FencedError
from penstock.snapshot.repository import Repository
from penstock.snapshot.storage import MemoryStore


def publish(repository: Repository, epoch: int, generation: int) -> None:
    blob = store_state(repository.root, epoch, generation)
    repository.publish(make_manifest(epoch, generation, (blob,)))


def test_a_driver_that_was_fenced_is_not_shown_what_its_successor_published() -> None:
    """It matched that with its own program, found that it does not fit, and tried again for ever, with the
    advice to drop state: the successor may run a program with other steps."""
    store = MemoryStore()
    old, new = Repository(store, "job"), Repository(store, "job")
    generation, _ = old.claim()
    publish(old, 1, generation)
    assert old.latest_valid() is not None
    later, _ = new.claim()
    publish(new, 2, later)
    with pytest.raises(FencedError, match=f"generation {later}"):
        old.latest_valid()
    assert new.latest_valid() is not None


def test_whoever_only_looks_needs_no_claim() -> None:
    store = MemoryStore()
    running, looking = Repository(store, "job"), Repository(store, "job")
    generation, _ = running.claim()
    publish(running, 1, generation)
    found = looking.latest_valid()
    assert found is not None and found.manifest.epoch == 1
    publish(running, 2, generation)
    assert looking.latest_valid() is not None
