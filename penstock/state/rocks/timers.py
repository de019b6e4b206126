"""Timers as rows in order of time, of which only the next ones are in memory.

The head holds every timer before the *horizon* and none behind it.  A timer behind the horizon is only a row;
when the head has been used up, the next rows are read.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import islice
from typing import Any

from penstock.core.ids import EventTime
from penstock.core.keygroups import hash_value
from penstock.state.backend import EntryShape, FrozenTable, Table, Timer, TimerQueue
from penstock.state.rocks import keys, values
from penstock.state.rocks.cache import TableInfo
from penstock.state.rocks.database import Database
from penstock.state.rocks.table import FrozenRows, read_entry

HEAD = 4096
"""Timers that are read at once; up to twice as many are kept."""
_PENDING = 4096
_SET = values.encode(True)


class TimerTable(Table):
    """The timers of one time domain: what snapshots and restores see."""

    __slots__ = ("_database", "_groups", "_pending", "id", "name", "pickled", "shape")

    def __init__(self, info: TableInfo, database: Database, max_parallelism: int) -> None:
        self.name = info.name
        self.shape = EntryShape.TIMER
        self.id = info.id
        self.pickled = False
        self._database = database
        self._groups = max_parallelism
        self._pending: dict[bytes, bytes | None] = {}
        """Rows that are not written yet; ``None`` for those to be deleted."""

    def row_key(self, entry: Any) -> bytes:
        """The row of a timer."""
        time, key, namespace = entry
        return b"".join(
            (
                keys.TABLE.pack(self.id),
                keys.timer_bytes(time),
                keys.GROUP.pack(hash_value(key) % self._groups),
                keys.encode(key),
                keys.encode(namespace),
            )
        )

    def store(self, row_key: bytes, entry: Any) -> None:
        """Add a timer."""
        row = _SET
        if not keys.entry_is_exact(EntryShape.TIMER, entry):
            row = values.with_entry(entry, row)
            self.pickled = self.pickled or values.holds_pickles(row)
        self._note(row_key, row)

    def drop(self, row_key: bytes) -> None:
        """Remove a timer."""
        self._note(row_key, None)

    def _note(self, row_key: bytes, row: bytes | None) -> None:
        self._pending[row_key] = row
        if len(self._pending) >= _PENDING:
            self.flush()

    def flush(self) -> None:
        """Write all changes."""
        if self._pending:
            rows = [(key, row) for key, row in self._pending.items() if row is not None]
            self._database.write(rows, [key for key, row in self._pending.items() if row is None])
            self._pending.clear()

    def read_from(self, start: bytes) -> Iterator[tuple[bytes, Any]]:
        """Row keys and timers in order, from ``start`` on."""
        self.flush()
        for key, row in self._database.rows(self.id, start):
            yield key, read_entry(EntryShape.TIMER, key, row)

    def get(self, entry: Any) -> Any:
        row_key = self.row_key(entry)
        if row_key in self._pending:
            return True if self._pending[row_key] is not None else None
        return None if self._database.get(row_key) is None else True

    def put(self, entry: Any, value: Any) -> None:
        self.store(self.row_key(entry), entry)

    def remove(self, entry: Any) -> None:
        self.drop(self.row_key(entry))

    def own(self, entry: Any) -> Any:
        return self.get(entry)

    def __contains__(self, entry: Any) -> bool:
        return self.get(entry) is not None

    def __len__(self) -> int:
        return sum(1 for _ in self.read_from(b""))

    def entries(self) -> list[Any]:
        return [entry for _, entry in self.read_from(b"")]

    def some_entries(self, most: int) -> list[Any]:
        return [entry for _, entry in islice(self.read_from(b""), most)]

    def freeze(self) -> FrozenTable:
        self.flush()
        return FrozenRows(self, self.id, self._database.moment())


class RocksTimerQueue(TimerQueue):
    """Timers of one time domain, served in order of time."""

    def __init__(self, table: TimerTable, head: int = HEAD) -> None:
        self._rows = table
        self._most = head
        super().__init__(table)

    def rebuild(self) -> None:
        self._alive: dict[bytes, Any] = {}
        """Timers of the head, by row key."""
        self._order: list[bytes] = []
        """A heap of their row keys, and of some that were deleted since."""
        self._horizon: bytes | None = b""
        """The head holds all timers before this one; all there are if ``None``."""

    def register(self, time: int, key: Any, namespace: Any) -> None:
        entry = (time, key, namespace)
        row_key = self._rows.row_key(entry)
        if self._horizon is None or row_key < self._horizon:
            if row_key in self._alive:
                return
            self._alive[row_key] = entry
            heapq.heappush(self._order, row_key)
            if len(self._alive) > 2 * self._most:
                self._shorten()
        self._rows.store(row_key, entry)

    def delete(self, time: int, key: Any, namespace: Any) -> None:
        row_key = self._rows.row_key((time, key, namespace))
        if self._horizon is None or row_key < self._horizon:
            if self._alive.pop(row_key, None) is None:
                return
            if len(self._order) > 1024 + 4 * len(self._alive):
                self._order = sorted(self._alive)
        self._rows.drop(row_key)

    def next_time(self) -> int | None:
        order = self._order
        while True:
            while order and order[0] not in self._alive:
                heapq.heappop(order)
            if order:
                return int(self._alive[order[0]][0])
            if self._horizon is None:
                return None
            self._read_on()
            order = self._order

    def due(self, time: int) -> Iterator[Timer]:
        while (at := self.next_time()) is not None and at <= time:
            row_key = heapq.heappop(self._order)
            _, key, namespace = self._alive.pop(row_key)
            self._rows.drop(row_key)
            self.firing = at
            yield EventTime(at), key, namespace
        self.firing = None

    def _read_on(self) -> None:
        """The head is empty: fill it with the next rows."""
        assert self._horizon is not None
        found = list(islice(self._rows.read_from(self._horizon), self._most + 1))
        self._horizon = found.pop()[0] if len(found) > self._most else None
        self._alive = dict(found)
        self._order = list(self._alive)

    def _shorten(self) -> None:
        """The head has grown too long: what is behind its first timers is on disk anyway."""
        order = sorted(self._alive)
        self._horizon = order[self._most]
        self._order = order[: self._most]
        self._alive = {row_key: self._alive[row_key] for row_key in self._order}
