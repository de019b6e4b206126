"""From a piece of keyed state to blocks of rows: the one place that knows how pieces are stored.

:func:`blocks` reads a piece through and verifies it; :func:`outlines` says what is in it.  Another kind of
piece is plugged in with one function, from store and handle to an iterator of blocks, in :data:`OPENERS`.
Nothing is unpickled here: :meth:`Block.columns` does when it is told that the source is trusted.

Keyed state, whatever it is stored as, is made of blocks of rows, of one state each.  In the own files of
RocksDB, which its checkpoints hold, rows tell by their first bytes whether something in them is pickled, so
others are read without trust.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.core.errors import CorruptSnapshotError, SnapshotError
from penstock.core.handles import Blob, KeyedHandle, NativeHandle
from penstock.core.stand_ins import loads_anywhere, stand_ins
from penstock.snapshot.recovery import signing_of
from penstock.snapshot.storage import SnapshotStore
from penstock.state.backend import EntryShape
from penstock.state.chunks import KEY_GROUP
from penstock.state.columns import encode
from penstock.state.files import MAX_GROUP, StateBlocks, block_head
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
from penstock.state.schema import StateSchema
from penstock.state_processor.values import plain_array, shown, shown_type

_PEEK = 16 * 1024
"""Bytes read at the start of a block, to see its header and the schema behind it."""
_TOO_SHORT = (struct.error, ValueError, RecursionError, OSError, pa.ArrowInvalid)


@dataclass(frozen=True, slots=True)
class Outline:
    """What a block holds, without its rows."""

    name: str
    shape: EntryShape | None
    """``None``: a batch of a columnar store."""
    rows: int
    length: int
    """Bytes of the block."""
    typed: pa.Schema
    """The columns that are Arrow."""
    pickled: tuple[str, ...]
    """The columns that are not."""
    schema: StateSchema | None = None
    """How the program declared the state, if it did."""
    declared: bool = False
    """Whether the values are stored as declared."""

    def column_names(self) -> list[str]:
        """All columns, in the order of reading."""
        if self.shape is None:
            return list(self.typed.names)
        named = {"key": "key value", "key,namespace": "key namespace value"}
        return named.get(self.shape.value, "time key namespace").split()


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one state."""

    outline: Outline
    batch: pa.RecordBatch
    """Typed columns of all rows."""
    mask: pa.Array
    """Which rows belong to the piece."""
    unpickle: Callable[[], dict[str, list[Any]]]
    """Loads the pickled columns of all rows; called only if the source is trusted."""

    def columns(self, wanted: list[str], trusted: bool) -> dict[str, pa.Array | list[Any]]:
        """The rows of the wanted columns: typed ones as arrays, pickled ones as lists of Python values."""
        everything = self.mask.true_count == len(self.mask)
        opaque = [name for name in wanted if name in self.outline.pickled]
        if opaque and not trusted:
            raise untrusted(f"state {self.outline.name!r}", opaque)
        unpickled = self.unpickle() if opaque else {}
        keep = None if everything else self.mask.to_pylist()
        found: dict[str, pa.Array | list[Any]] = {}
        for name in wanted:
            if name in opaque:
                values = unpickled[name]
                found[name] = values if keep is None else [v for v, k in zip(values, keep, strict=True) if k]
            elif name in self.batch.schema.names:
                array = self.batch.column(name)
                array = array if everything else array.filter(self.mask)
                found[name] = self._shown(name, array)
            else:
                found[name] = pa.nulls(self.mask.true_count)
        return found

    def _shown(self, name: str, array: pa.Array) -> pa.Array:
        schema = self.outline.schema
        stored_as_declared = name == "value" and self.outline.declared and schema is not None
        return shown(array, schema.layout) if stored_as_declared and schema is not None else array


