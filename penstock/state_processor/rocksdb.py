"""The own files of RocksDB, which its checkpoints hold, as blocks.

Rows tell by their first bytes whether something in them is pickled, so others are read without trust.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.core.handles import NativeHandle
from penstock.core.stand_ins import stand_ins
from penstock.snapshot.storage import SnapshotStore
from penstock.state.backend import EntryShape
from penstock.state.columns import encode
from penstock.state.rocks.cache import TableInfo
from penstock.state.rocks.files import (
    ElementLists,
    NativeBlocks,
    block_of,
    chunks,
    element_rows,
    rows_in_range,
    values_of,
)
from penstock.state.rocks.table import read_entry
from penstock.state.rocks.values import holds_pickles, is_pickled, split_entry
from penstock.state_processor.block import Block, Outline
from penstock.state_processor.layouts import shown_type
from penstock.state_processor.values import plain_array


def rocksdb_blocks(store: SnapshotStore, handle: NativeHandle) -> Iterator[Block]:
    """Rows of RocksDB's own files, which are downloaded for it, some thousand at a time."""
    first, last = handle.key_groups
    with NativeBlocks(handle, store, first, last).opened() as (source, tables):
        for table in tables:
            if not table.elements:
                for rows in chunks(rows_in_range(source, table, first, last)):
                    yield _rocksdb_block(table, rows, element_rows(source, table, tables, rows))


def _rocksdb_block(table: TableInfo, rows: list[tuple[bytes, bytes]], elements: ElementLists) -> Block:
    found: dict[str, list[Any]] = {}
    parts = [split_entry(row) for _, row in rows]
    if not any(is_pickled(carried) for carried, _ in parts):
        found = entry_columns(table.shape, [read_entry(table.shape, key, row) for key, row in rows])
    if not any(is_pickled(raw) for _, raw in parts) and not _any_pickles(elements):
        found["value"] = values_of(rows, elements)
    typed = {name: array for name, values in found.items() if (array := plain_array(values)) is not None}
    declared = _as_declared(table, found.get("value"))
    if declared is not None:
        typed["value"] = declared
    types = {name: array.type for name, array in typed.items()}
    if declared is not None and table.schema is not None:
        types["value"] = shown_type(declared.type, table.schema.layout)
    names = [*entry_columns(table.shape, []), "value"]
    length = sum(len(key) + len(row) for key, row in rows)
    outline = Outline(
        table.name,
        table.shape,
        len(rows),
        length,
        pa.schema(types),
        tuple(name for name in names if name not in typed),
        table.schema,
        declared is not None,
    )

    def unpickle() -> dict[str, list[Any]]:
        with stand_ins():
            block = block_of(table, rows, elements)
        return {**entry_columns(table.shape, block.entries), "value": block.values}

    everything = pa.array([True] * len(rows))
    return Block(outline, pa.RecordBatch.from_pydict(typed), everything, unpickle)


def _any_pickles(elements: ElementLists) -> bool:
    return any(holds_pickles(row) for rows in elements.values() for _, row in rows)


def _as_declared(table: TableInfo, values: list[Any] | None) -> pa.Array | None:
    """The column of a declared type, as blocks of savepoints have it."""
    return None if values is None or table.schema is None else encode(values, table.schema.layout)


def entry_columns(shape: EntryShape, entries: list[Any]) -> dict[str, list[Any]]:
    """The parts of entries by name."""
    names = shape.value.split(",")
    if shape is EntryShape.KEY:
        return {"key": entries}
    return {name: [entry[place] for entry in entries] for place, name in enumerate(names)}
