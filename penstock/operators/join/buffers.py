"""The records of one side of a join, per key and in order of event time.

A buffer is one list per key, of tuples that begin with the time.  Most records arrive roughly in order, so
inserting is an append; what is found or dropped is found by bisection.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from penstock.core.copying import Copier, copied, itself
from penstock.state.backend import Table

Item = tuple[Any, ...]
_time = itemgetter(0)


class SideBuffer:
    """Tuples ``(time, value, ...)`` by key, sorted by time; of equal times the older first."""

    def __init__(self, table: Table, own: Copier = copied) -> None:
        self._table = table
        self._own = own

    def add(self, key: Any, item: Item) -> bool:
        """Put ``item`` at its place; true if it is now the first of its key."""
        found = self._table.own(key)
        if found is None:
            self._table.put(key, [item])
            return True
        if found[-1][0] <= item[0]:
            found.append(item)
            return False
        at = bisect_right(found, item[0], key=_time)
        found.insert(at, item)
        return at == 0

    def within(self, key: Any, first: int, last: int) -> tuple[int, Sequence[Item]]:
        """The items with times from ``first`` to ``last``, and the position of the first of them."""
        found = self._table.peek(key)
        if found is None:
            return 0, ()
        start = bisect_left(found, first, key=_time)
        stop = bisect_right(found, last, start, key=_time)
        return start, found[start:stop]

    def replace(self, key: Any, position: int, item: Item) -> None:
        """Put another item of the same time at a position."""
        self._table.own(key)[position] = item

    def drop(self, key: Any, last: int) -> tuple[Sequence[Item], int | None]:
        """Remove and give the items up to time ``last``, and the time of the first one left."""
        found = self._table.peek(key)
        if not found:
            return (), None
        count = bisect_right(found, last, key=_time)
        if count == len(found):
            self._table.remove(key)
            return found, None
        if count:
            dropped = found[:count]
            del self._table.own(key)[:count]
            found = self._table.peek(key)
            return dropped, found[0][0]
        return (), found[0][0]

    def first_time(self, key: Any) -> int | None:
        """The time of the first item."""
        found = self._table.peek(key)
        return found[0][0] if found else None

    def last_until(self, key: Any, time: int) -> Item | None:
        """The last item at or before ``time``."""
        found = self._table.peek(key)
        count = bisect_right(found, time, key=_time) if found else 0
        return found[count - 1] if count else None

    def keep_from(self, key: Any, time: int) -> None:
        """Remove what lies before the last item at or before ``time``, and that item too if it is empty."""
        found = self._table.peek(key)
        count = bisect_right(found, time, key=_time) if found else 0
        if not count:
            return
        if found[count - 1][1] is not None:
            count -= 1
        if count == len(found):
            self._table.remove(key)
        elif count:
            del self._table.own(key)[:count]

    def guard(self, value: Any) -> Any:
        """A stored value as user code may have it: it may change it, and emit it several times."""
        return self._own(value) if self._own is not itself else self._table.guard(value)
