"""What a user function holds: typed views on a table for the current key.

Every handle reads the current key from its :class:`Scope` at each call, so one handle, obtained
once in ``open``, serves all keys.  Window operators set ``scope.namespace`` as well; a handle made
with ``namespaced=True`` uses both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic

from penstock.core.type_vars import IN, OUT, K, T, V
from penstock.state.backend import Table
from penstock.state.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor


class Scope:
    """The key, and for windows the namespace, that handles act on now."""

    __slots__ = ("key", "namespace")

    def __init__(self) -> None:
        self.key: Any = None
        self.namespace: Any = None


class State:
    """Base of all state handles."""

    _table: Table
    _scope: Scope
    _entry: Callable[[], Any]

    def __init__(self, table: Table, scope: Scope, namespaced: bool = False) -> None:
        self._table = table
        self._scope = scope
        self._entry = self._pair if namespaced else self._plain

    def _plain(self) -> Any:
        return self._scope.key

    def _pair(self) -> Any:
        return (self._scope.key, self._scope.namespace)

    def clear(self) -> None:
        """Forget the current key's state."""
        self._table.remove(self._entry())


class ValueState(State, Generic[T]):
    """One value for the current key."""

    def value(self) -> T | None:
        """The value, or ``None`` if none was set."""
        value: T | None = self._table.get(self._entry())
        return value

    def update(self, value: T | None) -> None:
        """Set the value; ``None`` clears it."""
        if value is None:
            self._table.remove(self._entry())
        else:
            self._table.put(self._entry(), value)


class KeyedValueState(ValueState[T]):
    """``ValueState`` without a namespace, the hot path: one attribute, one dict access."""

    def value(self) -> T | None:
        return self._table.get(self._scope.key)  # type: ignore[no-any-return]

    def update(self, value: T | None) -> None:
        if value is None:
            self._table.remove(self._scope.key)
        else:
            self._table.put(self._scope.key, value)


class AppendingState(State, ABC, Generic[IN, OUT]):
    """State that values are added to."""

    @abstractmethod
    def get(self) -> OUT | None:
        """What was gathered, or ``None``."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add one value."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state whose contents of two namespaces can be joined."""

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Move the contents of ``sources`` into ``target`` for the current key."""
        key = self._scope.key
        for source in sources:
            entry = (key, source)
            value = self._table.get(entry)
            if value is not None:
                self._join((key, target), value)
                self._table.remove(entry)

    @abstractmethod
    def _join(self, entry: Any, value: Any) -> None:
        """Add what another entry has gathered."""


class ListState(MergingState[T, Iterable[T]]):
    """A list for the current key."""

    def get(self) -> Iterable[T]:
        """An iterable over the elements, empty if there are none."""
        found = self._table.get(self._entry())
        return [] if found is None else list(found)

    def add(self, value: T) -> None:
        if value is None:
            raise ValueError("None cannot be added to a list state")
        entry = self._entry()
        found = self._table.own(entry)
        if found is None:
            self._table.put(entry, [value])
        else:
            found.append(value)

    def add_all(self, values: Iterable[T]) -> None:
        """Append several elements."""
        for value in values:
            self.add(value)

    def update(self, values: Iterable[T]) -> None:
        """Replace the list; an empty one clears the state."""
        fresh = list(values)
        if fresh:
            self._table.put(self._entry(), fresh)
        else:
            self.clear()

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())

    def _join(self, entry: Any, value: Any) -> None:
        found = self._table.own(entry)
        if found is None:
            self._table.put(entry, list(value))
        else:
            found.extend(value)


class ReducingState(MergingState[T, T]):
    """The reduction of all values added for the current key."""

    def __init__(
        self, table: Table, scope: Scope, descriptor: ReducingStateDescriptor, namespaced: bool = False
    ) -> None:
        super().__init__(table, scope, namespaced)
        function = descriptor.get_reduce_function()
        self._reduce = function.reduce if hasattr(function, "reduce") else function

    def get(self) -> T | None:
        found: T | None = self._table.get(self._entry())
        return found

    def add(self, value: T) -> None:
        self._join(self._entry(), value)

    def _join(self, entry: Any, value: Any) -> None:
        found = self._table.get(entry)
        self._table.put(entry, value if found is None else self._reduce(found, value))


class AggregatingState(MergingState[IN, OUT]):
    """An accumulator for the current key."""

    def __init__(
        self, table: Table, scope: Scope, descriptor: AggregatingStateDescriptor, namespaced: bool = False
    ) -> None:
        super().__init__(table, scope, namespaced)
        self._function = descriptor.get_agg_function()

    def get(self) -> OUT | None:
        found = self._table.get(self._entry())
        return None if found is None else self._function.get_result(found)

    def add(self, value: IN) -> None:
        entry = self._entry()
        found = self._table.get(entry)
        if found is None:
            found = self._function.create_accumulator()
        self._table.put(entry, self._function.add(value, found))

    def _join(self, entry: Any, value: Any) -> None:
        found = self._table.get(entry)
        self._table.put(entry, value if found is None else self._function.merge(found, value))


class MapState(State, Generic[K, V]):
    """A map for the current key."""

    def get(self, key: K) -> V | None:
        """The value of ``key``, or ``None``."""
        found = self._table.peek(self._entry())
        return None if found is None else self._table.guard(found.get(key))

    def put(self, key: K, value: V) -> None:
        """Set the value of ``key``."""
        entry = self._entry()
        found = self._table.own(entry)
        if found is None:
            self._table.put(entry, {key: value})
        else:
            found[key] = value

    def put_all(self, dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Set several: those of a dictionary, or pairs of key and value."""
        for key, value in dict(dict_value).items():
            self.put(key, value)

    def remove(self, key: K) -> None:
        """Forget ``key``; a missing one is fine."""
        entry = self._entry()
        found = self._table.own(entry)
        if found is not None:
            found.pop(key, None)
            if not found:
                self._table.remove(entry)

    def contains(self, key: K) -> bool:
        """Whether ``key`` is present."""
        found = self._table.peek(self._entry())
        return found is not None and key in found

    def items(self) -> Iterable[tuple[K, V]]:
        """Pairs of key and value, stable while you change the map."""
        return list(self._view().items())

    def keys(self) -> Iterable[K]:
        """Keys, stable while you change the map."""
        return list(self._table.peek(self._entry()) or ())

    def values(self) -> Iterable[V]:
        """Values, stable while you change the map."""
        return list(self._view().values())

    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return not self._table.peek(self._entry())

    def _view(self) -> dict[K, V]:
        return self._table.get(self._entry()) or {}

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())
