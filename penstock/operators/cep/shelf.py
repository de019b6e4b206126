"""Where the shared buffer of each key lies: three tables of keyed state, on the heap or on disk.

Links and holders are one dict per key, of plain values: what ``Table.own`` gives may be changed in place
until the next call for another key.  Events are entries of their own, written once and never changed, so that
a large event is not written again whenever the matching goes on.
"""

from __future__ import annotations

from typing import Any

from penstock.operators.cep.buffer import Link
from penstock.state.backend import EntryShape, Table
from penstock.state.keyed import KeyedState


class TableShelf:
    """The :class:`~penstock.operators.cep.buffer.Shelf` of the scope's current key."""

    __slots__ = ("_events", "_holders", "_links", "_scope")

    def __init__(self, keyed: KeyedState) -> None:
        self._scope = keyed.scope
        self._links = keyed.table("_cep/links", EntryShape.KEY)
        self._holders = keyed.table("_cep/holders", EntryShape.KEY)
        self._events = keyed.table("_cep/events", EntryShape.NAMESPACED)

    def links(self) -> dict[int, Link]:
        """The links by number, to be changed in place."""
        return _own(self._links, self._scope.key)

    def holders(self) -> dict[int, int]:
        """How many links hold each event, to be changed in place."""
        return _own(self._holders, self._scope.key)

    def clear(self) -> None:
        """Forget links and holders, of which none is left."""
        self._links.remove(self._scope.key)
        self._holders.remove(self._scope.key)

    def put(self, event: int, value: Any, time: int) -> None:
        """Keep an event under its number."""
        self._events.put((self._scope.key, event), (value, time))

    def get(self, event: int) -> Any:
        """The value of an event that was kept."""
        return self._events.get((self._scope.key, event))[0]

    def drop(self, event: int) -> None:
        """Forget an event."""
        self._events.remove((self._scope.key, event))


def _own(table: Table, key: Any) -> dict[int, Any]:
    found: dict[int, Any] | None = table.own(key)
    if found is None:
        found = {}
        table.put(key, found)
    return found
