"""The heap backend: dictionaries that can be frozen in constant time, the heart of asynchronous snapshots.

:meth:`HeapTable.freeze` puts a new, empty layer on top; everything below it no longer changes and is
read by the snapshot writer in another thread while records flow on.  When the writer is done,
:meth:`FrozenLayers.release` lets the owner fold the layers together again.

Invariants
* A value that sits in a frozen layer is never handed out for mutation: :meth:`HeapTable.get` copies it
  unless its type cannot change, :meth:`HeapTable.own` moves a shallow copy into the top layer first
  (what is inside it is still shared, so ``get`` goes on copying such an entry).
* While nothing is frozen, ``get``, ``peek``, ``own`` and ``put`` *are* the dict's own methods, without a call
  in between.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from penstock.core.copying import copied
from penstock.state.backend import EntryShape, FrozenTable, StateBackend, Table, TimerQueue
from penstock.state.keyed import KeyedState
from penstock.state.timers import IndexedTimerQueue

_GONE: Any = object()


class HeapBackend(StateBackend):
    """Tables in memory, gone with the process."""

    def new_table(self, name: str, shape: EntryShape) -> Table:
        return HeapTable(name, shape)

    def timer_queue(self, table: Table) -> TimerQueue:
        return IndexedTimerQueue(table)

    def close(self) -> None:
        pass


def heap_state() -> KeyedState:
    """Empty keyed state in memory."""
    return KeyedState(HeapBackend())


class HeapTable(Table):
    """A dictionary, with layers above it while something is frozen.

    ``get``, ``peek``, ``own``, ``put`` and ``remove`` are attributes rebound on freeze and release; see the
    module docstring.
    """

    __slots__ = ("_active", "_layers", "_shallow", "get", "name", "own", "peek", "put", "remove", "shape")

    keeps_owned = True
    scans_cheaply = True

    get: Callable[[Any], Any]
    peek: Callable[[Any], Any]
    own: Callable[[Any], Any]
    put: Callable[[Any, Any], None]
    remove: Callable[[Any], None]

    def __init__(self, name: str, shape: EntryShape = EntryShape.KEY) -> None:
        self.name = name
        self.shape = shape
        self._layers: list[dict[Any, Any]] = [{}]
        self._active: list[FrozenLayers] = []
        self._shallow: set[Any] = set()
        self._bind()

    def _bind(self) -> None:
        if len(self._layers) == 1:
            base = self._layers[0]
            self.get = self.peek = self.own = base.get
            self.put = base.__setitem__
            self.remove = lambda entry: base.pop(entry, None)
        else:
            top = self._layers[-1]
            self.get = self._get_layered
            self.peek = self._peek_layered
            self.own = self._own_layered
            self.put = top.__setitem__
            self.remove = self._remove_layered

    def _find(self, entry: Any) -> tuple[Any, bool]:
        """The stored value or ``_GONE``, and whether it sits in a frozen layer."""
        top = self._layers[-1]
        if entry in top:
            return top[entry], False
        for layer in reversed(self._layers[:-1]):
            if entry in layer:
                return layer[entry], True
        return _GONE, False

    def _get_layered(self, entry: Any) -> Any:
        value, frozen = self._find(entry)
        if value is _GONE:
            return None
        return self.guard(value) if frozen or entry in self._shallow else value

    def _remove_layered(self, entry: Any) -> None:
        if any(entry in layer for layer in self._layers[:-1]):
            self._layers[-1][entry] = _GONE
        else:
            self._layers[-1].pop(entry, None)

    def _peek_layered(self, entry: Any) -> Any:
        value, _ = self._find(entry)
        return None if value is _GONE else value

    def _own_layered(self, entry: Any) -> Any:
        value, frozen = self._find(entry)
        if value is _GONE:
            return None
        if frozen:
            value = copy.copy(value)
            self._layers[-1][entry] = value
            self._shallow.add(entry)
        return value

    def guard(self, value: Any) -> Any:
        return value if len(self._layers) == 1 else copied(value)

    def __contains__(self, entry: Any) -> bool:
        layers = self._layers
        return entry in layers[0] if len(layers) == 1 else self._find(entry)[0] is not _GONE

    def __len__(self) -> int:
        if len(self._layers) == 1:
            return len(self._layers[0])
        return sum(1 for _ in _merged(self._layers))

    def entries(self) -> list[Any]:
        return [entry for entry, _ in _merged(self._layers)]

    def some_entries(self, most: int) -> list[Any]:
        return [entry for entry, _ in islice(_merged(self._layers), most)]

    def clear(self) -> None:
        assert len(self._layers) == 1, "a snapshot still reads this table"
        self._layers[0].clear()

    def freeze(self) -> FrozenLayers:
        frozen = FrozenLayers(self, tuple(self._layers))
        self._active.append(frozen)
        self._layers.append({})
        self._bind()
        return frozen

    def _released(self, frozen: FrozenLayers) -> None:
        if frozen in self._active:
            self._active.remove(frozen)
        if self._active or len(self._layers) == 1:
            return
        base = self._layers[0]
        for layer in self._layers[1:]:
            for entry, value in layer.items():
                if value is _GONE:
                    base.pop(entry, None)
                else:
                    base[entry] = value
        self._layers = [base]
        self._shallow.clear()
        self._bind()


class FrozenLayers(FrozenTable):
    """The layers that lay below when a table was frozen."""

    __slots__ = ("_layers", "_table")

    def __init__(self, table: HeapTable, layers: tuple[dict[Any, Any], ...]) -> None:
        super().__init__(table.name, table.shape)
        self._table = table
        self._layers = layers

    def items(self) -> Iterator[tuple[Any, Any]]:
        return _merged(self._layers)

    def release(self) -> None:
        self._table._released(self)


def _merged(layers: list[dict[Any, Any]] | tuple[dict[Any, Any], ...]) -> Iterator[tuple[Any, Any]]:
    if len(layers) == 1:
        yield from layers[0].items()
        return
    for depth, layer in enumerate(layers):
        above = layers[depth + 1 :]
        for entry, value in layer.items():
            if value is not _GONE and not any(entry in upper for upper in above):
                yield entry, value
