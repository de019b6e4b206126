"""The keyed state of one operator on one subtask, as the engine uses it, whatever backend keeps it.

Key groups are not looked up per record: a subtask owns a contiguous range of them, and the group of a key is
only computed (vectorised) when state is written to files or read back.

Restored state keeps the form it was stored in until the program asks for it with a descriptor; only then
is it known what is declared now, and the state is brought to that or refused.  State that no descriptor asks
for goes into the next snapshot as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from penstock.core.clock import Clock, SystemClock
from penstock.core.copying import Copier, copied, itself
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, SnapshotError
from penstock.core.handles import NativeHandle
from penstock.core.key_kinds import Kind, kinds_of
from penstock.state.backend import (
    EVENT_TIMERS,
    PROCESSING_TIMERS,
    EntryShape,
    FileBackend,
    FileStorage,
    FrozenPart,
    FrozenTable,
    StateBackend,
    StoredBlocks,
    Table,
    TableBlock,
)
from penstock.state.chunks import CarriedChunks, ChunkStore, FrozenChunks
from penstock.state.columns import encode
from penstock.state.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor, StateDescriptor
from penstock.state.evolution import Rehashed, canonical_entries, does_not_fit, plan_migration, refuse_doubles
from penstock.state.files import CHUNK
from penstock.state.handles import (
    AggregatingState,
    KeyedValueState,
    ListState,
    MapState,
    ReducingState,
    Scope,
    State,
    ValueState,
)
from penstock.state.private import private
from penstock.state.schema import StateKind, StateSchema, StoredForm
from penstock.state.timers import Timers
from penstock.state.ttl import (
    Lifetime,
    TtlAggregatingState,
    TtlListState,
    TtlMapState,
    TtlReducingState,
    TtlValueState,
)
from penstock.state.ttl_config import StateTtlConfig

_PLAIN: dict[StateKind, Any] = {
    StateKind.VALUE: ValueState,
    StateKind.LIST: ListState,
    StateKind.MAP: MapState,
    StateKind.REDUCING: ReducingState,
    StateKind.AGGREGATING: AggregatingState,
}
_EXPIRING: dict[StateKind, Any] = {
    StateKind.VALUE: TtlValueState,
    StateKind.LIST: TtlListState,
    StateKind.MAP: TtlMapState,
    StateKind.REDUCING: TtlReducingState,
    StateKind.AGGREGATING: TtlAggregatingState,
}


def make_handle(
    descriptor: StateDescriptor, table: Table, scope: Scope, namespaced: bool, life: Lifetime | None
) -> State:
    """A new handle on ``table``; ``life`` says how its entries expire, if they do."""
    kind = StateKind.of(descriptor)
    if kind is StateKind.VALUE and life is None and not namespaced:
        return KeyedValueState(table, scope)
    functions = (AggregatingStateDescriptor, ReducingStateDescriptor)
    needed = [descriptor, namespaced] if isinstance(descriptor, functions) else [namespaced]
    if life is None:
        handle: State = _PLAIN[kind](table, scope, *needed)
    else:
        handle = _EXPIRING[kind](table, scope, *needed, life=life)
    return handle


_SAMPLE = 100
"""Keys of a table that are looked at for their kinds, where it was taken over without reading it through."""


class UnmatchedBlocks(FrozenTable):
    """Restored entries of another schema than those in the table of their name. They wait for a descriptor.

    Schemas differ within a snapshot if it was taken when some subtasks had asked for a state, and
    brought it to a new schema, and others had not yet.  Nothing changes the entries, so they are a view of
    themselves.
    """

    __slots__ = ("entries", "schema")

    def __init__(self, name: str, shape: EntryShape, schema: StateSchema | None) -> None:
        super().__init__(name, shape)
        self.schema = schema
        self.form = None if schema is None else StoredForm(schema)
        self.entries: dict[Any, Any] = {}

    def items(self) -> Iterator[tuple[Any, Any]]:
        return iter(self.entries.items())

    def release(self) -> None:
        pass


class KeyedState:
    """Tables, handles and timers of one operator; everything acts on ``scope.key``."""

    def __init__(self, backend: StateBackend) -> None:
        self.scope = Scope()
        self.clock: Clock = SystemClock()
        self.own: Copier = copied
        """Makes a value that goes to user code and stays here, too, one of its own."""
        self.backend = backend
        self._tables: dict[str, Table] = {}
        self._declared: dict[str, StateSchema] = {}
        self._lives: dict[str, Lifetime] = {}
        self._stored: dict[str, StateSchema | None] = {}
        self._unmatched: dict[str, list[UnmatchedBlocks]] = {}
        self._chunks: dict[str, ChunkStore] = {}
        self._restored_chunks: dict[str, list[pa.RecordBatch]] = {}
        self._timers: Timers | None = None
        self._rehashed: Rehashed | None = None
        self.before_freeze: list[Callable[[], None]] = []
        """Called before each freeze: whoever keeps state at hand beside the tables puts it there."""
        self.must_be_claimed = False
        """Whether restored chunks that no store registers for are an error."""
        self.restored_kinds: frozenset[Kind] = frozenset()
        """What kinds of keys a snapshot brought, as far as it was looked through."""
        self.met_kinds: dict[Kind, None] = {}
        """What kinds of keys the operator has met, in this attempt and before; kept with each snapshot."""

    def table(self, name: str, shape: EntryShape = EntryShape.KEY) -> Table:
        """The table called ``name``, made on first use."""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self.backend.new_table(name, shape)
        elif table.shape is not shape:
            raise ConfigError(
                f"state {name!r} is used both with and without a window; give the two different names"
            )
        return table

    def tables(self) -> list[Table]:
        """All tables, also restored ones that no descriptor has asked for yet."""
        return list(self._tables.values())

    def expect(self, keys: Sequence[Any]) -> None:
        """Records of these keys come next: backends may read their state together."""
        for table in self._tables.values():
            if table.shape is EntryShape.KEY:
                table.expect(keys)

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
        handle = make_handle(descriptor, table, self.scope, namespaced, self._lives.get(name))
        return self.backend.adapt_handle(handle, table, self.scope, namespaced, self._declared[name])

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
        waiting: list[tuple[StateSchema | None, Table | UnmatchedBlocks]] = []
        if name in self._stored:
            waiting.append((self._stored[name], table))
        waiting += [(blocks.schema, blocks) for blocks in self._unmatched.get(name, [])]
        plans = [(plan_migration(stored, declared, descriptor, stamp), stored, s) for stored, s in waiting]
        for migration, stored, source in plans:
            fitting = None if migration.must_fit is None else migration.must_fit.layout
            if fitting and any(encode(values, fitting) is None for values in _values_of(source)):
                raise does_not_fit(name, stored, declared)
        for migration, _, source in plans:
            if migration.convert is not None or source is not table:
                convert = migration.convert or (lambda value: value)
                for entry, value in _items_of(source):
                    table.put(entry, convert(value))
        self._stored.pop(name, None)
        self._unmatched.pop(name, None)

    @property
    def timers(self) -> Timers:
        """The operator's timers, made on first use."""
        if self._timers is None:
            queue = self.backend.timer_queue
            self._timers = Timers(
                queue(self.table(EVENT_TIMERS, EntryShape.TIMER)),
                queue(self.table(PROCESSING_TIMERS, EntryShape.TIMER)),
            )
        return self._timers

    @property
    def has_timers(self) -> bool:
        """Whether timers were asked for, or restored."""
        return self._timers is not None or EVENT_TIMERS in self._tables or PROCESSING_TIMERS in self._tables

    def register_chunks(self, name: str, store: ChunkStore) -> None:
        """Make a chunk store part of snapshots, and hand it what was restored under its name."""
        self._chunks[name] = store
        restored = self._restored_chunks.pop(name, None)
        if restored:
            if self._rehashed is not None and all(set(store.keys) <= set(b.schema.names) for b in restored):
                self._rehashed.refuse(name, [store.groups(batch) for batch in restored])
            store.restore(restored)

    def check_claimed(self) -> None:
        """Called when the operator is open: chunks that no store has asked for by now, none ever will."""
        if self.must_be_claimed and self._restored_chunks:
            names = ", ".join(map(repr, sorted(self._restored_chunks)))
            raise SnapshotError(
                f"the snapshot has state {names} of this step, which it does not read as it is written now: "
                "it worked on columns then, with another window, trigger or join. Write it as it was, or "
                "give the step another uid to start it empty; to go on without that state, set "
                "execution.state-recovery.ignore-unclaimed-state",
                code=Code.STATE_CHANGED,
            )

    def restore(self, blocks: StoredBlocks, rehashed: Rehashed | None = None) -> None:
        """Take all entries of a state file that are in its range. Called before the operator opens."""
        self._rehashed = rehashed
        for block in blocks.tables():
            self._take(block)
        for name, batch in blocks.chunk_batches():
            self.restore_chunks(name, [batch])

    def _take(self, block: TableBlock) -> None:
        entries, rehashed = canonical_entries(block), self._rehashed
        keys = [block.shape.key_of(entry) for entry in entries]
        self.restored_kinds |= kinds_of(keys)
        matching = self._stored.setdefault(block.name, block.schema) == block.schema
        target = self.table(block.name, block.shape) if matching else self._unmatched_of(block).entries
        if rehashed is not None:
            rehashed.check(block.name, keys)
        if entries is not block.entries or rehashed is not None:
            refuse_doubles(block, entries, target)
        put = target.__setitem__ if isinstance(target, dict) else target.put
        for entry, value in zip(entries, block.values, strict=True):
            put(entry, value)

    def _unmatched_of(self, block: TableBlock) -> UnmatchedBlocks:
        """Where a block's entries wait that do not match those in the table of their name."""
        waiting = self._unmatched.setdefault(block.name, [])
        for blocks in waiting:
            if blocks.schema == block.schema:
                return blocks
        waiting.append(UnmatchedBlocks(block.name, block.shape, block.schema))
        return waiting[-1]

    def restore_files(
        self,
        handles: Sequence[NativeHandle],
        storage: FileStorage,
        first: int,
        last: int,
        own_files: bool,
        rehashed: Rehashed | None = None,
    ) -> None:
        """Take what a :class:`FileBackend` has in files of its own. Called once, before any ``restore``.

        Pickled keys of older hashes may be in the rows of any key group, so these are read entry by entry.
        """
        backend = self.backend
        assert isinstance(backend, FileBackend)
        if rehashed is not None and any(handle.pickled for handle in handles):
            for handle in handles:
                self.restore(backend.read_files(handle, storage, first, last), rehashed)
            return
        found = backend.restore_files(handles, storage, first, last, own_files)
        self._stored.update(found.schemas)
        for table in found.tables:
            self._tables[table.name] = table
            if table.shape is not EntryShape.TIMER:
                self.restored_kinds |= kinds_of(map(table.shape.key_of, table.some_entries(_SAMPLE)))
        for block in found.blocks:
            self._take(block)

    def restore_chunks(self, name: str, batches: Iterable[pa.RecordBatch]) -> None:
        """Keep restored batches until the store of that name registers."""
        self._restored_chunks.setdefault(name, []).extend(batches)

    def schema(self, name: str) -> StateSchema | None:
        """What a snapshot taken now says about a table: as declared, else as restored."""
        return self._declared.get(name) or self._stored.get(name)

    def freeze(self) -> list[FrozenTable | FrozenChunks]:
        """Freeze all tables and chunk stores, in time independent of their size."""
        self._settle_all()
        frozen: list[FrozenTable | FrozenChunks] = []
        for name, table in self._tables.items():
            part, schema, life = table.freeze(), self.schema(name), self._lives.get(name)
            if schema is not None:
                part.form = StoredForm(schema, None if life is None else life.trimmer())
            frozen.append(part)
        return frozen + self._freeze_rest()

    def checkpoint(self) -> list[FrozenPart]:
        """Freeze for a checkpoint, which need not be readable by other backends."""
        files = None
        self._settle_all()
        if isinstance(self.backend, FileBackend):
            files = self.backend.checkpoint({name: self.schema(name) for name in self._tables})
        return [*self.freeze()] if files is None else [files, *self._freeze_rest()]

    def _settle_all(self) -> None:
        for settle in self.before_freeze:
            settle()

    def forget(self) -> None:
        """Drop all entries and timers and begin event time anew; handles stay as they are.

        For BATCH mode, which is done with a key before it turns to the next: there no snapshot is pending.
        """
        for table in self._tables.values():
            table.clear()
        for store in self._chunks.values():
            store.clear()
        if self._timers is not None:
            self._timers.clear()

    def close(self) -> None:
        """Let go of everything outside of memory. Called once, after the operator was closed."""
        self.backend.close()

    def _freeze_rest(self) -> list[FrozenTable | FrozenChunks]:
        """What is in memory with every backend."""
        frozen: list[FrozenTable | FrozenChunks] = []
        for waiting in self._unmatched.values():
            frozen.extend(waiting)
        frozen.extend(store.freeze() for store in self._chunks.values())
        frozen.extend(CarriedChunks(name, batches) for name, batches in self._restored_chunks.items())
        return frozen


def _items_of(source: Table | UnmatchedBlocks) -> Iterator[tuple[Any, Any]]:
    """Entries and values, undisturbed by what is put meanwhile."""
    if isinstance(source, UnmatchedBlocks):
        return source.items()
    return ((entry, source.peek(entry)) for entry in source.entries())


def _values_of(source: Table | UnmatchedBlocks) -> Iterator[list[Any]]:
    """All values, some at a time."""
    items = _items_of(source)
    while some := list(islice(items, CHUNK)):
        yield [value for _, value in some]
