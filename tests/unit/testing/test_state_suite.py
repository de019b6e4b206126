"""The suite for state backends finds what a backend can do wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.state.backend import EVENT_TIMERS, StateBackend, TimerQueue
from penstock.state.heap.backend import HeapBackend, HeapTable
from penstock.state.keyed import KeyedState
from penstock.state.timers import IndexedTimerQueue
from penstock.testing.conformance import StateConformance

Patch = pytest.MonkeyPatch


class Suite(StateConformance):
    histories = 30

    def make(self, directory: Path) -> StateBackend:
        return HeapBackend()


def hand_out_what_is_frozen(patch: Patch) -> None:
    patch.setattr(HeapTable, "guard", lambda self, value: value)


def change_what_is_frozen(patch: Patch) -> None:
    patch.setattr(HeapTable, "own", lambda self, entry: self.peek(entry))


def forget_deletions(patch: Patch) -> None:
    patch.setattr(HeapTable, "_remove_layered", lambda self, entry: self._layers[-1].pop(entry, None))


def fire_deleted_timers(patch: Patch) -> None:
    patch.setattr(IndexedTimerQueue, "delete", lambda self, time, key, namespace: None)


def snapshots_without_timers(patch: Patch) -> None:
    freeze = KeyedState.freeze
    patch.setattr(
        KeyedState, "freeze", lambda self: [part for part in freeze(self) if part.name != EVENT_TIMERS]
    )


def one_snapshot_at_a_time(patch: Patch) -> None:
    """Releasing one snapshot folds the layers under the others."""
    released = HeapTable._released

    def all_at_once(self: HeapTable, frozen: Any) -> None:
        self._active = []
        released(self, frozen)

    patch.setattr(HeapTable, "_released", all_at_once)


def late_freeze(patch: Patch) -> None:
    """The snapshot shows what is there when it is written."""

    def freeze(self: Any) -> Any:
        class Late:
            name, shape, release = self.name, self.shape, staticmethod(lambda: None)
            items = staticmethod(lambda: iter([(e, copy.copy(self.peek(e))) for e in self.entries()]))

        return Late()

    patch.setattr(HeapTable, "freeze", freeze)


def own_a_copy(patch: Patch) -> None:
    patch.setattr(HeapTable, "own", lambda self, entry: copy.deepcopy(self.peek(entry)))


def guard_nothing_and_keep_looking(patch: Patch) -> None:
    """What was peeked at is handed out as it is, also while a snapshot reads it."""
    patch.setattr(HeapTable, "guard", lambda self, value: value)
    patch.setattr(HeapTable, "_get_layered", lambda self, entry: copy.deepcopy(self.peek(entry)))


def count_in_entries_only(patch: Patch) -> None:
    """An entry whose value is ``None`` is not there."""
    patch.setattr(HeapTable, "__contains__", lambda self, entry: self.get(entry) is not None)


def some_are_all(patch: Patch) -> None:
    patch.setattr(HeapTable, "some_entries", lambda self, most: self.entries())


def clear_no_timers(patch: Patch) -> None:
    patch.setattr(IndexedTimerQueue, "rebuild", lambda self: vars(self).setdefault("_heap", []))
    patch.setattr(IndexedTimerQueue, "_serial", 0, raising=False)
    patch.setattr(IndexedTimerQueue, "_deleted", 0, raising=False)


def fire_what_firing_registers(patch: Patch) -> None:
    patch.setattr(TimerQueue, "fire_each_once", lambda self, fire: self.fire_until(150, fire))


def firing_is_forgotten(patch: Patch) -> None:
    due = IndexedTimerQueue.due

    def silent(self: IndexedTimerQueue, time: int) -> Any:
        for timer in due(self, time):
            self.firing = None
            yield timer

    patch.setattr(IndexedTimerQueue, "due", silent)


def close_takes_views_along(patch: Patch) -> None:
    tables: list[HeapTable] = []
    made = HeapTable.__init__

    def remember(self: HeapTable, *arguments: Any) -> None:
        made(self, *arguments)
        tables.append(self)

    patch.setattr(HeapTable, "__init__", remember)
    patch.setattr(HeapBackend, "close", lambda self: [layer.clear() for t in tables for layer in t._layers])


BUGS: list[Callable[[Patch], None]] = [
    hand_out_what_is_frozen,
    change_what_is_frozen,
    forget_deletions,
    fire_deleted_timers,
    snapshots_without_timers,
    one_snapshot_at_a_time,
    late_freeze,
    own_a_copy,
    guard_nothing_and_keep_looking,
    count_in_entries_only,
    some_are_all,
    clear_no_timers,
    fire_what_firing_registers,
    firing_is_forgotten,
    close_takes_views_along,
]


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_planted_bugs_are_found(plant: Callable[[Patch], None], monkeypatch: Patch, tmp_path: Path) -> None:
    plant(monkeypatch)
    names = [name for name in dir(Suite) if name.startswith("test_")]
    assert any(_fails(name, tmp_path) for name in sorted(names, key=lambda name: name == RANDOM))


RANDOM = "test_agrees_with_a_dictionary_whatever_happens"


def _fails(name: str, directory: Path) -> bool:
    try:
        getattr(Suite(), name)(directory / name)
    except Exception:
        return True
    return False
