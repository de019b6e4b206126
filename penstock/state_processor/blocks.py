"""From a piece of keyed state to blocks of rows: the one place that knows how pieces are stored.

:func:`blocks` reads a piece through and verifies it; :func:`outlines` says what is in it.  Another kind of
piece is plugged in with one function, from store and handle to an iterator of blocks, in :data:`OPENERS`.
Nothing is unpickled here: :meth:`Block.columns` does when it is told that the source is trusted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.core.errors import CorruptSnapshotError, SnapshotError
from penstock.core.handles import Blob, KeyedHandle, NativeHandle
from penstock.core.stand_ins import loads_anywhere
from penstock.snapshot.recovery import signing_of
from penstock.snapshot.storage import SnapshotStore
from penstock.state.backend import EntryShape
from penstock.state.chunks import KEY_GROUP
from penstock.state.files import MAX_GROUP, StateBlocks, block_head
from penstock.state.schema import StateSchema
from penstock.state_processor.block import Block, Outline
from penstock.state_processor.layouts import shown_type
from penstock.state_processor.rocksdb import rocksdb_blocks

_PEEK = 16 * 1024
"""Bytes read at the start of a block, to see its header and the schema behind it."""

_TOO_SHORT = (struct.error, ValueError, RecursionError, OSError, pa.ArrowInvalid)


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
