"""Rows on disk by entry, behind a bounded cache of live Python objects.

``get`` *is* the cache's own item access; only entries that are not there come to Python code of ours.
Changes stay in the cache until it is full, or until a snapshot is taken, and then go to disk together.

Invariants
* The cache has a young and an old half.  Whatever was changed is in the young half; when that is full,
  changes are written, it becomes the old half, and what was in that and not asked for is forgotten.
* Room is made at the *beginning* of a call.  So what ``own`` or ``get`` handed out may be changed until the
  next call, and no longer.
* Values that can change in place are taken for changed whenever they were handed out; they are written if
  their bytes differ from those on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from penstock.core.copying import ATOMIC
from penstock.core.keygroups import hash_value, hash_values, key_groups
from penstock.state.backend import EntryShape
from penstock.state.rocks import keys, values
from penstock.state.rocks.database import Database, RocksSettings, Rows
from penstock.state.schema import StateSchema

_MISSING: Any = object()
_PLAIN = ATOMIC | {values.LargeCollection}
_STEP = 512
"""After so many new entries the size of the cache is estimated anew."""
_SAMPLE = 8


@dataclass(frozen=True, slots=True)
class TableInfo:
    """One table of a database."""

    id: int
    name: str
    shape: EntryShape
    schema: StateSchema | None = None
    elements: bool = False
    """Whether it holds the elements of the large maps and lists of the table of that name."""


class _Young(dict[Any, Any]):
    """Values that cannot change, by entry; ``None`` for what is absent. Asks for the others."""

    __slots__ = ("find",)

    find: Callable[[Any], Any]

    def __missing__(self, entry: Any) -> Any:
        return self.find(entry)


class CachedRows:
    """Rows of one table of a database, by entry, with the cache in front of them.

    Subclasses say how an entry becomes a row's key.  ``get`` answers ``None`` for what is absent.
    """

    __slots__ = (
        "_absent",
        "_database",
        "_dirty",
        "_groups",
        "_held",
        "_limit",
        "_loaded",
        "_most",
        "_most_bytes",
        "_old",
        "_prefix",
        "_seals",
        "_step",
        "_touched",
        "_young",
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
        self._most = max(2, settings.cache_entries // 2)
        self._most_bytes = max(1, settings.cache_bytes // 2)
        self._step = self._limit = min(_STEP, self._most)
        self._young = _Young()
        self._young.find = self._find
        self._held: dict[Any, Any] = {}
        """Young values that can change in place."""
        self._old: dict[Any, Any] = {}
        self._dirty: dict[Any, bool] = {}
        """Entries that were put (true) or removed (false) and not written yet."""
        self._touched: dict[Any, None] = {}
        """Held entries that were handed out."""
        self._absent: set[Any] = set()
        self._seals: dict[Any, int] = {}
        """Hash of the bytes on disk, of values that can change in place."""
        self._loaded = 0
        self.get = self._young.__getitem__

    # --- reading ----------------------------------------------------------------------------

    def _find(self, entry: Any) -> Any:
        """An entry that is not among the plain young ones."""
        value = self._held.get(entry, _MISSING)
        if value is not _MISSING:
            self._touched[entry] = None
            return value
        if len(self._young) + len(self._held) >= self._limit:
            self._make_room()
        value = self._old.pop(entry, _MISSING)
        if value is _MISSING:
            row = self._database.get(self.row_key(entry))
            if row is None:
                self._absent.add(entry)
                self._young[entry] = None
                return None
            value = self._loaded_value(entry, row)
        return self._adopt(entry, value)

    def _loaded_value(self, entry: Any, row: bytes) -> Any:
        self._loaded += len(row)
        raw = values.split_entry(row)[1]
        value = values.decode(raw)
        if type(value) not in _PLAIN:
            self._seals[entry] = hash(raw)
        return value

    def _adopt(self, entry: Any, value: Any) -> Any:
        if type(value) in _PLAIN:
            self._young[entry] = value
        else:
            self._held[entry] = value
            self._touched[entry] = None
        return value

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
        if len(self._young) + len(self._held) >= self._limit:
            self._make_room()
        if type(value) in _PLAIN:
            if self._held:
                self._held.pop(entry, None)
            self._young[entry] = value
        else:
            self._young.pop(entry, None)
            self._held[entry] = value
        self._dirty[entry] = True

    def remove(self, entry: Any) -> None:
        """Forget an entry; a missing one is fine."""
        if entry in self._absent and entry not in self._dirty:
            return
        if len(self._young) + len(self._held) >= self._limit:
            self._make_room()
        self._held.pop(entry, None)
        self._young[entry] = None
        self._dirty[entry] = False

    def clear(self) -> None:
        """Forget all entries."""
        self._database.write([], [key for key, _ in self.rows()])
        for part in (self._young, self._held, self._old, self._absent, self._seals):
            part.clear()
        self._loaded = 0

    def flush(self) -> None:
        """Write all changes; the cache stays."""
        changed = [*self._dirty, *(entry for entry in self._touched if entry not in self._dirty)]
        if not changed:
            return
        rows: list[tuple[bytes, bytes]] = []
        gone: list[bytes] = []
        for entry, key in zip(changed, self._row_keys(changed), strict=True):
            if self._dirty.get(entry) is False:
                gone.append(key)
                self._absent.add(entry)
                self._seals.pop(entry, None)
                continue
            row = self._changed_row(entry)
            if row is not None:
                self._absent.discard(entry)
                rows.append((key, row))
        if rows or gone:
            self._database.write(rows, gone)
        self._dirty.clear()
        self._touched.clear()

    def _changed_row(self, entry: Any) -> bytes | None:
        """The row of an entry as it is now; ``None`` if that is what stands on disk."""
        value = self._held.get(entry, _MISSING)
        if value is _MISSING:
            row = self.encode(self._young[entry])
        else:
            row = self.encode(value)
            seal = hash(row)
            if self._seals.get(entry) == seal and entry not in self._dirty:
                return None
            self._seals[entry] = seal
        if not self._is_exact(entry):
            row = values.with_entry(entry, row)
        if not self.pickled and values.holds_pickles(row):
            self.pickled = True
        return row

    def _make_room(self) -> None:
        """The young half has reached its limit: raise that if the entries are small, else turn them old."""
        count = len(self._young) + len(self._held)
        if count < self._most and self._young_bytes() < self._most_bytes:
            self._limit = min(self._most, count + self._step)
            return
        self.flush()
        fresh = {e: v for e, v in self._young.items() if v is not None or e not in self._absent}
        fresh.update(self._held)
        self._seals = {entry: self._seals[entry] for entry in self._held if entry in self._seals}
        self._old = fresh
        self._held.clear()
        self._young.clear()
        self._absent.clear()
        self._loaded = 0
        self._limit = self._step

    def _young_bytes(self) -> int:
        """About how many bytes the young half has: what was loaded, and a sample of what was put."""
        recent = list(islice(reversed(self._dirty), _SAMPLE))
        found = [self._held.get(entry, self._young.get(entry)) for entry in recent]
        if not found:
            return self._loaded
        return self._loaded + sum(len(self.encode(v)) for v in found) * len(self._dirty) // len(found)

    # --- rows -------------------------------------------------------------------------------

    def row_key(self, entry: Any) -> bytes:
        """The key of an entry's row."""
        group = hash_value(self._record_keys((entry,))[0]) % len(self._groups)
        return self._prefix + self._groups[group] + self._encoded(entry)

    def _row_keys(self, entries: Sequence[Any]) -> list[bytes]:
        prefix, groups, encoded = self._prefix, self._groups, self._encoded
        found = key_groups(hash_values(self._record_keys(entries)), len(groups)).tolist()
        return [prefix + groups[g] + encoded(entry) for g, entry in zip(found, entries, strict=True)]

    def _record_keys(self, entries: Sequence[Any]) -> Sequence[Any]:
        """The record keys of entries, which decide about their key groups."""
        raise NotImplementedError

    def _encoded(self, entry: Any) -> bytes:
        """What stands behind the key group in a row's key."""
        raise NotImplementedError

    def _is_exact(self, entry: Any) -> bool:
        """Whether an entry can be read back from its row's key."""
        raise NotImplementedError
