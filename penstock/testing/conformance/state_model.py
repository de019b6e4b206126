"""A keyed state beside a plain dictionary that must agree with it: part of the state suite.

:class:`Duel` does each step to both and compares.  Steps are plain tuples, so a list of them is a whole
history that ``hypothesis`` can make up and, when they disagree, shorten.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from penstock.core.handles import KeyedPiece
from penstock.snapshot.storage import MemoryStore
from penstock.state.backend import EntryShape, FrozenTable
from penstock.state.chunks import FrozenChunks
from penstock.state.keyed import KeyedState
from penstock.testing.conformance.state_base import Handles, New
from penstock.testing.conformance.state_checkpoints import restored, stored
from penstock.testing.operator_run import KEY_GROUPS, restore_keyed, write_frozen

Step = tuple[str, int, int, int]
"""What to do, at which key and namespace, with which number."""

KEYS: list[Any] = [0, -7, "ä", "", b"\0", (1, None), 2.5]
SPACES: list[Any] = [None, "w", (0, 10)]
_ALL = (0, KEY_GROUPS - 1)
_PARTS = [(0, KEY_GROUPS // 3), (KEY_GROUPS // 3 + 1, KEY_GROUPS - 1)]
_KINDS = ("value", "list", "map", "reducing", "aggregating")
CHANGES = (
    "value.update",
    "value.spoil",
    "list.add",
    "list.update",
    "map.put",
    "map.remove",
    "reducing.add",
    "aggregating.add",
    "clear",
    "merge",
    "timer",
    "timer.delete",
    "fire",
    "expect",
    "freeze",
    "release",
    "restart",
    "save",
    "recover",
)


@dataclass
class Model:
    """What the state must hold, in plain Python."""

    entries: dict[tuple[str, Any, Any], Any] = field(default_factory=dict)
    timers: set[tuple[int, Any, Any]] = field(default_factory=set)

    def shown(self) -> dict[tuple[str, Any, Any], Any]:
        """Entries as handles show them."""
        return {
            place: tuple(value) if place[0] == "aggregating" else value
            for place, value in self.entries.items()
        }


class Duel:
    """One state and one model. ``new`` makes the state, and those that snapshots are read into."""

    def __init__(self, new: New, namespaced: bool) -> None:
        self._new = new
        self._spaces = SPACES if namespaced else SPACES[:1]
        self._namespaced = namespaced
        self._model = Model()
        self._frozen: list[tuple[list[FrozenTable | FrozenChunks], Model]] = []
        self._store = MemoryStore()
        self._saved: tuple[list[KeyedPiece], Model] = [], Model()
        self._use(new())

    def _use(self, state: KeyedState) -> None:
        self._state = state
        self._handles = Handles(state, self._namespaced)

    def play(self, steps: list[Step]) -> None:
        """Do all steps; any disagreement is an ``AssertionError``."""
        for name, key, space, number in steps:
            place = KEYS[key % len(KEYS)], self._spaces[space % len(self._spaces)]
            self._handles.at(*place)
            getattr(self, "_do_" + name.replace(".", "_"))(*place, number)
            self._compare(self._state, self._model)
        while self._frozen:
            self._do_release(None, None, 0)
        self._compare(self._state, self._model)

    def _compare(self, state: KeyedState, model: Model) -> None:
        handles = Handles(state, self._namespaced)
        kept = state.scope.key, state.scope.namespace
        found = {}
        for key in KEYS:
            for space in self._spaces:
                for kind, value in zip(_KINDS, handles.at(key, space).read(), strict=True):
                    if value not in (None, [], {}):
                        found[kind, key, space] = value
        handles.at(*kept)
        assert found == model.shown()

    # --- changes ----------------------------------------------------------------------------

    def _do_value_update(self, key: Any, space: Any, number: int) -> None:
        value = [number] if number else None
        self._handles.value.update(value)
        self._set("value", key, space, None if value is None else list(value))

    def _do_value_spoil(self, key: Any, space: Any, number: int) -> None:
        """Change what was read, and store it: what snapshots hold must not notice."""
        value = self._handles.value.value()
        if value is not None:
            value.append(number)
            self._handles.value.update(value)
            self._model.entries["value", key, space] = [*self._model.entries["value", key, space], number]

    def _do_list_add(self, key: Any, space: Any, number: int) -> None:
        self._handles.list.add(number)
        self._set("list", key, space, [*self._get("list", key, space, []), number])

    def _do_list_update(self, key: Any, space: Any, number: int) -> None:
        self._handles.list.update(range(number % 3))
        self._set("list", key, space, list(range(number % 3)))

    def _do_map_put(self, key: Any, space: Any, number: int) -> None:
        self._handles.map.put(number % 3, number)
        self._set("map", key, space, {**self._get("map", key, space, {}), number % 3: number})

    def _do_map_remove(self, key: Any, space: Any, number: int) -> None:
        self._handles.map.remove(number % 3)
        left = {k: v for k, v in self._get("map", key, space, {}).items() if k != number % 3}
        self._set("map", key, space, left)

    def _do_reducing_add(self, key: Any, space: Any, number: int) -> None:
        self._handles.reducing.add((number,))
        self._set("reducing", key, space, (*self._get("reducing", key, space, ()), number))

    def _do_aggregating_add(self, key: Any, space: Any, number: int) -> None:
        self._handles.aggregating.add(number)
        self._set("aggregating", key, space, [*self._get("aggregating", key, space, []), number])

    def _do_clear(self, key: Any, space: Any, number: int) -> None:
        self._handles.all[number % len(_KINDS)].clear()
        self._set(_KINDS[number % len(_KINDS)], key, space, None)

    def _do_merge(self, key: Any, space: Any, number: int) -> None:
        if not self._namespaced:
            return
        sources = [other for other in self._spaces if other != space]
        for kind in ("list", "reducing", "aggregating"):
            getattr(self._handles, kind).merge_namespaces(space, sources)
            for source in sources:
                moved = self._model.entries.pop((kind, key, source), None)
                if moved is not None:
                    self._set(kind, key, space, self._get(kind, key, space, type(moved)()) + moved)

    def _do_timer(self, key: Any, space: Any, number: int) -> None:
        self._state.timers.event.register(number, key, space)
        self._model.timers.add((number, key, space))

    def _do_timer_delete(self, key: Any, space: Any, number: int) -> None:
        self._state.timers.event.delete(number, key, space)
        self._model.timers.discard((number, key, space))

    def _do_fire(self, key: Any, space: Any, number: int) -> None:
        due = {timer for timer in self._model.timers if timer[0] <= number}
        self._model.timers -= due
        assert _fired(self._state, number) == due

    def _do_expect(self, key: Any, space: Any, number: int) -> None:
        """Say what comes next, rightly or not."""
        keys = [*KEYS[number % len(KEYS) :], key, "never", *KEYS]
        self._state.expect(keys)
        for table in self._state.tables():
            if table.shape is EntryShape.NAMESPACED:
                table.expect([(one, other) for one in keys for other in (space, *self._spaces)])

    # --- snapshots --------------------------------------------------------------------------

    def _do_freeze(self, key: Any, space: Any, number: int) -> None:
        self._frozen.append((self._state.freeze(), copy.deepcopy(self._model)))

    def _do_release(self, key: Any, space: Any, number: int) -> None:
        if not self._frozen:
            return
        frozen, model = self._frozen.pop(number % len(self._frozen))
        state = self._new()
        restore_keyed(state, write_frozen(frozen))
        for part in frozen:
            part.release()
        self._compare(state, model)
        assert _fired(state, 1 << 40) == model.timers

    def _do_restart(self, key: Any, space: Any, number: int) -> None:
        """Go on with a state restored from a snapshot of this one; older snapshots were checked before."""
        while self._frozen:
            self._do_release(key, space, number)
        frozen = self._state.freeze()
        state = self._new()
        restore_keyed(state, write_frozen(frozen))
        for part in frozen:
            part.release()
        self._use(state)

    def _do_save(self, key: Any, space: Any, number: int) -> None:
        """Take a checkpoint; of a backend's own files those that are stored already are not stored again."""
        self._saved = stored(self._state.checkpoint(), self._store), copy.deepcopy(self._model)

    def _do_recover(self, key: Any, space: Any, number: int) -> None:
        """Go back to the last checkpoint, as it is, or divided in between."""
        pieces, model = self._saved
        if number % 3 == 0:
            parts = [(restored(self._new, pieces, self._store, groups), groups) for groups in _PARTS]
            pieces = [it for part, groups in parts for it in stored(part.checkpoint(), self._store, groups)]
        self._use(restored(self._new, pieces, self._store, _ALL))
        self._model = copy.deepcopy(model)

    def _get(self, kind: str, key: Any, space: Any, default: Any) -> Any:
        return self._model.entries.get((kind, key, space), default)

    def _set(self, kind: str, key: Any, space: Any, value: Any) -> None:
        if value is None or value in ([], {}):
            self._model.entries.pop((kind, key, space), None)
        else:
            self._model.entries[kind, key, space] = value


def _fired(state: KeyedState, until: int) -> set[tuple[int, Any, Any]]:
    found: list[tuple[int, Any, Any]] = []
    state.timers.event.fire_until(until, lambda *timer: found.append(timer))
    times = [timer[0] for timer in found]
    assert times == sorted(times) and len(set(found)) == len(found)
    return set(found)
