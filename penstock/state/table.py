"""A table of state that can be frozen in constant time: the heart of asynchronous snapshots.

:meth:`Table.freeze` puts a new, empty layer on top; everything below it no longer changes and is
read by the snapshot writer in another thread while records flow on.  When the writer is done,
:meth:`Frozen.release` lets the owner fold the layers together again.

Invariants
* Only the task's thread calls methods of :class:`Table`; the writer only iterates a :class:`Frozen`.
* A value that sits in a frozen layer is never handed out for mutation: :meth:`Table.get` copies it
  unless its type cannot change, :meth:`Table.own` moves a shallow copy into the top layer first
  (what is inside it is still shared, so ``get`` goes on copying such an entry).
* While nothing is frozen, ``get`` and ``put`` *are* the dict's own methods: no indirection.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from penstock.core.copying import copied
from penstock.state.schema import StoredForm

_GONE: Any = object()


class EntryShape(Enum):
    """What a table's entries are indexed by, and where the record key sits in it."""

    KEY = "key"
    NAMESPACED = "key,namespace"
    TIMER = "time,key,namespace"

    def key_of(self, entry: Any) -> Any:
        """The record key of an entry, which decides its key group."""
        if self is EntryShape.KEY:
            return entry
        return entry[0] if self is EntryShape.NAMESPACED else entry[1]


class Table:
    """Entries of one named state on one subtask.

    ``get``, ``put`` and ``remove`` are attributes rebound on freeze and release; see the module
    docstring.  ``get`` answers ``None`` for a missing entry.
    """

    __slots__ = ("_active", "_layers", "_shallow", "get", "name", "put", "remove", "shape")

    keeps_owned = True
    """Whether what ``own`` gave may be changed until the next freeze, and not just until the next call."""

    get: Callable[[Any], Any]
    put: Callable[[Any, Any], None]
    remove: Callable[[Any], None]

    def __init__(self, name: str, shape: EntryShape = EntryShape.KEY) -> None:
        self.name = name
        self.shape = shape
        self._layers: list[dict[Any, Any]] = [{}]
        self._active: list[Frozen] = []
        self._shallow: set[Any] = set()
        self._bind()

    def _bind(self) -> None:
        if len(self._layers) == 1:
            base = self._layers[0]
            self.get = base.get
            self.put = base.__setitem__
            self.remove = lambda entry: base.pop(entry, None)
        else:
            top = self._layers[-1]
            self.get = self._get_layered
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

    def peek(self, entry: Any) -> Any:
        """Like ``get`` without the guard: the caller promises only to look."""
        value, _ = self._find(entry)
        return None if value is _GONE else value

    def own(self, entry: Any) -> Any:
        """The entry's container, safe to change in place; ``None`` if there is none."""
        value, frozen = self._find(entry)
        if value is _GONE:
            return None
        if frozen:
            value = copy.copy(value)
            self._layers[-1][entry] = value
            self._shallow.add(entry)
        return value

    def guard(self, value: Any) -> Any:
        """``value`` itself, or a copy if it could be changed under a running snapshot."""
        return value if len(self._layers) == 1 else copied(value)

    def __contains__(self, entry: Any) -> bool:
        layers = self._layers
        return entry in layers[0] if len(layers) == 1 else self._find(entry)[0] is not _GONE

    def __len__(self) -> int:
        if len(self._layers) == 1:
            return len(self._layers[0])
        return sum(1 for _ in _merged(self._layers))

    def entries(self) -> list[Any]:
        """All present entries, as a list that later changes do not disturb."""
        return [entry for entry, _ in _merged(self._layers)]

    def any_entry(self) -> Any:
        """Some entry, ``None`` if the table is empty; without reading the others."""
        return next((entry for entry, _ in _merged(self._layers)), None)

    def clear(self) -> None:
        """Drop all entries; no snapshot may be under way."""
        assert len(self._layers) == 1, "a snapshot still reads this table"
        self._layers[0].clear()

    def freeze(self) -> Frozen:
        """Freeze what is there now, in constant time."""
        frozen = Frozen(self, tuple(self._layers))
        self._active.append(frozen)
        self._layers.append({})
        self._bind()
        return frozen

    def _released(self, frozen: Frozen) -> None:
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


class Frozen:
    """What a table held at one moment. Iterable from any thread until released."""

    __slots__ = ("_layers", "_table", "form", "name", "shape")

    def __init__(self, table: Table, layers: tuple[dict[Any, Any], ...]) -> None:
        self._table = table
        self._layers = layers
        self.name = table.name
        self.shape = table.shape
        self.form: StoredForm | None = None

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Entries and values; each once."""
        return _merged(self._layers)

    def release(self) -> None:
        """Called on the task's thread when the writer is done (or was given up)."""
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
