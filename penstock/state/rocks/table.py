"""The tables of RocksDB: entries as rows by key group, and views of them at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from typing import Any

from penstock.core.keygroups import hash_value
from penstock.state.backend import EntryShape, FrozenTable, Table
from penstock.state.rocks import bulk, keys, values
from penstock.state.rocks.cache import CachedRows, TableInfo
from penstock.state.rocks.database import Database, Moment, RocksSettings, Rows

Pairs = Iterator[tuple[Any, Any]]


class RocksTable(CachedRows, Table):
    """Entries of one named state on one subtask.

    Of large maps and lists ``get`` and ``own`` give the :class:`~penstock.state.rocks.values.LargeCollection`
    that stands for them, which only their handles ask for.
    """

    __slots__ = ("elements",)

    def __init__(
        self, info: TableInfo, database: Database, max_parallelism: int, settings: RocksSettings
    ) -> None:
        super().__init__(info, database, max_parallelism, settings)
        self.elements: CachedRows | None = None
        """Where the elements of large maps and lists are, if any are."""

    def own(self, entry: Any) -> Any:
        return self.get(entry)

    def peek(self, entry: Any) -> Any:
        value = self.get(entry)
        if type(value) is values.LargeCollection:
            assert self.elements is not None
            return collected(value, elements_under(self.elements, self.row_key(entry)))
        return value

    def guard(self, value: Any) -> Any:
        return value

    def __len__(self) -> int:
        return sum(1 for _ in self.rows())

    def entries(self) -> list[Any]:
        return [read_entry(self.shape, key, row) for key, row in self.rows()]

    def some_entries(self, most: int) -> list[Any]:
        return [read_entry(self.shape, key, row) for key, row in islice(self.rows(), most)]

    def clear(self) -> None:
        super().clear()
        if self.elements is not None:
            self.elements.clear()

    def row_key(self, entry: Any) -> bytes:
        group = hash_value(self.shape.key_of(entry)) % len(self._groups)
        return self._prefix + self._groups[group] + keys.encode_entry(self.shape, entry)

    def _row_keys(self, entries: Sequence[Any]) -> list[bytes]:
        return bulk.row_keys(self._prefix, self._groups, self.shape, entries)

    def _are_exact(self, entries: Sequence[Any]) -> bool:
        if self.shape is EntryShape.KEY and keys.EXACT.issuperset(map(type, entries)):
            return True
        return super()._are_exact(entries)

    def _is_exact(self, entry: Any) -> bool:
        return keys.entry_is_exact(self.shape, entry)

    def freeze(self) -> FrozenTable:
        self.flush()
        if self.elements is None:
            return FrozenRows(self, self.id, self._database.moment())
        self.elements.flush()
        elements = (self.elements.id, self._database.moment())
        return FrozenRows(self, self.id, self._database.moment(), elements)


class FrozenRows(FrozenTable):
    """The rows of a table at one moment."""

    __slots__ = ("_elements", "_id", "_moment")

    def __init__(
        self, table: Table, number: int, moment: Moment, elements: tuple[int, Moment] | None = None
    ) -> None:
        super().__init__(table.name, table.shape)
        self._id = number
        self._moment: Moment | None = moment
        self._elements = elements

    def items(self) -> Iterator[tuple[Any, Any]]:
        if self._moment is None:
            return
        for key, row in self._moment.rows(self._id):
            value = values.decode(row)
            if type(value) is values.LargeCollection:
                assert self._elements is not None
                number, moment = self._elements
                start = keys.TABLE.pack(number) + key[2:]
                value = collected(
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


def elements_under(elements: CachedRows, owner: bytes) -> Pairs:
    """Elements and values of the map or list with the row key ``owner``, in order of their keys."""
    start = keys.TABLE.pack(elements.id) + owner[2:]
    return element_pairs(rows_under(elements.rows(start), start), len(start))


def element_pairs(rows: Rows, position: int) -> Pairs:
    """Elements and values of rows whose keys have the element at ``position``."""
    for key, row in rows:
        carried, raw = values.split_entry(row)
        element = keys.decode(key, position)[0] if carried is None else values.entry_of(carried)[1]
        yield element, values.decode(raw)


def collected(large: values.LargeCollection, pairs: Pairs) -> Any:
    """The map or list whose elements these are."""
    return dict(pairs) if large.kind == values.MAP else [value for _, value in pairs]
