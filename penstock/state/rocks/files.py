"""The files of a checkpoint: a description of the tables in them, and reading them by key group.

Files with rows never change and are stored once for all checkpoints of a job; the small rest (which of them
belong together, and what the tables are) goes with each checkpoint.  :class:`NativeBlocks` gives them in the
form of state files, for backends and tools that do not run RocksDB.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.core.errors import CorruptSnapshotError
from penstock.core.handles import Blob, NativeHandle
from penstock.state.backend import EntryShape, FileStorage, TableBlock
from penstock.state.files import CHUNK, rows_out_of_range
from penstock.state.rocks import keys, values
from penstock.state.rocks.cache import TableInfo
from penstock.state.rocks.database import Rows, local_directory, open_files, table_rows
from penstock.state.rocks.table import collected, element_pairs, read_entry, rows_under
from penstock.state.schema import StateSchema
from penstock.storage.own_files import make_directory, write_file

BACKEND = "rocksdb"
TABLES = "tables.json"
"""Describes the tables; lies beside RocksDB's files in a checkpoint."""
_FORMAT = 2
"""Of the rows: 1 had no data format."""
_LAST_GROUP = 2**16 - 1

RowList = list[tuple[bytes, bytes]]
ElementLists = dict[bytes, RowList]
"""Rows of elements, by the row key of the map or list that they belong to."""


def is_rows(name: str) -> bool:
    """Whether a file holds rows: written once, never changed, and never followed by another of its name."""
    return name.endswith(".sst")


def describe(tables: Iterable[TableInfo]) -> bytes:
    """The bytes of :data:`TABLES`."""
    found = [
        {
            "id": table.id,
            "name": table.name,
            "shape": table.shape.name,
            "state": None if table.schema is None else table.schema.to_json(),
            "elements": table.elements,
        }
        for table in tables
    ]
    return json.dumps({"format": _FORMAT, "tables": found}, separators=(",", ":")).encode()


def described(handle: NativeHandle, storage: FileStorage) -> list[TableInfo]:
    """The tables of a checkpoint."""
    blob = dict(handle.files).get(TABLES)
    if handle.backend != BACKEND or blob is None:
        raise CorruptSnapshotError(f"files of backend {handle.backend!r} are not those of a RocksDB state")
    try:
        found = json.loads(storage.read_blob(blob))
        if found["format"] not in (1, _FORMAT):
            raise ValueError(f"format {found['format']}")
        return [_table(each) for each in found["tables"]]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptSnapshotError(f"the list of tables in a checkpoint is unreadable: {error!r}") from error


def _table(found: dict[str, Any]) -> TableInfo:
    state = found["state"]
    schema = None if state is None else StateSchema.from_json(state)
    shape = EntryShape[found["shape"]]
    return TableInfo(int(found["id"]), str(found["name"]), shape, schema, bool(found["elements"]))


def download(handle: NativeHandle, storage: FileStorage, directory: Path) -> None:
    """Lay the files of a checkpoint into ``directory``, which is made."""
    values.guard()
    make_directory(directory)
    rows: list[tuple[Blob, Path]] = []
    for name, blob in handle.files:
        if Path(name).name != name:
            raise CorruptSnapshotError(f"a checkpoint names a file outside of its directory: {name!r}")
        if is_rows(name):
            rows.append((blob, directory / name))
        elif name != TABLES:  # RocksDB goes on writing into these
            write_file(directory / name, storage.read_blob(blob))
    storage.fetch(rows)


# --- reading ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NativeBlocks:
    """The entries of a checkpoint in the key groups ``first`` to ``last``, as ``StoredBlocks``."""

    handle: NativeHandle
    storage: FileStorage
    first: int
    last: int
    localdir: str | None = None

    def tables(self) -> Iterator[TableBlock]:
        """The entries, some thousand of one table at a time. The files are local meanwhile."""
        with self.opened() as (source, tables):
            for table in tables:
                if not table.elements:
                    for chunk in chunks(rows_in_range(source, table, self.first, self.last)):
                        yield block_of(table, chunk, element_rows(source, table, tables, chunk))

    def chunk_batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Nothing: columnar state is never in RocksDB."""
        return iter(())

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[Any, list[TableInfo]]]:
        """The files, downloaded and opened, and their tables."""
        tables = described(self.handle, self.storage)
        directory = local_directory(self.localdir)
        try:
            download(self.handle, self.storage, directory.path / "db")
            source = open_files(directory.path / "db")
            try:
                _check_range(source, tables, *self.handle.key_groups)
                yield source, tables
            finally:
                source.close()
        finally:
            directory.remove()


def _check_range(source: Any, tables: list[TableInfo], first: int, last: int) -> None:
    """Refuse rows whose key group is not among those of the piece: no subtask would take them."""
    others = 0
    for table in tables:
        if table.shape is EntryShape.TIMER:
            groups = (keys.group_of(table.shape, key) for key, _ in table_rows(source, table.id, b""))
            others += sum(not first <= group <= last for group in groups)
        else:
            others += sum(1 for _ in rows_in_range(source, table, 0, first - 1)) if first else 0
            others += sum(1 for _ in rows_in_range(source, table, last + 1, _LAST_GROUP))
    if others:
        raise rows_out_of_range(others)


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


def element_rows(source: Any, table: TableInfo, tables: list[TableInfo], chunk: RowList) -> ElementLists:
    """The elements of those maps and lists in ``chunk`` that are large."""
    found: ElementLists = {}
    for key, row in chunk:
        if values.is_large(row):
            number = next(other.id for other in tables if other.elements and other.name == table.name)
            start = keys.TABLE.pack(number) + key[2:]
            found[key] = list(rows_under(table_rows(source, number, start), start))
    return found


def block_of(table: TableInfo, chunk: RowList, elements: ElementLists) -> TableBlock:
    """Rows of ``table``, which is not one of elements, as entries and values."""
    entries = [read_entry(table.shape, key, row) for key, row in chunk]
    return TableBlock(table.name, table.shape, entries, values_of(chunk, elements), table.schema)


def values_of(chunk: RowList, elements: ElementLists) -> list[Any]:
    """The values of rows, with the elements of those that are large."""
    found = [values.decode(row) for _, row in chunk]
    for place, (key, _) in enumerate(chunk):
        if key in elements:
            found[place] = collected(found[place], element_pairs(iter(elements[key]), len(key)))
    return found
