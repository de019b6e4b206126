"""The records of one side of a join, per key and in order of event time.

A buffer is one list per key, of tuples that begin with the time.  Most records arrive roughly in order, so
inserting is an append; what is found or dropped is found by bisection, with a tuple that is nothing but a
time: it sorts before all items of that time, and no value is ever compared.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from penstock.core.copying import Copier, copied, itself
from penstock.state.backend import Table

Item = tuple[Any, ...]


class SideBuffer:
    """Tuples ``(time, value, ...)`` by key, sorted by time; of equal times the older first."""

    def __init__(self, table: Table, own: Copier = copied) -> None:
        self.table = table
        self._own = own

    def add(self, key: Any, item: Item) -> bool:
        """Put ``item`` at its place; true if it is now the first of its key."""
        found = self.table.own(key)
        if found is None:
            self.table.put(key, [item])
            return True
        if found[-1][0] <= item[0]:
            found.append(item)
            return False
        at = bisect_left(found, (item[0] + 1,))
        found.insert(at, item)
        return at == 0

    def mark(self, key: Any, position: int, items: Sequence[Item]) -> None:
        """Note of the items from a position on, whose third part says so, that they have met a partner."""
        for at, (time, value, met) in enumerate(items, position):
            if not met:
                self.replace(key, at, (time, value, True))

    def replace(self, key: Any, position: int, item: Item) -> None:
        """Put another item of the same time at a position."""
        self.table.own(key)[position] = item

    def drop(self, key: Any, last: int) -> tuple[Sequence[Item], int | None]:
        """Remove and give the items up to time ``last``, and the time of the first one left."""
        found = self.table.peek(key)
        if not found:
            return (), None
        count = bisect_left(found, (last + 1,))
        if count == len(found):
            self.table.remove(key)
            return found, None
        if count:
            dropped = found[:count]
            del self.table.own(key)[:count]
            found = self.table.peek(key)
            return dropped, found[0][0]
        return (), found[0][0]

    def first_time(self, key: Any) -> int | None:
        """The time of the first item."""
        found = self.table.peek(key)
        return found[0][0] if found else None

    def last_until(self, key: Any, time: int) -> Item | None:
        """The last item at or before ``time``."""
        found = self.table.peek(key)
        count = bisect_left(found, (time + 1,)) if found else 0
        return found[count - 1] if count else None

    def keep_from(self, key: Any, time: int) -> None:
        """Remove what lies before the last item at or before ``time``, and that item too if it is empty."""
        found = self.table.peek(key)
        count = bisect_left(found, (time + 1,)) if found else 0
        if not count:
            return
        if found[count - 1][1] is not None:
            count -= 1
        if count == len(found):
            self.table.remove(key)
        elif count:
            del self.table.own(key)[:count]

    def guard(self, value: Any) -> Any:
        """A stored value as user code may have it: it may change it, and emit it several times."""
        return self._own(value) if self._own is not itself else self.table.guard(value)
