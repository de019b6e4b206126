"""The shared buffer: the events that partial matches hold, each stored once, and who took them.

A *link* says: this event was taken for that step, after what an earlier link says.  A partial match is the
number of its last link; matches with a common beginning share its links, so a thousand alternatives cost a
thousand small tuples and no copy of an event.  As a link has one predecessor, following it back gives
exactly one match: what is told apart by version numbers where links are merged needs none here.

Links and events count their holders and are dropped with the last one.  All values are plain tuples that
are replaced, never changed, as a snapshot may be reading them.

The buffer of each key lies in three tables of keyed state, on the heap or on disk.  Links and holders are one
dict per key, of plain values: what ``Table.own`` gives may be changed in place until the next call for
another key.  Events are entries of their own, written once and never changed, so that a large event is not
written again whenever the matching goes on.
"""

from __future__ import annotations

from typing import Any, Protocol

from penstock.state.backend import EntryShape, Table
from penstock.state.keyed import KeyedState

Link = tuple[int, int, int, int]
"""The link before (or ``NO_LINK``), step, event, and how many links and partial matches hold it."""

Path = tuple[tuple[int, ...], tuple[int, ...]]
"""The events of a match in order, and the step each was taken for."""

NO_LINK = -1
EMPTY_PATH: Path = ((), ())


class Shelf(Protocol):
    """Where events, links and holders of the current key lie."""

    def links(self) -> dict[int, Link]:
        """The links by number, to be changed in place."""
        ...

    def holders(self) -> dict[int, int]:
        """How many links hold each event, to be changed in place."""
        ...

    def put(self, event: int, value: Any, time: int) -> None:
        """Keep an event under its number."""
        ...

    def get(self, event: int) -> Any:
        """The value of an event that was kept."""
        ...

    def drop(self, event: int) -> None:
        """Forget an event."""
        ...


class Buffer:
    """Links and holders of one key, fetched when first needed: most events change nothing."""

    __slots__ = ("_holders", "_links", "_shelf", "next_link")

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self.turn_to(0)

    def turn_to(self, next_link: int) -> None:
        """The shelf is now that of another key."""
        self.next_link = next_link
        self._links: dict[int, Link] | None = None
        self._holders: dict[int, int] | None = None

    @property
    def links(self) -> dict[int, Link]:
        """All links of the key."""
        if self._links is None:
            self._links = self._shelf.links()
        return self._links

    @property
    def holders(self) -> dict[int, int]:
        """How many links hold each event."""
        if self._holders is None:
            self._holders = self._shelf.holders()
        return self._holders

    def add(self, before: int, step: int, event: int, value: Any, time: int) -> int:
        """A new link, held once by the caller."""
        held = self.holders.get(event, 0)
        if not held:
            self._shelf.put(event, value, time)
        self.holders[event] = held + 1
        if before != NO_LINK:
            self.hold(before)
        number = self.next_link
        self.next_link = number + 1
        self.links[number] = (before, step, event, 1)
        return number

    def release(self, number: int) -> None:
        """The caller no longer holds a link; what nobody holds any more is dropped."""
        while number != NO_LINK:
            before, _, event, holders = self.links[number]
            if holders > 1:
                self.hold(number, -1)
                return
            del self.links[number]
            self._let_go(event)
            number = before

    def path(self, number: int) -> Path:
        """Events and steps from the first link up to this one."""
        if number == NO_LINK:
            return EMPTY_PATH  # without asking the shelf, which would begin an entry for the key
        events: list[int] = []
        steps: list[int] = []
        links = self.links
        while number != NO_LINK:
            number, step, event, _ = links[number]
            events.append(event)
            steps.append(step)
        return tuple(reversed(events)), tuple(reversed(steps))

    def value(self, event: int) -> Any:
        """An event that some link holds."""
        return self._shelf.get(event)

    def hold(self, number: int, more: int = 1) -> None:
        """The caller holds a link too."""
        before, step, event, holders = self.links[number]
        self.links[number] = (before, step, event, holders + more)

    def _let_go(self, event: int) -> None:
        held = self.holders[event] - 1
        if held:
            self.holders[event] = held
        else:
            del self.holders[event]
            self._shelf.drop(event)


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
