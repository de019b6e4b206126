"""The RocksDB backend: the tables of one operator on one subtask as rows of one database.

The database is opened with the first table, so steps without keyed state cost nothing.  Columnar state (chunk
stores) stays in memory with this backend too.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.core.handles import Blob, NativeHandle
from penstock.state.backend import (
    EntryShape,
    FileBackend,
    FileStorage,
    FrozenFiles,
    RestoredFiles,
    Table,
    TableBlock,
    TimerQueue,
)
from penstock.state.columns import has_columns
from penstock.state.handles import ListState, MapState, Scope, State
from penstock.state.rocks import keys, values
from penstock.state.rocks.cache import CachedRows, TableInfo
from penstock.state.rocks.database import Database, RocksSettings
from penstock.state.rocks.files import (
    BACKEND,
    TABLES,
    NativeBlocks,
    block_of,
    chunks,
    describe,
    described,
    download,
    element_rows,
    is_rows,
    rows_in_range,
)
from penstock.state.rocks.large_collections import ElementRows, RocksListState, RocksMapState
from penstock.state.rocks.table import RocksTable
from penstock.state.rocks.timers import RocksTimerQueue, TimerTable
from penstock.state.schema import StateSchema

_MAY_BE_LARGE: dict[type, Any] = {MapState: RocksMapState, ListState: RocksListState}
"""Handles whose state may be large for one key. Those with a time to live keep it in one value."""


class RocksBackend(FileBackend):
    """Tables and timers of one operator in one database."""

    name = BACKEND

    def __init__(self, settings: RocksSettings, max_parallelism: int) -> None:
        self._settings = settings
        self._groups = max_parallelism
        self._database: Database | None = None
        self._tables: dict[str, RocksTable | TimerTable] = {}
        self._elements: dict[str, ElementRows] = {}
        self._next_id = 1
        self._owner = uuid.uuid4().hex[:8]
        self._known: dict[str, Blob] = {}
        self._pickled = False

    @classmethod
    def open(cls, options: Mapping[str, Any], max_parallelism: int, shares_files: bool) -> RocksBackend:
        """The backend with the ``options`` of a plan; without shared files checkpoints are blocks."""
        settings = RocksSettings(**options)
        return cls(replace(settings, native=settings.native and shares_files), max_parallelism)

    def new_table(self, name: str, shape: EntryShape) -> Table:
        self._add(TableInfo(self._next_id, name, shape))
        return self._tables[name]

    def timer_queue(self, table: Table) -> TimerQueue:
        assert isinstance(table, TimerTable)
        return RocksTimerQueue(table)

    def adapt_handle(
        self, handle: State, table: Table, scope: Scope, namespaced: bool, schema: StateSchema
    ) -> State:
        """Have typed values stored as such, and maps and lists become large."""
        assert isinstance(table, RocksTable)
        if has_columns(schema.layout):
            table.encode = values.encode_typed
        kind = _MAY_BE_LARGE.get(type(handle))
        if kind is None:
            return handle
        made: State = kind(table, scope, namespaced, self._elements_of(table))
        return made

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def measures(self) -> dict[str, float]:
        return {} if self._database is None else self._database.measures()

    def _opened(self) -> Database:
        if self._database is None:
            self._database = Database(self._settings)
            self._database.open()
        return self._database

    def _add(self, info: TableInfo) -> None:
        """Make a table and remember it; one of elements is made after the table that it belongs to."""
        database = self._opened()
        self._next_id = max(self._next_id, info.id + 1)
        if info.elements:
            owner = self._tables[info.name]
            assert isinstance(owner, RocksTable)
            elements = ElementRows(info, database, self._groups, self._settings)
            owner.elements = self._elements[info.name] = elements
        elif info.shape is EntryShape.TIMER:
            self._tables[info.name] = TimerTable(info, database, self._groups)
        else:
            self._tables[info.name] = RocksTable(info, database, self._groups, self._settings)

    def _elements_of(self, table: RocksTable) -> ElementRows:
        """The elements of a table's large containers, made on first use."""
        if table.name not in self._elements:
            self._add(TableInfo(self._next_id, table.name, table.shape, elements=True))
        elements = self._elements[table.name]
        elements.encode = table.encode
        return elements

    # --- checkpoints ------------------------------------------------------------------------

    def checkpoint(self, schemas: Mapping[str, StateSchema | None]) -> FrozenFiles | None:
        if not self._settings.native or self._database is None:
            return None
        everything = [*self._tables.values(), *self._elements.values()]
        for table in everything:
            table.flush()
        tables = [TableInfo(t.id, name, t.shape, schemas[name]) for name, t in self._tables.items()]
        tables += [TableInfo(t.id, name, t.shape, None, True) for name, t in self._elements.items()]
        pickled = self._pickled or any(table.pickled for table in everything)
        directory = self._database.checkpoint()
        description = {TABLES: describe(tables)}
        return FrozenFiles(BACKEND, directory, is_rows, description, pickled, self._owner, self._known)

    def restore_files(
        self, handles: Sequence[NativeHandle], storage: FileStorage, first: int, last: int, own_files: bool
    ) -> RestoredFiles:
        self._pickled = any(handle.pickled for handle in handles)
        if len(handles) == 1 and handles[0].key_groups == (first, last):
            return self._open_restored(handles[0], storage, own_files)
        schemas: dict[str, StateSchema | None] = {}
        unmatched: list[TableBlock] = []
        for handle in handles:
            unmatched += self._copy(handle, storage, first, last, schemas)
        return RestoredFiles([*self._tables.values()], schemas, unmatched)

    def read_files(self, handle: NativeHandle, storage: FileStorage, first: int, last: int) -> NativeBlocks:
        return NativeBlocks(handle, storage, first, last, self._settings.localdir)

    def _open_restored(self, handle: NativeHandle, storage: FileStorage, own_files: bool) -> RestoredFiles:
        """The files hold what is wanted, no more and no less: go on with them."""
        tables = described(handle, storage)
        self._database = Database(self._settings)
        download(handle, storage, self._database.files)
        self._database.open()
        if own_files:
            self._known.update((name, blob) for name, blob in handle.files if is_rows(name))
        for info in tables:
            self._add(info)
        schemas = {info.name: info.schema for info in tables if not info.elements}
        return RestoredFiles([*self._tables.values()], schemas)

    def _copy(
        self,
        handle: NativeHandle,
        storage: FileStorage,
        first: int,
        last: int,
        schemas: dict[str, StateSchema | None],
    ) -> list[TableBlock]:
        """Take rows over as they are; gives those of states that ``schemas`` has otherwise, as blocks."""
        unmatched: list[TableBlock] = []
        with self.read_files(handle, storage, first, last).opened() as (source, tables):
            apart: set[str] = set()
            for info in tables:
                matches = info.elements or schemas.setdefault(info.name, info.schema) == info.schema
                known = self._tables.get(info.name)
                if not matches or (known is not None and known.shape is not info.shape):
                    apart.add(info.name)
                for chunk in chunks(rows_in_range(source, info, first, last)):
                    if info.name not in apart:
                        self._write(info, chunk)
                    elif not info.elements:
                        unmatched.append(block_of(info, chunk, element_rows(source, info, tables, chunk)))
        return unmatched

    def _write(self, info: TableInfo, rows: list[tuple[bytes, bytes]]) -> None:
        """Take rows over as they are, into the table of that name."""
        if info.name not in self._tables:
            self._add(TableInfo(self._next_id, info.name, info.shape))
        target: CachedRows | TimerTable = self._tables[info.name]
        if info.elements and isinstance(target, RocksTable):
            target = self._elements_of(target)
        prefix = keys.TABLE.pack(target.id)
        self._opened().write([(prefix + key[2:], row) for key, row in rows], [])
