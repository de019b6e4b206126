"""A table whose entries are rows on disk, behind a bounded cache of live Python objects.

``get`` *is* the cache's own item access; only entries that are not there come to Python code of ours.
Changes stay in the cache until it is full, or until a snapshot is taken, and then go to disk together.

Invariants
* The cache has a young and an old half.  Whatever was changed is in the young half; when that is full,
  changes are written, it becomes the old half, and what was in that and not asked for is forgotten.
* Room is made at the *beginning* of a call.  So what ``own`` or ``get`` handed out may be changed until the
  next call on this table, and no longer.
* Values that can change in place are taken for changed whenever they were handed out; they are written if
  their bytes differ from those on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, takewhile
from typing import Any

from penstock.core.copying import ATOMIC
from penstock.core.hashing import hash_value, hash_values, key_groups
from penstock.state.rocks import keys, values
from penstock.state.rocks.database import Database, Moment, Rows
from penstock.state.rocks.settings import RocksSettings
from penstock.state.table import EntryShape, Frozen, Table

_MISSING: Any = object()
_PLAIN = ATOMIC | {values.Spread}
Pairs = Iterator[tuple[Any, Any]]
_STEP = 512
"""After so many new entries the size of the cache is estimated anew."""
_SAMPLE = 8


class _Young(dict[Any, Any]):
    """Values that cannot change, by entry; ``None`` for what is absent. Asks the table for the others."""

    __slots__ = ("find",)

    find: Callable[[Any], Any]

    def __missing__(self, entry: Any) -> Any:
        return self.find(entry)


class RocksTable(Table):
    """Entries of one named state on one subtask, as rows of a database."""

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
        "elements",
        "encode",
        "id",
        "pickled",
    )

    keeps_owned = False

    def __init__(
        self,
        name: str,
        shape: EntryShape,
        number: int,
        database: Database,
        max_parallelism: int,
        settings: RocksSettings,
    ) -> None:
        self.name = name
        self.shape = shape
        self.id = number
        self.pickled = False
        """Whether a row with a pickled object was ever written."""
        self.elements: RocksTable | None = None
        """Where the elements of large maps and lists are, if any are."""
        self.encode = values.encode
        """How values become rows; another one if their type is declared."""
        self._database = database
        self._prefix = keys.TABLE.pack(number)
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
        self.put = self._put
        self.remove = self._remove

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

    def get_many(self, entries: Sequence[Any]) -> list[Any]:
        """The values of many entries; those on disk are read together."""
        young, held, old = self._young, self._held, self._old
        if len(young) + len(held) >= self._limit:
            self._make_room()
        unknown = [e for e in dict.fromkeys(entries) if e not in young and e not in held and e not in old]
        for entry, row in zip(unknown, self._database.get(self._row_keys(unknown)), strict=True):
            if row is None:
                self._absent.add(entry)
                young[entry] = None
            else:
                self._adopt(entry, self._loaded_value(entry, row))
        return [self._known(entry) for entry in entries]

    def _known(self, entry: Any) -> Any:
        """The value of an entry that is in the cache, without making room."""
        if entry in self._young:
            return self._young[entry]
        if entry in self._held:
            self._touched[entry] = None
            return self._held[entry]
        return self._adopt(entry, self._old.pop(entry))

    def peek(self, entry: Any) -> Any:
        value = self.get(entry)
        if type(value) is values.Spread:
            assert self.elements is not None
            return gathered(value, self.elements.under(self.row_key(entry)))
        return value

    def under(self, owner: bytes) -> Pairs:
        """Of a table of elements: those of the map or list with this row key, in order of their keys."""
        self.flush()
        start = self._prefix + owner[2:]
        return element_pairs(rows_under(self._database.rows(self.id, start), start), len(start))

    def own(self, entry: Any) -> Any:
        return self.get(entry)

    def guard(self, value: Any) -> Any:
        return value

    def __contains__(self, entry: Any) -> bool:
        if self.get(entry) is not None:
            return True
        return self._dirty.get(entry, entry not in self._absent)

    def __len__(self) -> int:
        return sum(1 for _ in self._rows())

    def entries(self) -> list[Any]:
        return [self._read_entry(key, row) for key, row in self._rows()]

    def any_entry(self) -> Any:
        return next((self._read_entry(key, row) for key, row in self._rows()), None)

    def some_entries(self, most: int) -> list[Any]:
        """Up to so many entries, as they lie: by key group."""
        return [self._read_entry(key, row) for key, row in islice(self._rows(), most)]

    def _rows(self) -> Rows:
        self.flush()
        return self._database.rows(self.id)

    # --- writing ----------------------------------------------------------------------------

    def _put(self, entry: Any, value: Any) -> None:
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

    def put_many(self, entries: Sequence[Any], found: Sequence[Any]) -> None:
        """Store many entries."""
        for entry, value in zip(entries, found, strict=True):
            self._put(entry, value)

    def _remove(self, entry: Any) -> None:
        if entry in self._absent and entry not in self._dirty:
            return
        if len(self._young) + len(self._held) >= self._limit:
            self._make_room()
        self._held.pop(entry, None)
        self._young[entry] = None
        self._dirty[entry] = False

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
        group = hash_value(self.shape.key_of(entry)) % len(self._groups)
        return self._prefix + self._groups[group] + keys.encode_entry(self.shape, entry)

    def _row_keys(self, entries: Sequence[Any]) -> list[bytes]:
        shape, prefix, groups = self.shape, self._prefix, self._groups
        record_keys = entries if shape is EntryShape.KEY else [entry[0] for entry in entries]
        found = key_groups(hash_values(record_keys), len(groups)).tolist()
        return [
            prefix + groups[group] + keys.encode_entry(shape, entry)
            for group, entry in zip(found, entries, strict=True)
        ]

    def _is_exact(self, entry: Any) -> bool:
        return keys.entry_is_exact(self.shape, entry)

    def _read_entry(self, key: bytes, row: bytes) -> Any:
        return read_entry(self.shape, key, row)

    def freeze(self) -> Frozen:
        self.flush()
        if self.elements is None:
            return RocksFrozen(self, self.id, self._database.moment())
        self.elements.flush()
        elements = (self.elements.id, self._database.moment())
        return RocksFrozen(self, self.id, self._database.moment(), elements)


class RocksFrozen(Frozen):
    """The rows of a table at one moment."""

    __slots__ = ("_elements", "_id", "_moment")

    def __init__(
        self, table: Table, number: int, moment: Moment, elements: tuple[int, Moment] | None = None
    ) -> None:
        super().__init__(table, ())
        self._id = number
        self._moment: Moment | None = moment
        self._elements = elements

    def items(self) -> Iterator[tuple[Any, Any]]:
        if self._moment is None:
            return
        for key, row in self._moment.rows(self._id):
            value = values.decode(row)
            if type(value) is values.Spread:
                assert self._elements is not None
                number, moment = self._elements
                start = keys.TABLE.pack(number) + key[2:]
                value = gathered(
                    value, element_pairs(rows_under(moment.rows(number, start), start), len(start))
                )
            yield read_entry(self.shape, key, row), value

    def release(self) -> None:
        self._moment = self._elements = None


def read_entry(shape: EntryShape, key: bytes, row: bytes) -> Any:
    """The entry of a row."""
    carried, _ = values.split_entry(row)
    return keys.decode_entry(shape, key) if carried is None else values.entry_of(carried)


def rows_under(rows: Rows, prefix: bytes) -> Rows:
    """The first rows, as long as their keys begin with ``prefix``."""
    return takewhile(lambda item: item[0].startswith(prefix), rows)


def element_pairs(rows: Rows, position: int) -> Pairs:
    """Elements and values of rows whose keys have the element at ``position``."""
    for key, row in rows:
        carried, raw = values.split_entry(row)
        element = keys.decode(key, position)[0] if carried is None else values.entry_of(carried)[1]
        yield element, values.decode(raw)


def gathered(spread: values.Spread, pairs: Pairs) -> Any:
    """The map or list whose elements these are."""
    return dict(pairs) if spread.kind == values.MAP else [value for _, value in pairs]