def untrusted(what: str, columns: list[str]) -> SnapshotError:
    """The error for pickled values that nobody has vouched for."""
    return SnapshotError(
        f"{what} holds pickled Python objects ({', '.join(columns)}), and unpickling runs whatever code the "
        f"writer of the snapshot put there. If you know who wrote it, say so: trusted=True, "
        f'option("trusted", "true"), or --trusted'
    )


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


Opener = Callable[[SnapshotStore, Any], Iterator[Block]]


def blocks(store: SnapshotStore, handle: object) -> Iterator[Block]:
    """All blocks of a piece of keyed state."""
    opener = OPENERS.get(type(handle))
    if opener is None:
        kept_by = getattr(handle, "backend", type(handle).__name__)
        raise SnapshotError(
            f"this snapshot holds state in the own files of {kept_by}, which cannot be read here; take a "
            f"savepoint of the job and read that"
        )
    return opener(store, handle)


def outlines(store: SnapshotStore, handle: object) -> Iterator[Outline]:
    """What is in a piece of keyed state.

    Of stored files only the heads of blocks are read, unless a key is set: then nothing of a file is believed
    that was not verified.
    """
    if isinstance(handle, KeyedHandle) and signing_of(None).key is None:
        return _peeked(store, handle.blob)
    return (block.outline for block in blocks(store, handle))


def _stored_blocks(store: SnapshotStore, handle: KeyedHandle) -> Iterator[Block]:
    found = StateBlocks(store.read_blob(handle.blob), 0, MAX_GROUP)
    for header, batch, mask, rest in found.parts():
        length = batch.nbytes + len(rest)
        yield Block(_outline(header, batch.schema, length), batch, mask, partial(loads_anywhere, rest))


OPENERS: dict[type, Opener] = {KeyedHandle: _stored_blocks, NativeHandle: rocksdb_blocks}
"""Kind of piece to the function that reads it."""


def _peeked(store: SnapshotStore, blob: Blob) -> Iterator[Outline]:
    position = 0
    while position < blob.length:
        header, schema, after = _peek(store, blob, position)
        yield _outline(header, schema, after - position)
        position = after


def _peek(store: SnapshotStore, blob: Blob, position: int) -> tuple[dict[str, Any], pa.Schema, int]:
    """Header and schema of the block at ``position``, and where the next one begins."""
    left = blob.length - position
    size = min(_PEEK, left)
    while True:
        data = _range(store, blob, position, size)
        try:
            header, start, after = block_head(memoryview(data), 0)
            schema = pa.ipc.read_schema(pa.py_buffer(data[start:]))
        except _TOO_SHORT as error:
            if size == left:
                raise CorruptSnapshotError(f"a block of a state file is not readable: {error}") from error
            size = min(8 * size, left)
            continue
        return header, schema, position + after


def _range(store: SnapshotStore, blob: Blob, position: int, size: int) -> bytes:
    if blob.inline is not None:
        return blob.inline[position : position + size]
    assert blob.path is not None
    return store.read(blob.path, blob.offset + position, size)


def _outline(header: dict[str, Any], schema: pa.Schema, length: int) -> Outline:
    try:
        rows = int(header["rows"])
        names = [name for name in schema.names if name != KEY_GROUP]
        typed = {name: schema.field(name).type for name in names}
        if "chunks" in header:
            return Outline(str(header["chunks"]), None, rows, length, pa.schema(typed), ())
        stated = StateSchema.from_json(header["state"]) if "state" in header else None
        declared = stated is not None and "value" in header.get("typed", ())
        if declared and stated is not None:
            typed["value"] = shown_type(typed["value"], stated.layout)
        outline = Outline(
            str(header["table"]),
            EntryShape[header["shape"]],
            rows,
            length,
            pa.schema(typed),
            tuple(header.get("pickled", ())),
            stated,
            declared,
        )
        nowhere = set(outline.column_names()) - set(typed) - set(outline.pickled)
        if nowhere:
            raise ValueError(f"no column {', '.join(sorted(nowhere))}")
        return outline
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptSnapshotError(f"a block of a state file has a header nobody knows: {error!r}") from error
