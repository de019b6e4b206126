"""The keyed state of one operator on one subtask.

The heap backend keeps each named state in a :class:`~penstock.state.table.Table`.  Key groups are
not looked up per record: a subtask owns a contiguous range of them, and the group of a key is only
computed (vectorised) when state is written to files or read back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from penstock.core.errors import ConfigError
from penstock.state.chunks import ChunkStore, FrozenChunks
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
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
from penstock.state.table import EntryShape, Frozen, Table
from penstock.state.timers import TimerQueue, Timers

EVENT_TIMERS = "_timers/event"
PROCESSING_TIMERS = "_timers/processing"


class KeyedState:
    """Tables, handles and timers of one operator; everything acts on ``scope.key``."""

    def __init__(self) -> None:
        self.scope = Scope()
        self._tables: dict[str, Table] = {}
        self._chunks: dict[str, ChunkStore] = {}
        self._restored_chunks: dict[str, list[pa.RecordBatch]] = {}
        self._timers: Timers | None = None

    def table(self, name: str, shape: EntryShape = EntryShape.KEY) -> Table:
        """The table called ``name``, made on first use."""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = Table(name, shape)
        elif table.shape is not shape:
            raise ConfigError(
                f"state {name!r} is used both with and without a window; give the two different names"
            )
        return table

    def handle(self, descriptor: StateDescriptor, namespaced: bool = False) -> Any:
        """The state handle for a descriptor."""
        if descriptor.ttl_config is not None:
            raise ConfigError(
                f"state {descriptor.get_name()!r} has a time to live, which is not supported yet; register a "
                "timer that clears it instead"
            )
        shape = EntryShape.NAMESPACED if namespaced else EntryShape.KEY
        table = self.table(descriptor.get_name(), shape)
        state: State
        if isinstance(descriptor, ValueStateDescriptor):
            kind = ValueState if namespaced else KeyedValueState
            state = kind(table, self.scope, namespaced)
        elif isinstance(descriptor, ListStateDescriptor):
            state = ListState(table, self.scope, namespaced)
        elif isinstance(descriptor, MapStateDescriptor):
            state = MapState(table, self.scope, namespaced)
        elif isinstance(descriptor, ReducingStateDescriptor):
            state = ReducingState(table, self.scope, descriptor, namespaced)
        elif isinstance(descriptor, AggregatingStateDescriptor):
            state = AggregatingState(table, self.scope, descriptor, namespaced)
        else:
            raise ConfigError(f"unknown kind of state descriptor: {type(descriptor).__name__}")
        return state

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
            store.restore(restored)

    def restore_chunks(self, name: str, batches: Iterable[pa.RecordBatch]) -> None:
        """Keep restored batches until the store of that name registers."""
        self._restored_chunks.setdefault(name, []).extend(batches)

    def freeze(self) -> list[Frozen | FrozenChunks]:
        """Freeze all tables and chunk stores, in time independent of their size."""
        frozen: list[Frozen | FrozenChunks] = [table.freeze() for table in self._tables.values()]
        frozen.extend(store.freeze() for store in self._chunks.values())
        return frozen
