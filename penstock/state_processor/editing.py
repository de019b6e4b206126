"""Changing the keyed state of one file: blocks of states that nothing happens to are taken over as they are.

So a savepoint can be changed in one place without loading, or trusting, the rest of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.core.errors import SnapshotError
from penstock.state.backend import EntryShape, FrozenTable, Table, TableBlock
from penstock.state.files import MAX_GROUP, StateBlocks, block_head, write_blocks
from penstock.state.heap.backend import HeapTable
from penstock.state.schema import StateSchema, StoredForm
from penstock.state_processor.blocks import untrusted

Change = Callable[..., Any]
"""Takes key and value (key, namespace and value for state of windows); gives the new value or ``None``."""


class Loaded(NamedTuple):
    """A table read back, and what its blocks say about it."""

    table: Table
    schema: StateSchema | None


Tables = dict[tuple[str, str | None], Loaded]
"""By name and description: blocks of one state may differ in what they say about it."""


@dataclass(frozen=True, slots=True)
class Edits:
    """What happens to the keyed state of one operator."""

    dropped: frozenset[str]
    """States that are left out altogether."""
    changes: tuple[tuple[str, Change], ...]
    """State and function, in order."""
    deleted: frozenset[Any]
    """Keys that lose all their state and timers."""

    def touches(self, state: str) -> bool:
        """Whether entries of the state must be looked at one by one."""
        return bool(self.deleted) or any(name == state for name, _ in self.changes)

    def __bool__(self) -> bool:
        return bool(self.dropped or self.changes or self.deleted)

    def apply(self, table: Table) -> None:
        """Carry out the changes on a loaded table."""
        key_of = table.shape.key_of
        for entry in table.entries():
            value = table.peek(entry)
            for name, change in self.changes:
                if name == table.name and value is not None:
                    value = change(*(entry if table.shape is EntryShape.NAMESPACED else (entry,)), value)
            if value is None or (self.deleted and key_of(entry) in self.deleted):
                table.remove(entry)
            else:
                table.put(entry, value)


def edited(data: bytes, edits: Edits, max_parallelism: int, trusted: bool) -> Iterator[tuple[bytes, bool]]:
    """The blocks of a piece after the edits, each with whether it holds pickled values."""
    tables: Tables = {}
    view = memoryview(data)
    position = 0
    while position < len(view):
        header, _, after = block_head(view, position)
        raw = bytes(view[position:after])
        position = after
        name = str(header.get("table", header.get("chunks")))
        if name in edits.dropped:
            continue
        if not edits.touches(name):
            yield raw, "pickled" in header
            continue
        _load(raw, header, tables, trusted)
    yield from _changed(tables, edits, max_parallelism)


def converted(
    blocks: Iterable[TableBlock], edits: Edits, max_parallelism: int
) -> Iterator[tuple[bytes, bool]]:
    """The same for state in files of a backend's own, which becomes blocks on the way."""
    tables: Tables = {}
    for block in blocks:
        if block.name not in edits.dropped:
            _gather(block, tables)
    yield from _changed(tables, edits, max_parallelism)


def _changed(tables: Tables, edits: Edits, max_parallelism: int) -> Iterator[tuple[bytes, bool]]:
    for loaded in tables.values():
        edits.apply(loaded.table)
        yield from write_blocks([frozen(loaded.table, loaded.schema)], max_parallelism)


def frozen(table: Table, schema: StateSchema | None) -> FrozenTable:
    """The table as the writer of blocks takes it, with what was declared for it."""
    part = table.freeze()
    part.form = None if schema is None else StoredForm(schema)
    return part


def _load(raw: bytes, header: dict[str, Any], tables: Tables, trusted: bool) -> None:
    if "chunks" in header:
        raise SnapshotError(
            f"columnar state {header['chunks']!r} cannot be changed key by key; read it, and give the "
            f"changed rows to a step that keeps its state by key"
        )
    if "pickled" in header and not trusted:
        raise untrusted(f"state {header['table']!r}", list(header["pickled"]))
    for block in StateBlocks(raw, 0, MAX_GROUP).tables():
        _gather(block, tables)


def _gather(block: TableBlock, tables: Tables) -> None:
    version = None if block.schema is None else json.dumps(block.schema.to_json())
    fresh = Loaded(HeapTable(block.name, block.shape), block.schema)
    loaded = tables.setdefault((block.name, version), fresh)
    for entry, value in zip(block.entries, block.values, strict=True):
        loaded.table.put(entry, value)
