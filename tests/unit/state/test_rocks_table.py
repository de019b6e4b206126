"""The cache in front of a table: bounded, and never telling anything but the truth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.state.backend import EntryShape
from penstock.state.keyed import KeyedState
from penstock.state.rocks.backend import RocksBackend
from penstock.state.rocks.database import RocksSettings
from penstock.state.rocks.timers import RocksTimerQueue, TimerTable


def make(place: Path, **changes: Any) -> KeyedState:
    return KeyedState(RocksBackend(RocksSettings(str(place), memory_bytes=8 << 20, **changes), 128))


@pytest.fixture
def state(quick_disk: Path) -> Iterator[KeyedState]:
    made = make(quick_disk, cache_entries=20)
    yield made
    made.close()


def cached(table: Any) -> int:
    return len(table._plain) + len(table._held)


def test_more_entries_than_the_cache_holds(state: KeyedState) -> None:
    table = state.table("t")
    for key in range(1000):
        table.put(key, key * 2 if key % 2 else [key])
        assert cached(table) <= 21
    assert [table.get(key) for key in range(1000)] == [k * 2 if k % 2 else [k] for k in range(1000)]
    assert cached(table) <= 21
    assert len(table) == 1000 and sorted(table.entries()) == list(range(1000))


def test_large_values_count_by_their_size(quick_disk: Path) -> None:
    state = make(quick_disk, cache_bytes=1 << 20)
    table: Any = state.table("t")
    for key in range(3000):
        table.put(key, "x" * 10_000)
    assert cached(table) < 1500
    for key in range(3000):
        assert len(table.get(key)) == 10_000
    assert cached(table) < 1500
    state.close()


def test_what_is_owned_may_change_until_the_next_call(state: KeyedState) -> None:
    table = state.table("t")
    for turn in range(3):
        for key in range(100):
            found = table.own(key)
            if found is None:
                table.put(key, [turn])
            else:
                found.append(turn)
    assert all(table.get(key) == [0, 1, 2] for key in range(100))


def test_reading_does_not_write(state: KeyedState) -> None:
    table: Any = state.table("t")
    backend: Any = state.backend
    for key in range(100):
        table.put(key, [key])
    table.flush()
    before = backend._database._rdict.latest_sequence_number()
    for key in range(100):
        assert table.get(key) == [key]
    table.flush()
    assert backend._database._rdict.latest_sequence_number() == before


def test_none_is_a_value_of_a_table(state: KeyedState) -> None:
    table = state.table("t")
    table.put("k", None)
    assert table.get("k") is None and "k" in table
    for key in range(100):
        table.put(key, key)
    assert table.get("k") is None and "k" in table
    table.remove("k")
    assert "k" not in table and "never" not in table


def test_timers_beyond_memory(state: KeyedState) -> None:
    table = state.table("timers", EntryShape.TIMER)
    assert isinstance(table, TimerTable)
    queue = RocksTimerQueue(table, head=10)
    times = [(n * 7919) % 1000 for n in range(1000)]
    for time in times:
        queue.register(time, f"k{time % 7}", None)
        assert len(queue._alive) <= 20
    for time in range(0, 1000, 3):
        queue.delete(time, f"k{time % 7}", None)
    fired: list[int] = []

    def fire(time: int, key: Any, namespace: Any) -> None:
        fired.append(time)
        if time < 500 and time % 2:
            queue.register(time + 1000, key, namespace)

    queue.fire_until(5000, fire)
    left = [time for time in range(1000) if time % 3]
    assert fired == left + [time + 1000 for time in left if time < 500 and time % 2]
    assert len(table) == 0


def test_steps_without_state_open_nothing(quick_disk: Path) -> None:
    state = make(quick_disk / "disk")
    assert state.checkpoint() == [] and not (quick_disk / "disk").exists()
    state.close()
