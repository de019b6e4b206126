"""The own files of RocksDB, which its checkpoints hold, as blocks.

Rows tell by their first byte whether something in them is pickled, so plain ones are read without trust.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.core.handles import NativeHandle
from penstock.core.stand_ins import stand_ins
from penstock.snapshot.storage import SnapshotStore
from penstock.state.rocks.files import TableInfo
from penstock.state.rocks.keys import decode_entry
from penstock.state.rocks.native import (
    SpreadRows,
    block_of,
    chunks,
    read_native,
    rows_in_range,
    spread_rows,
)
from penstock.state.rocks.values import OPAQUE, decode, split_entry
from penstock.state.table import EntryShape
from penstock.state_processor.block import Block, Outline
from penstock.state_processor.values import plain_array


def rocksdb_blocks(store: SnapshotStore, handle: NativeHandle) -> Iterator[Block]:
    """Rows of RocksDB's own files, which are downloaded for it, some thousand at a time."""
    first, last = handle.key_groups
    with read_native(handle, store, first, last).opened() as (source, tables):
        for table in tables:
            if not table.elements:
                for rows in chunks(rows_in_range(source, table, first, last)):
                    yield _rocksdb_block(table, rows, spread_rows(source, table, tables, rows))


def _rocksdb_block(table: TableInfo, rows: list[tuple[bytes, bytes]], spread: SpreadRows) -> Block:
    found: dict[str, list[Any]] = {}
    parts = [split_entry(row) for _, row in rows]
    if not any(carried for carried, _ in parts):
        found = entry_columns(table.shape, [decode_entry(table.shape, key) for key, _ in rows])
    if not spread and not any(raw[0] in OPAQUE for _, raw in parts):
        found["value"] = [decode(raw) for _, raw in parts]
    typed = {name: array for name, values in found.items() if (array := plain_array(values)) is not None}
    names = [*entry_columns(table.shape, []), "value"]
    length = sum(len(key) + len(row) for key, row in rows)
    outline = Outline(
        table.name,
        table.shape,
        len(rows),
        length,
        pa.schema({name: array.type for name, array in typed.items()}),
        tuple(name for name in names if name not in typed),
        table.schema,
    )

    def unpickle() -> dict[str, list[Any]]:
        with stand_ins():
            block = block_of(table, rows, spread)
        return {**entry_columns(table.shape, block.entries), "value": block.values}

    everything = pa.array([True] * len(rows))
    return Block(outline, pa.RecordBatch.from_pydict(typed), everything, unpickle)


def entry_columns(shape: EntryShape, entries: list[Any]) -> dict[str, list[Any]]:
    """The parts of entries by name."""
    names = shape.value.split(",")
    if shape is EntryShape.KEY:
        return {"key": entries}
    return {name: [entry[place] for entry in entries] for place, name in enumerate(names)}
