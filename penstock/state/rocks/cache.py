"""Rows on disk by entry, behind a bounded cache of live Python objects.

``get`` *is* the cache's own item access; only entries that are not there come to Python code of ours.
Changes stay in the cache until there are many, or until a snapshot is taken, and then go to disk together.
The entries of a batch to come are read together, too (:meth:`CachedRows.expect`).

Invariants
* What is in the cache is the truth; rows are only looked at for entries that are not there.
* When the cache is full, changes are written, and what came in first is forgotten.
* Room is made at the *beginning* of a call.  So what ``own`` or ``get`` handed out may be changed until the
  next call, and no longer.
* Values that can change in place are taken for changed whenever they were handed out; they are written if
  their bytes differ from those on disk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from penstock.core.copying import ATOMIC
from penstock.core.sizing import deep_bytes
from penstock.state.backend import EntryShape
from penstock.state.rocks import bulk, keys, values
from penstock.state.rocks.database import Database, RocksSettings, Rows
from penstock.state.rocks.forecast import Forecast
from penstock.state.schema import StateSchema

_MISSING: Any = object()
_PLAIN = ATOMIC | {values.LargeCollection}
_STEP = 512
"""After so many new entries the size of the cache is estimated anew."""
_SAMPLE = 8
_ENTRY_BYTES = 110
"""What a place in the cache takes beside key and value; a value that can change has a seal of that size."""
_ROOM = 8
"""Of a full cache one entry in so many is forgotten."""
_MOST_CHANGES = 16_384
"""Changes that may wait: this is what a snapshot has to write while records wait."""
_FIRST_ROWS = 64
"""So many rows are read ahead first; how large they are says how many may follow."""
_PICKLED = frozenset((b"p", b"k", b"K"))
"""First bytes of rows that may hold a pickle."""


@dataclass(frozen=True, slots=True)
class TableInfo:
    """One table of a database."""

    id: int
    name: str
    shape: EntryShape
    schema: StateSchema | None = None
    elements: bool = False
    """Whether it holds the elements of the large maps and lists of the table of that name."""


class _Plain(dict[Any, Any]):
    """Values that cannot change, by entry; ``None`` for what is absent. Asks for the others."""

    __slots__ = ("find",)

    find: Callable[[Any], Any]

    def __missing__(self, entry: Any) -> Any:
        return self.find(entry)


class CachedRows(ABC):
    """Rows of one table of a database, by entry, with the cache in front of them.

    Subclasses say how an entry becomes a row's key.  ``get`` answers ``None`` for what is absent.
    """

    __slots__ = (
        "_absent",
        "_bytes",
        "_database",
        "_dirty",
        "_forecast",
        "_groups",
        "_held",
        "_limit",
        "_most",
        "_most_bytes",
        "_most_changes",
        "_plain",
        "_prefix",
        "_reads",
        "_seals",
        "_step",
        "_touched",
        "_weighed",
        "encode",
        "get",
        "id",
        "name",
        "pickled",
        "shape",
    )

    get: Callable[[Any], Any]

    def __init__(
        self, info: TableInfo, database: Database, max_parallelism: int, settings: RocksSettings
    ) -> None:
        self.name = info.name
        self.shape = info.shape
        self.id = info.id
        self.pickled = False
        """Whether a row with a pickled object was ever written."""
        self.encode = values.encode
        """How values become rows; another one if their type is declared."""
        self._database = database
        self._prefix = keys.TABLE.pack(info.id)
        self._groups = keys.group_bytes(max_parallelism)
        self._most = max(2, settings.cache_entries)
        self._most_bytes = max(1, settings.cache_bytes)
        self._most_changes = min(_MOST_CHANGES, self._most)
        self._step = self._limit = min(_STEP, self._most)
        self._plain = _Plain()
        self._plain.find = self._find
        self._held: dict[Any, Any] = {}
        """Values in the cache that can change in place."""
        self._dirty: dict[Any, bool] = {}
        """Entries that were put (true) or removed (false) and not written yet."""
        self._touched: dict[Any, None] = {}
        """Held entries that were handed out."""
        self._absent: set[Any] = set()
        """Plain entries that have no row; those not written yet may be among them."""
        self._seals: dict[Any, int] = {}
        """Hash of the bytes on disk, of values that can change in place."""
        self._bytes = 0
        """What the ``_weighed`` entries of the two parts that came first take, by estimate."""
        self._weighed = [0, 0]
        self._reads = 0
        """Rows that were looked for one at a time since the last call of ``expect``."""
        self._forecast = Forecast()
        self.get = self._plain.__getitem__

    # --- reading ----------------------------------------------------------------------------

    def _find(self, entry: Any) -> Any:
        """An entry that is not among the plain ones."""
        value = self._held.get(entry, _MISSING)
        if value is not _MISSING:
            if len(self._touched) >= self._most_changes:
                self.flush()
            self._touched[entry] = None
            return value
        if len(self._plain) + len(self._held) >= self._limit:
            self._make_room()
        self._reads += 1
        row = self._database.get(self.row_key(entry))
        if row is None:
            self._absent.add(entry)
            self._plain[entry] = None
            return None
        raw = values.split_entry(row)[1]
        value = values.decode(raw)
        if type(value) in _PLAIN:
            self._plain[entry] = value
        else:
            self._seals[entry] = hash(raw)
            self._held[entry] = value
            self._touched[entry] = None
        return value

    def expect(self, entries: Sequence[Any]) -> None:
        """Read what is missing of these in one go, if that has been worth it lately."""
        reads, self._reads = self._reads, 0
        if not self._forecast.says(len(entries), reads):
            return
        plain, held = self._plain, self._held
        missing = [entry for entry in dict.fromkeys(entries) if entry not in plain and entry not in held]
        # What would take too much of the cache is left to be read one by one.
        del missing[max(1, self._most // 2) :]
        start, count, room = 0, _FIRST_ROWS, self._most_bytes // 4
        while start < len(missing) and count > 0:
            part = missing[start : start + count]
            size = self._read(part)
            room -= size
            start += len(part)
            count = room // (1 + size // len(part))

    def _read(self, entries: Sequence[Any]) -> int:
        """Take entries into the cache that are not there; the bytes of their rows."""
        if len(self._plain) + len(self._held) + len(entries) > self._limit:
            self._make_room(len(entries))
        row_keys = self._row_keys(entries)
        order = bulk.in_order(row_keys)
        found = self._database.get([row_keys[place] for place in order])
        rows = {entries[place]: row for place, row in zip(order, found, strict=True)}
        absent = [entry for entry, row in rows.items() if row is None]
        if absent:
            self._absent.update(absent)
            self._plain.update(dict.fromkeys(absent))
            rows = {entry: row for entry, row in rows.items() if row is not None}
        raws = [values.split_entry(row)[1] for row in rows.values()]
        loaded = bulk.decoded(raws)
        if set(map(type, loaded)) <= _PLAIN:
            self._plain.update(zip(rows, loaded, strict=True))
        else:
            for entry, value, raw in zip(rows, loaded, raws, strict=True):
                if type(value) in _PLAIN:
                    self._plain[entry] = value
                else:
                    self._held[entry] = value
                    self._seals[entry] = hash(raw)
        return sum(map(len, raws))

    def __contains__(self, entry: Any) -> bool:
        if self.get(entry) is not None:
            return True
        return self._dirty.get(entry, entry not in self._absent)

    def rows(self, start: bytes = b"") -> Rows:
        """All rows as they are now, in order of their keys, from ``start`` on."""
        self.flush()
        return self._database.rows(self.id, start)

    # --- writing ----------------------------------------------------------------------------

    def put(self, entry: Any, value: Any) -> None:
        """Set the value of an entry."""
        dirty = self._dirty
        if len(self._plain) + len(self._held) >= self._limit or len(dirty) >= self._most_changes:
            self._make_room()
        if type(value) in _PLAIN:
            if self._held and self._held.pop(entry, None) is not None:
                self._seals.pop(entry, None)
            self._plain[entry] = value
        else:
            self._plain.pop(entry, None)
            self._held[entry] = value
        dirty[entry] = True

    def remove(self, entry: Any) -> None:
        """Forget an entry; a missing one is fine."""
        if entry in self._absent and entry not in self._dirty:
            return
        if len(self._plain) + len(self._held) >= self._limit or len(self._dirty) >= self._most_changes:
            self._make_room()
        self._held.pop(entry, None)
        self._plain[entry] = None
        self._dirty[entry] = False

    def clear(self) -> None:
        """Forget all entries."""
        self._database.write([], [key for key, _ in self.rows()])
        for part in (self._plain, self._held, self._absent, self._seals):
            part.clear()
        self._bytes = 0
        self._weighed = [0, 0]

    def flush(self) -> None:
        """Write all changes; the cache stays."""
        dirty, held, plain = self._dirty, self._held, self._plain
        put = [entry for entry, kept in dirty.items() if kept and entry not in held]
        rows = bulk.encoded([plain[entry] for entry in put], self.encode)
        if held:
            some = [entry for entry, kept in dirty.items() if kept and entry in held]
            some += [entry for entry in self._touched if entry not in dirty]
            some, raws = self._unlike_rows(some, bulk.encoded([held[entry] for entry in some], self.encode))
            put += some
            rows += raws
        gone = [entry for entry, kept in dirty.items() if not kept]
        self._absent.difference_update(put)
        self._absent.update(gone)
        for entry in gone:
            self._seals.pop(entry, None)
        if put or gone:
            self._write(put, self._carrying(put, rows), gone)
            self._weigh_again(rows)
        self._dirty.clear()
        self._touched.clear()

    def _write(self, put: list[Any], rows: list[bytes], gone: list[Any]) -> None:
        row_keys = self._row_keys(put) if put else []
        order = bulk.in_order(row_keys)
        written = zip([row_keys[place] for place in order], [rows[place] for place in order], strict=True)
        self._database.write(written, self._row_keys(gone) if gone else ())

    def _unlike_rows(self, entries: list[Any], raws: list[bytes]) -> tuple[list[Any], list[bytes]]:
        """Of entries that may have changed in place, those that are not so on disk; with their bytes."""
        seals, dirty = self._seals, self._dirty
        changed: list[Any] = []
        unlike: list[bytes] = []
        for entry, raw in zip(entries, raws, strict=True):
            seal = hash(raw)
            if seals.get(entry) != seal or entry in dirty:
                seals[entry] = seal
                changed.append(entry)
                unlike.append(raw)
        return changed, unlike

    def _carrying(self, entries: list[Any], raws: list[bytes]) -> list[bytes]:
        """Rows that carry their entries where their keys do not tell them."""
        rows = raws
        if not self._are_exact(entries):
            is_exact, both = self._is_exact, zip(entries, raws, strict=True)
            rows = [raw if is_exact(entry) else values.with_entry(entry, raw) for entry, raw in both]
        if not self.pickled:
            self.pickled = any(row[:1] in _PICKLED and values.holds_pickles(row) for row in rows)
        return rows

    # --- room -------------------------------------------------------------------------------

    def _make_room(self, wanted: int = 1) -> None:
        """Write changes if many wait, and forget what so many new entries leave no room for."""
        if len(self._dirty) >= self._most_changes:
            self.flush()
        count = len(self._plain) + len(self._held)
        if count + wanted > self._limit:
            self._weigh()
            mean = self._bytes // count if count else 0
            if count and (count + wanted > self._most or self._bytes + wanted * mean > self._most_bytes):
                self._forget_first(count, wanted, mean)
                count = len(self._plain) + len(self._held)
            self._limit = max(count + wanted, min(self._most, count + self._step))

    def _forget_first(self, count: int, wanted: int, mean: int) -> None:
        """Forget what came in first, an eighth of all or more."""
        room = self._most_bytes // mean if mean else self._most
        left = max(0, min(count - count // _ROOM, self._most - wanted, room - wanted))
        self.flush()
        self._bytes = self._bytes * left // count
        for number, part in enumerate((self._plain, self._held)):
            first = list(islice(part, len(part) - len(part) * left // count))
            for entry in first:
                del part[entry]
            self._weighed[number] = len(part)
            if part is self._plain:
                self._absent.difference_update(first)
            else:
                for entry in first:
                    self._seals.pop(entry, None)

    def _weigh(self) -> None:
        """Count in what is new since the last call, judged by the newest."""
        for number, part in enumerate((self._plain, self._held)):
            new = len(part) - self._weighed[number]
            self._weighed[number] = len(part)
            newest = list(islice(reversed(part.items()), _SAMPLE))
            if new > 0:
                size = sum(deep_bytes(entry) + deep_bytes(value) for entry, value in newest) // len(newest)
                self._bytes += new * (size + (1 + number) * _ENTRY_BYTES)

    def _weigh_again(self, rows: list[bytes]) -> None:
        """Values grow while they are in the cache: raise the estimate if rows are larger than it says."""
        size = sum(map(len, rows))
        count = max(1, sum(self._weighed))
        if size > self._bytes * len(rows) // count:
            self._weigh()
            count = max(1, sum(self._weighed))
            self._bytes += max(0, size - self._bytes * len(rows) // count)

    # --- rows -------------------------------------------------------------------------------

    @abstractmethod
    def row_key(self, entry: Any) -> bytes:
        """The key of an entry's row."""

    @abstractmethod
    def _row_keys(self, entries: Sequence[Any]) -> list[bytes]:
        """The same of many."""

    @abstractmethod
    def _is_exact(self, entry: Any) -> bool:
        """Whether an entry can be read back from its row's key."""

    def _are_exact(self, entries: Sequence[Any]) -> bool:
        return all(map(self._is_exact, entries))
