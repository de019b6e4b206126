"""Reading the files of a RocksDB checkpoint: by key group, as entries or as bare rows.

:func:`read_native` gives them in the form of state files, for backends and tools that do not run RocksDB.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from penstock.core.handles import NativeHandle
from penstock.state.files import CHUNK, TableBlock, stray_rows
from penstock.state.frozen_files import FileStorage
from penstock.state.rocks import keys, values
from penstock.state.rocks.database import Rows, open_files, table_rows
from penstock.state.rocks.files import TableInfo, described, download
from penstock.state.rocks.place import work_place
from penstock.state.rocks.table import element_pairs, gathered, read_entry, rows_under
from penstock.state.table import EntryShape

RowList = list[tuple[bytes, bytes]]
SpreadRows = dict[bytes, RowList]
_LAST_GROUP = 2**16 - 1


class NativeBlocks:
    """The entries of a checkpoint that are in a range of key groups; offers what ``StateBlocks`` does."""

    def __init__(
        self, handle: NativeHandle, storage: FileStorage, first: int, last: int, localdir: str | None
    ) -> None:
        self._handle = handle
        self._storage = storage
        self._first = first
        self._last = last
        self._localdir = localdir

    def tables(self) -> Iterator[TableBlock]:
        """The entries, some thousand of one table at a time. The files are local meanwhile."""
        with self.opened() as (source, tables):
            for table in tables:
                if not table.elements:
                    for chunk in chunks(rows_in_range(source, table, self._first, self._last)):
                        yield block_of(table, chunk, spread_rows(source, table, tables, chunk))

    def entries(self) -> Iterator[tuple[str, EntryShape, list[Any], list[Any]]]:
        """The same without schemas."""
        for block in self.tables():
            yield block[:4]

    def chunk_batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Nothing: columnar state is never in RocksDB."""
        return iter(())

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[Any, list[TableInfo]]]:
        """The files, downloaded and opened, and their tables."""
        tables = described(self._handle, self._storage)
        place = work_place(self._localdir)
        try:
            download(self._handle, self._storage, place.path / "db")
            source = open_files(place.path / "db")
            try:
                _refuse_strays(source, tables, *self._handle.key_groups)
                yield source, tables
            finally:
                source.close()
        finally:
            place.remove()


def read_native(
    handle: NativeHandle, storage: FileStorage, first: int, last: int, localdir: str | None = None
) -> NativeBlocks:
    """The entries of a native handle within the key groups ``first`` to ``last``, both included."""
    return NativeBlocks(handle, storage, first, last, localdir)


def _refuse_strays(source: Any, tables: list[TableInfo], first: int, last: int) -> None:
    """Refuse rows whose key group is not among those of the piece: no subtask would take them."""
    strays = 0
    for table in tables:
        if table.shape is EntryShape.TIMER:
            groups = (keys.group_of(table.shape, key) for key, _ in table_rows(source, table.id, b""))
            strays += sum(not first <= group <= last for group in groups)
        else:
            strays += sum(1 for _ in rows_in_range(source, table, 0, first - 1)) if first else 0
            strays += sum(1 for _ in rows_in_range(source, table, last + 1, _LAST_GROUP))
    if strays:
        raise stray_rows(strays)


def rows_in_range(source: Any, table: TableInfo, first: int, last: int) -> Rows:
    """The rows of a table whose key group is from ``first`` to ``last``."""
    if table.shape is EntryShape.TIMER:
        for key, row in table_rows(source, table.id, b""):
            if first <= keys.group_of(table.shape, key) <= last:
                yield key, row
        return
    for key, row in table_rows(source, table.id, keys.TABLE.pack(table.id) + keys.GROUP.pack(first)):
        if keys.group_of(table.shape, key) > last:
            return
        yield key, row


def chunks(rows: Rows) -> Iterator[RowList]:
    """Some rows at a time."""
    while chunk := list(islice(rows, CHUNK)):
        yield chunk


def spread_rows(source: Any, table: TableInfo, tables: list[TableInfo], chunk: RowList) -> SpreadRows:
    """The elements of those maps and lists in ``chunk`` that are spread, by the row keys of these."""
    found: SpreadRows = {}
    for key, row in chunk:
        if values.is_spread(row):
            number = next(other.id for other in tables if other.elements and other.name == table.name)
            start = keys.TABLE.pack(number) + key[2:]
            found[key] = list(rows_under(table_rows(source, number, start), start))
    return found


def block_of(table: TableInfo, chunk: RowList, spread: SpreadRows) -> TableBlock:
    """Rows of ``table``, which is not one of elements, as entries and values."""
    entries = [read_entry(table.shape, key, row) for key, row in chunk]
    return TableBlock(table.name, table.shape, entries, values_of(chunk, spread), table.schema)


def values_of(chunk: RowList, spread: SpreadRows) -> list[Any]:
    """The values of rows, with the elements of those that are spread."""
    found = [values.decode(row) for _, row in chunk]
    for place, (key, _) in enumerate(chunk):
        if key in spread:
            found[place] = gathered(found[place], element_pairs(iter(spread[key]), len(key)))
    return found
