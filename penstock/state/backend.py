"""The keyed state of one operator on one subtask.

The heap backend keeps each named state in a :class:`~penstock.state.table.Table`.  Key groups are
not looked up per record: a subtask owns a contiguous range of them, and the group of a key is only
computed (vectorised) when state is written to files or read back.

Restored state keeps the form it was stored in until the program asks for it with a descriptor; only then
is it known what is declared now, and the state is brought to that or refused.  State that nobody asks for
goes into the next snapshot as it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Protocol

import pyarrow as pa

from penstock.core.clock import Clock, SystemClock
from penstock.core.copying import Copier, copied, itself
from penstock.core.errors import ConfigError
from penstock.core.key_kinds import Kind, kinds_of
from penstock.state.chunks import CarriedChunks, ChunkStore, FrozenChunks
from penstock.state.columns import encode
from penstock.state.descriptors import StateDescriptor
from penstock.state.evolution import does_not_fit, plan_migration
from penstock.state.files import CHUNK, TableBlock
from penstock.state.frozen_files import FrozenPart
from penstock.state.handles import Scope
from penstock.state.making import make_handle
from penstock.state.private import private
from penstock.state.rekeying import Rehashed, canonical_entries, refuse_doubles
from penstock.state.schema import StateKind, StateSchema, StoredForm
from penstock.state.table import EntryShape, Frozen, Table
from penstock.state.timers import TimerQueue, Timers
from penstock.state.ttl import Lifetime
from penstock.state.ttl_config import StateTtlConfig

EVENT_TIMERS = "_timers/event"
PROCESSING_TIMERS = "_timers/processing"


class StoredBlocks(Protocol):
    """Stored state, cut to a range of key groups: a state file, or a backend's own files."""

    def tables(self) -> Iterator[TableBlock]:
        """The entries, some of one table at a time."""
        ...

    def chunk_batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Batches of chunk stores, by name."""
        ...


class KeyedState:
    """Tables, handles and timers of one operator; everything acts on ``scope.key``."""

    def __init__(self) -> None:
        self.scope = Scope()
        self.clock: Clock = SystemClock()
        self.own: Copier = copied
        """Makes a value that goes to user code and stays here, too, one of its own."""
        self._tables: dict[str, Table] = {}
        self._declared: dict[str, StateSchema] = {}
        self._lives: dict[str, Lifetime] = {}
        self._stored: dict[str, StateSchema | None] = {}
        self._strays: dict[str, list[tuple[StateSchema | None, Table]]] = {}
        self._chunks: dict[str, ChunkStore] = {}
        self._restored_chunks: dict[str, list[pa.RecordBatch]] = {}
        self._timers: Timers | None = None
        self._rehashed: Rehashed | None = None
        self.restored_kinds: frozenset[Kind] = frozenset()
        """What kinds of keys a snapshot brought, as far as it was looked through."""

    def table(self, name: str, shape: EntryShape = EntryShape.KEY) -> Table:
        """The table called ``name``, made on first use."""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self._new_table(name, shape)
        elif table.shape is not shape:
            raise ConfigError(
                f"state {name!r} is used both with and without a window; give the two different names"
            )
        return table

    def tables(self) -> list[Table]:
        """All tables, also restored ones that nobody has asked for yet."""
        return list(self._tables.values())

    def _new_table(self, name: str, shape: EntryShape) -> Table:
        return Table(name, shape)

    def handle(self, descriptor: StateDescriptor, namespaced: bool = False) -> Any:
        """The state handle for a descriptor. Restored state of that name is brought to its schema first."""
        name, kind = descriptor.get_name(), StateKind.of(descriptor)
        table = self.table(name, EntryShape.NAMESPACED if namespaced else EntryShape.KEY)
        known = self._declared.get(name)
        if known is None:
            declared = StateSchema.of(descriptor)
            if descriptor.ttl_config is not None and declared.ttl:
                self._lives[name] = self._lifetime(descriptor.ttl_config, kind, table)
            self._settle(declared, descriptor, table)
            self._declared[name] = declared
        elif (known.kind, known.ttl) != (kind, descriptor.expires):
            raise ConfigError(
                f"state {name!r} is asked for as {known.kind.value} and as {kind.value} state, or both with "
                "and without a time to live; give the two different names"
            )
        return make_handle(descriptor, table, self.scope, namespaced, self._lives.get(name))

    def private_handle(self, descriptor: StateDescriptor, namespaced: bool = False) -> Any:
        """The same for user code, which must not hold what is in the state."""
        handle = self.handle(descriptor, namespaced)
        return handle if self.own is itself else private(handle, descriptor)

    def _lifetime(self, config: StateTtlConfig, kind: StateKind, table: Table) -> Lifetime:
        if config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.EventTime:
            timers = self.timers
            return Lifetime(config, kind, table, lambda: timers.now)
        return Lifetime(config, kind, table, self.clock.now_ms)

    def _settle(self, declared: StateSchema, descriptor: StateDescriptor, table: Table) -> None:
        """Bring what was restored under this name to the declared schema, within ``table``."""
        name = table.name
        stamp = self._lives[name].now() if name in self._lives else 0
        waiting = [(self._stored[name], table)] if name in self._stored else []
        waiting += self._strays.get(name, [])
        plans = [(plan_migration(stored, declared, descriptor, stamp), stored, s) for stored, s in waiting]
        for migration, stored, source in plans:
            fitting = None if migration.must_fit is None else migration.must_fit.layout
            if fitting and any(encode(values, fitting) is None for values in _values_of(source)):
                raise does_not_fit(name, stored, declared)
        for migration, _, source in plans:
            if migration.convert is not None or source is not table:
                convert = migration.convert or (lambda value: value)
                for entry in source.entries():
                    table.put(entry, convert(source.peek(entry)))
        self._stored.pop(name, None)
        self._strays.pop(name, None)

    @property
    def timers(self) -> Timers:
        """The operator's timers, made on first use."""
        if self._timers is None:
            self._timers = Timers(
                TimerQueue(self.table(EVENT_TIMERS, EntryShape.TIMER)),
                TimerQueue(self.table(PROCESSING_TIMERS, EntryShape.TIMER)),
            )
        return self._timers

    @property
    def has_timers(self) -> bool:
        """Whether anybody used timers, or restored some."""
        return self._timers is not None or EVENT_TIMERS in self._tables or PROCESSING_TIMERS in self._tables

    def register_chunks(self, name: str, store: ChunkStore) -> None:
        """Make a chunk store part of snapshots, and hand it what was restored under its name."""
        self._chunks[name] = store
        restored = self._restored_chunks.pop(name, None)
        if restored:
            if self._rehashed is not None and all(set(store.keys) <= set(b.schema.names) for b in restored):
                self._rehashed.refuse(name, [store.groups(batch) for batch in restored])
            store.restore(restored)

    def restore(self, blocks: StoredBlocks, rehashed: Rehashed | None = None) -> None:
        """Take all entries of a state file that are in its range. Called before the operator opens."""
        self._rehashed = rehashed
        for block in blocks.tables():
            entries = canonical_entries(block)
            keys = [block.shape.key_of(entry) for entry in entries]
            self.restored_kinds |= kinds_of(keys)
            table = self._place_of(block)
            if rehashed is not None:
                rehashed.check(block.name, keys)
            if entries is not block.entries or rehashed is not None:
                refuse_doubles(block, entries, table)
            for entry, value in zip(entries, block.values, strict=True):
                table.put(entry, value)
        for name, batch in blocks.chunk_batches():
            self.restore_chunks(name, [batch])

    def _place_of(self, block: TableBlock) -> Table:
        """Where a block's entries wait: its table, or one aside if that holds entries of another schema.

        Schemas differ within a snapshot if it was taken when some subtasks had asked for a state, and
        brought it to a new schema, and others had not yet.
        """
        if self._stored.setdefault(block.name, block.schema) == block.schema:
            return self.table(block.name, block.shape)
        strays = self._strays.setdefault(block.name, [])
        for schema, table in strays:
            if schema == block.schema:
                return table
        strays.append((block.schema, Table(block.name, block.shape)))
        return strays[-1][1]

    def restore_chunks(self, name: str, batches: Iterable[pa.RecordBatch]) -> None:
        """Keep restored batches until the store of that name registers."""
        self._restored_chunks.setdefault(name, []).extend(batches)

    def schema(self, name: str) -> StateSchema | None:
        """What a snapshot taken now says about a table: as declared, else as restored."""
        return self._declared.get(name) or self._stored.get(name)

    def freeze(self) -> list[Frozen | FrozenChunks]:
        """Freeze all tables and chunk stores, in time independent of their size."""
        frozen: list[Frozen | FrozenChunks] = []
        for name, table in self._tables.items():
            frozen.append(_frozen(table, self.schema(name), self._lives.get(name)))
        return frozen + self._freeze_rest()

    def checkpoint(self) -> list[FrozenPart]:
        """Freeze for a checkpoint, which need not be readable by other backends."""
        return [*self.freeze()]

    def forget(self) -> None:
        """Drop all entries and timers and begin event time anew; handles stay as they are.

        For BATCH mode, which is done with a key before it turns to the next: there state is in memory and
        no snapshot is under way.
        """
        for table in self._tables.values():
            table.clear()
        for store in self._chunks.values():
            store.clear()
        if self._timers is not None:
            self._timers.clear()

    def close(self) -> None:
        """Let go of everything outside of memory. Called once, after the operator was closed."""

    def _freeze_rest(self) -> list[Frozen | FrozenChunks]:
        """What is in memory with every backend."""
        frozen: list[Frozen | FrozenChunks] = []
        for strays in self._strays.values():
            frozen.extend(_frozen(table, schema, None) for schema, table in strays)
        frozen.extend(store.freeze() for store in self._chunks.values())
        frozen.extend(CarriedChunks(name, batches) for name, batches in self._restored_chunks.items())
        return frozen


def _frozen(table: Table, schema: StateSchema | None, life: Lifetime | None) -> Frozen:
    frozen = table.freeze()
    if schema is not None:
        frozen.form = StoredForm(schema, None if life is None else life.trimmer())
    return frozen


def _values_of(table: Table) -> Iterator[list[Any]]:
    """All values of a table, some at a time."""
    entries = iter(table.entries())
    while some := list(islice(entries, CHUNK)):
        yield [table.peek(entry) for entry in some]
