"""Maps and lists that may become large: beyond some elements each of these is a row of its own.

A small container is one value of its table, live in the cache, as in every backend.  Of a large one the table
holds only a :class:`~penstock.state.rocks.values.LargeCollection`, and adding or changing an element touches
that element's row and no other.  A container that has become large stays so until it is cleared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.core.keygroups import hash_value
from penstock.state.handles import ListState, MapState, Scope, State
from penstock.state.rocks import bulk, keys
from penstock.state.rocks.cache import CachedRows
from penstock.state.rocks.table import RocksTable, elements_under
from penstock.state.rocks.values import LIST, MAP, LargeCollection

LARGE_ABOVE = 256
"""Elements that a container may have as one value."""


class ElementRows(CachedRows):
    """Elements of the containers of a table. An entry is a pair: the container's entry, the element."""

    __slots__ = ()

    def row_key(self, entry: Any) -> bytes:
        owner, element = entry
        group = hash_value(self.shape.key_of(owner)) % len(self._groups)
        return (
            self._prefix + self._groups[group] + keys.encode_entry(self.shape, owner) + keys.encode(element)
        )

    def _row_keys(self, entries: Sequence[Any]) -> list[bytes]:
        owners = bulk.row_keys(self._prefix, self._groups, self.shape, [owner for owner, _ in entries])
        return [start + keys.encode(element) for start, (_, element) in zip(owners, entries, strict=True)]

    def _is_exact(self, entry: Any) -> bool:
        return keys.is_exact(entry[1])


class _MayBeLarge(State):
    """What both kinds share."""

    def __init__(self, table: RocksTable, scope: Scope, namespaced: bool, elements: ElementRows) -> None:
        super().__init__(table, scope, namespaced)
        self._main = table
        self._elements = elements

    def _to_rows(self, entry: Any, kind: bytes, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Turn a container into rows. Rows that an earlier one left behind are removed."""
        self._drop_elements(entry)
        count = 0
        for element, value in pairs:
            self._elements.put((entry, element), value)
            count += 1
        self._main.put(entry, LargeCollection(kind, count))

    def _drop_elements(self, entry: Any) -> None:
        for element, _ in list(self._pairs(entry)):
            self._elements.remove((entry, element))

    def _pairs(self, entry: Any) -> Iterable[tuple[Any, Any]]:
        return elements_under(self._elements, self._main.row_key(entry))

    def _forget(self, entry: Any) -> None:
        if type(self._main.get(entry)) is LargeCollection:
            self._drop_elements(entry)
        self._main.remove(entry)


class RocksMapState(_MayBeLarge, MapState[Any, Any]):
    """A map for the current key, of any size."""

    def get(self, key: Any) -> Any:
        entry = self._entry()
        found = self._main.get(entry)
        if type(found) is LargeCollection:
            return self._elements.get((entry, key))
        return None if found is None else found.get(key)

    def put(self, key: Any, value: Any) -> None:
        entry = self._entry()
        found = self._main.own(entry)
        if found is None:
            self._main.put(entry, {key: value})
        elif type(found) is LargeCollection:
            if (entry, key) not in self._elements:
                self._main.put(entry, LargeCollection(MAP, found.size + 1))
            self._elements.put((entry, key), value)
        else:
            found[key] = value
            if len(found) > LARGE_ABOVE:
                self._to_rows(entry, MAP, found.items())

    def remove(self, key: Any) -> None:
        entry = self._entry()
        found = self._main.own(entry)
        if type(found) is not LargeCollection:
            super().remove(key)
        elif (entry, key) in self._elements:
            self._elements.remove((entry, key))
            if found.size > 1:
                self._main.put(entry, LargeCollection(MAP, found.size - 1))
            else:
                self._main.remove(entry)

    def contains(self, key: Any) -> bool:
        entry = self._entry()
        found = self._main.get(entry)
        if type(found) is LargeCollection:
            return (entry, key) in self._elements
        return found is not None and key in found

    def items(self) -> Iterable[tuple[Any, Any]]:
        return list(self._view().items())

    def keys(self) -> Iterable[Any]:
        return list(self._view())

    def is_empty(self) -> bool:
        return not self._main.get(self._entry())

    def _view(self) -> dict[Any, Any]:
        return self._main.peek(self._entry()) or {}

    def clear(self) -> None:
        self._forget(self._entry())


class RocksListState(_MayBeLarge, ListState[Any]):
    """A list for the current key, of any size."""

    def get(self) -> Iterable[Any]:
        found = self._main.peek(self._entry())
        return [] if found is None else list(found)

    def add(self, value: Any) -> None:
        if value is None:
            raise ValueError("None cannot be added to a list state")
        self._join(self._entry(), (value,))

    def update(self, values: Iterable[Any]) -> None:
        fresh = list(values)
        self.clear()
        if fresh:
            self._join(self._entry(), fresh)

    def clear(self) -> None:
        self._forget(self._entry())

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        key = self._scope.key
        for source in sources:
            moved = self._main.peek((key, source))
            if moved is not None:
                moved = list(moved)
                self._forget((key, source))
                self._join((key, target), moved)

    def _join(self, entry: Any, value: Any) -> None:
        found = self._main.own(entry)
        if type(found) is LargeCollection:
            for number, element in enumerate(value, found.size):
                self._elements.put((entry, number), element)
            self._main.put(entry, LargeCollection(LIST, found.size + len(value)))
            return
        if found is None:
            found = list(value)
            self._main.put(entry, found)
        else:
            found.extend(value)
        if len(found) > LARGE_ABOVE:
            self._to_rows(entry, LIST, enumerate(found))
