"""Generations order attempts also across journals: what sinks leave outside outlives a journal."""

from __future__ import annotations

from penstock.snapshot.journal import Fence, Seq, Unreadable, next_generation, takeover
from penstock.snapshot.repository import Repository, first_generation
from penstock.snapshot.storage import MemoryStore

NOW_MS = 1_790_000_000_000


def test_a_new_journal_begins_above_the_one_before() -> None:
    first = Repository(MemoryStore(), "job", first_generation=first_generation(NOW_MS))
    before = [first.claim()[0] for _ in range(5)]
    assert before == [1_790_000_000 + attempt for attempt in range(5)]
    later = Repository(MemoryStore(), "job", first_generation=first_generation(NOW_MS + 60_000))
    assert later.claim()[0] > max(before)


def test_within_a_journal_no_clock_counts() -> None:
    """The next driver's clock is years behind, or ahead."""
    store = MemoryStore()
    generation = Repository(store, "job", first_generation=first_generation(NOW_MS)).claim()[0]
    for now_ms in (0, NOW_MS // 2, 2 * NOW_MS):
        driver = Repository(store, "job", first_generation=first_generation(now_ms))
        assert driver.claim()[0] == generation + 1
        generation += 1


def test_a_finished_job_that_runs_again() -> None:
    store = MemoryStore()
    finished = Repository(store, "job", first_generation=first_generation(NOW_MS))
    generation = finished.claim()[0]
    finished.drop_all()
    again = Repository(store, "job", first_generation=first_generation(NOW_MS + 5_000))
    assert again.claim()[0] > generation


def test_a_torn_first_entry_hides_a_generation() -> None:
    torn = Unreadable(Seq(1), "0" * 64)
    assert next_generation([torn], 100) == 101
    assert takeover([], "me", first=100) == Fence(Seq(1), next_generation([], 100), "me")
    assert first_generation(0) == 1
