"""The keyed state of one operator on one subtask, on disk.

The database is opened with the first table, so steps without keyed state cost nothing.  Columnar state (chunk
stores) stays in memory with this backend too.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from penstock.core.handles import Blob, NativeHandle
from penstock.core.key_kinds import kinds_of
from penstock.state.backend import EVENT_TIMERS, PROCESSING_TIMERS, KeyedState
from penstock.state.columns import has_columns
from penstock.state.descriptors import StateDescriptor
from penstock.state.frozen_files import FileStorage, FrozenFiles, FrozenPart
from penstock.state.handles import ListState, MapState
from penstock.state.rekeying import Rehashed
from penstock.state.rocks import keys, values
from penstock.state.rocks.database import Database
from penstock.state.rocks.files import BACKEND, TABLES, TableInfo, describe, described, download, is_rows
from penstock.state.rocks.native import block_of, chunks, read_native, rows_in_range, spread_rows
from penstock.state.rocks.settings import RocksSettings
from penstock.state.rocks.spread import ElementTable, RocksListState, RocksMapState
from penstock.state.rocks.table import RocksTable
from penstock.state.rocks.timers import RocksTimerQueue, TimerTable
from penstock.state.table import EntryShape, Table
from penstock.state.timers import Timers

_SAMPLE = 100
"""Keys of a table that are looked at for their kinds."""
_SPREADING: dict[type, Any] = {MapState: RocksMapState, ListState: RocksListState}
"""Handles whose state may be large for one key. Those with a time to live keep it in one value."""


class RocksKeyedState(KeyedState):
    """Tables, handles and timers of one operator, as rows of one database."""

    def __init__(self, settings: RocksSettings, max_parallelism: int) -> None:
        super().__init__()
        self._settings = settings
        self._groups = max_parallelism
        self._database: Database | None = None
        self._rocks: dict[str, RocksTable | TimerTable] = {}
        self._elements: dict[str, ElementTable] = {}
        self._next_id = 1
        self._name = uuid.uuid4().hex[:8]
        self._known: dict[str, Blob] = {}
        self._pickled = False

    def _new_table(self, name: str, shape: EntryShape) -> Table:
        return self._add(TableInfo(self._next_id, name, shape, None))

    def _add(self, info: TableInfo) -> RocksTable | TimerTable:
        """Make a table and remember it; one of elements is made after the table that it belongs to."""
        if self._database is None:
            self._database = Database(self._settings)
            self._database.open()
        self._next_id = max(self._next_id, info.id + 1)
        if info.shape is EntryShape.TIMER:
            timers = self._rocks[info.name] = TimerTable(info.name, info.id, self._database, self._groups)
            return timers
        kind = ElementTable if info.elements else RocksTable
        made = kind(info.name, info.shape, info.id, self._database, self._groups, self._settings)
        if isinstance(made, ElementTable):
            self._elements[info.name] = made
            owner = self._rocks[info.name]
            assert isinstance(owner, RocksTable)
            owner.elements = made
        else:
            self._rocks[info.name] = made
        return made

    def handle(self, descriptor: StateDescriptor, namespaced: bool = False) -> Any:
        made = super().handle(descriptor, namespaced)
        table = self._rocks[descriptor.get_name()]
        assert isinstance(table, RocksTable)
        schema = self.schema(table.name)
        if schema is not None and has_columns(schema.layout):
            table.encode = values.encode_typed
        kind = _SPREADING.get(type(made))
        return made if kind is None else kind(table, self.scope, namespaced, self._elements_of(table))

    def _elements_of(self, table: RocksTable) -> ElementTable:
        """The elements of a table's large containers, made on first use."""
        if table.name not in self._elements:
            self._add(TableInfo(self._next_id, table.name, table.shape, None, elements=True))
        elements = self._elements[table.name]
        elements.encode = table.encode
        return elements

    @property
    def timers(self) -> Timers:
        """The operator's timers, made on first use."""
        if self._timers is None:
            queues = []
            for name in (EVENT_TIMERS, PROCESSING_TIMERS):
                table = self.table(name, EntryShape.TIMER)
                assert isinstance(table, TimerTable)
                queues.append(RocksTimerQueue(table))
            self._timers = Timers(*queues)
        return self._timers

    # --- snapshots --------------------------------------------------------------------------

    def checkpoint(self) -> list[FrozenPart]:
        if not self._settings.native:
            return super().checkpoint()
        rest: list[FrozenPart] = [*self._freeze_rest()]
        if self._database is None:
            return rest
        everything = [*self._rocks.values(), *self._elements.values()]
        for table in everything:
            table.flush()
        tables = [TableInfo(t.id, name, t.shape, self.schema(name)) for name, t in self._rocks.items()]
        tables += [TableInfo(t.id, name, t.shape, None, True) for name, t in self._elements.items()]
        pickled = self._pickled or any(table.pickled for table in everything)
        directory = self._database.checkpoint()
        return [
            FrozenFiles(
                BACKEND, directory, is_rows, {TABLES: describe(tables)}, pickled, self._name, self._known
            ),
            *rest,
        ]

    def restore_native(
        self,
        handles: Sequence[NativeHandle],
        storage: FileStorage,
        first: int,
        last: int,
        own_files: bool,
        rehashed: Rehashed | None = None,
    ) -> None:
        """Take the rows of the key groups ``first`` to ``last``. Called once, before any table is made.

        ``own_files`` says that the files are in the directory this job writes to, where they need not be
        written again.
        """
        self._pickled = any(handle.pickled for handle in handles)
        if rehashed is not None and self._pickled:
            for handle in handles:
                self.restore(read_native(handle, storage, first, last, self._settings.localdir), rehashed)
            return
        if len(handles) == 1 and handles[0].key_groups == (first, last):
            self._open_restored(handles[0], storage, own_files)
            return
        for handle in handles:
            self._copy(handle, storage, first, last)

    def _open_restored(self, handle: NativeHandle, storage: FileStorage, own_files: bool) -> None:
        """The files hold what is wanted, no more and no less: go on with them."""
        tables = described(handle, storage)
        self._database = Database(self._settings)
        download(handle, storage, self._database.files)
        self._database.open()
        if own_files:
            self._known.update((name, blob) for name, blob in handle.files if is_rows(name))
        for info in tables:
            made = self._add(info)
            if not info.elements:
                self._stored[info.name] = info.schema
                self._tables[info.name] = made
        self._note_kinds()

    def _note_kinds(self) -> None:
        """Some keys of each table stand for all, which are not looked through."""
        for table in self._rocks.values():
            if isinstance(table, RocksTable):
                entries = table.some_entries(_SAMPLE)
                self.restored_kinds |= kinds_of(map(table.shape.key_of, entries))

    def _copy(self, handle: NativeHandle, storage: FileStorage, first: int, last: int) -> None:
        blocks = read_native(handle, storage, first, last, self._settings.localdir)
        with blocks.opened() as (source, tables):
            apart: set[str] = set()
            for info in tables:
                if not info.elements and self._stored.setdefault(info.name, info.schema) != info.schema:
                    apart.add(info.name)
                for chunk in chunks(rows_in_range(source, info, first, last)):
                    if info.name not in apart:
                        self._write(info, chunk)
                    elif not info.elements:
                        block = block_of(info, chunk, spread_rows(source, info, tables, chunk))
                        put = self._place_of(block).put
                        for entry, value in zip(block.entries, block.values, strict=True):
                            put(entry, value)
        self._note_kinds()

    def _write(self, info: TableInfo, rows: list[tuple[bytes, bytes]]) -> None:
        """Take rows over as they are, into the table of that name."""
        found = self.table(info.name, info.shape)
        assert self._database is not None and isinstance(found, RocksTable | TimerTable)
        target = self._elements_of(found) if info.elements and isinstance(found, RocksTable) else found
        prefix = keys.TABLE.pack(target.id)
        self._database.write([(prefix + key[2:], row) for key, row in rows], [])

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
