"""State that belongs to a subtask, not to a key: lists, unions of lists, broadcast maps.

Redistribution on restore follows from the mode and happens in ``snapshot.rescale``; here live only
the values.  Sizes are small (source positions, rules), so a snapshot copies them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic

from penstock.core.copying import Copier, copied, itself
from penstock.core.type_vars import K, V
from penstock.state.descriptors import MapStateDescriptor


class ListMode(Enum):
    """How the items of all subtasks are dealt out on restore."""

    SPLIT = "split"
    """Contiguous near-equal shares; unchanged parallelism gives each subtask its own back."""
    UNION = "union"
    """Everybody gets everything."""
    BROADCAST = "broadcast"
    """Everybody holds the same; new subtask i takes the copy of old subtask i mod p."""


@dataclass(frozen=True, slots=True)
class ListSnapshot:
    """Items of one named operator state on one subtask."""

    mode: ListMode
    items: tuple[Any, ...]


class OperatorListState:
    """A list owned by the subtask; ``SPLIT`` or ``UNION`` on restore."""

    def __init__(self, mode: ListMode, items: Iterable[Any] = ()) -> None:
        self.mode = mode
        self.own: Copier = itself
        """Set for user code, which must not hold what is in here."""
        self._items = list(items)

    def get(self) -> list[Any]:
        """The items."""
        return list(map(self.own, self._items))

    def add(self, value: Any) -> None:
        """Append one item."""
        self._items.append(self.own(value))

    def add_all(self, values: Iterable[Any]) -> None:
        """Append several items."""
        self._items.extend(map(self.own, values))

    def update(self, values: Iterable[Any]) -> None:
        """Replace all items."""
        self._items = list(map(self.own, values))

    def clear(self) -> None:
        """Forget all items."""
        self._items = []

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())


class ReadOnlyBroadcastState(Generic[K, V]):
    """A map that every subtask holds alike, seen from the non-broadcast side.

    Values are copied on their way in and out (see ``penstock.state.private``).
    """

    def __init__(self, entries: dict[K, V], own: Copier = copied) -> None:
        self._entries = entries
        self._own = own

    def get(self, key: K) -> V | None:
        """The value of ``key``, or ``None``."""
        found: V | None = self._own(self._entries.get(key))
        return found

    def contains(self, key: K) -> bool:
        """Whether ``key`` is present."""
        return key in self._entries

    def items(self) -> Iterable[tuple[K, V]]:
        """Pairs of key and value."""
        return [(key, self._own(value)) for key, value in self._entries.items()]

    def keys(self) -> Iterable[K]:
        """Keys."""
        return list(self._entries)

    def values(self) -> Iterable[V]:
        """Values."""
        return list(map(self._own, self._entries.values()))

    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return not self._entries

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """The same map seen from the broadcast side: writable. Updates must not depend on the subtask."""

    def put(self, key: K, value: V) -> None:
        """Set the value of ``key``."""
        self._entries[key] = self._own(value)

    def put_all(self, dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Set several: those of a dictionary, or pairs of key and value."""
        self._entries.update(self._own(dict(dict_value)))

    def remove(self, key: K) -> None:
        """Forget ``key``; a missing one is fine."""
        self._entries.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class OperatorStateStore:
    """The operator states of one operator on one subtask, by name."""

    def __init__(self, restored: dict[str, ListSnapshot] | None = None) -> None:
        self._restored = restored or {}
        self._lists: dict[str, OperatorListState] = {}
        self._maps: dict[str, dict[Any, Any]] = {}
        self.own: Copier = copied

    def list_state(self, name: str, mode: ListMode = ListMode.SPLIT) -> OperatorListState:
        """The list called ``name``, with what was restored for it."""
        if name not in self._lists:
            found = self._restored.get(name)
            self._lists[name] = OperatorListState(mode, found.items if found else ())
        return self._lists[name]

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
        """The broadcast map of this name."""
        name = state_descriptor.get_name()
        if name not in self._maps:
            found = self._restored.get(name)
            self._maps[name] = dict(found.items) if found else {}
        return BroadcastState(self._maps[name], self.own)

    def snapshot(self) -> dict[str, ListSnapshot]:
        """A copy of everything, safe to serialise in another thread.

        State that was restored but not asked for yet is carried over unchanged.
        """
        result = dict(self._restored)
        for name, state in self._lists.items():
            result[name] = ListSnapshot(state.mode, tuple(map(copied, state._items)))
        for name, entries in self._maps.items():
            result[name] = ListSnapshot(ListMode.BROADCAST, tuple(copied(entries).items()))
        return {name: snapshot for name, snapshot in result.items() if snapshot.items}
