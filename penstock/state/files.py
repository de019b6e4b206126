"""Keyed state as bytes: a sequence of self-describing blocks (see ``docs/format.md``).

::

    block := u32 header length | header (JSON) | u64 body length | body

Each block holds up to :data:`CHUNK` entries of one table, or one batch of a chunk store, with the key
group of every row, so a reader takes the rows of its own key-group range and leaves the rest.  Columns of a
declared type are typed Arrow columns, and so are those whose values share a plain type (int, float, str,
bytes, bool); others are pickled and the header says so.  Blocks are small on purpose: between two of them
the interpreter lock changes hands, so writing a snapshot does not stop the task.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.error_codes import Code
from penstock.core.errors import CorruptSnapshotError, KeyError_, SnapshotError
from penstock.core.keygroups import hash_values, key_groups
from penstock.core.keys import canonical_keys
from penstock.core.packed_rows import dumps_columns
from penstock.core.pickling import stored
from penstock.core.unpickling import loads_stored
from penstock.state.backend import EntryShape, FrozenTable, TableBlock
from penstock.state.chunks import KEY_GROUP, FrozenChunks
from penstock.state.columns import decode, encode
from penstock.state.schema import StateSchema

MAX_GROUP = 2**15 - 1
GroupRange = tuple[int, int]
"""First and last key group, both included."""

CHUNK = 4096
_HEADER = struct.Struct("<I")
_BODY = struct.Struct("<Q")
_ARROW_TYPES: dict[type, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    bool: pa.bool_(),
    type(None): pa.null(),
}


def write_blocks(
    frozen: Iterable[FrozenTable | FrozenChunks], max_parallelism: int, owned: GroupRange | None = None
) -> Iterator[tuple[bytes, bool]]:
    """The blocks of frozen state, in pieces, each with whether it holds pickled values.

    ``owned`` are the key groups that the state may be in: a key of another one has changed since it came.
    """
    for part in frozen:
        if isinstance(part, FrozenChunks):
            for batch in part.record_batches():
                body = _to_ipc(batch)  # as it is: joined to its head it would be copied once more
                yield _head({"chunks": part.name, "rows": batch.num_rows}, body), False
                yield body, False
            continue
        items = _kept(part)
        while chunk := list(islice(items, CHUNK)):
            yield _table_block(part, chunk, max_parallelism, owned)


def _kept(part: FrozenTable) -> Iterator[tuple[Any, Any]]:
    """The entries, without what has expired if the state is to be stored so."""
    trim = None if part.form is None else part.form.trim
    if trim is None:
        yield from part.items()
        return
    for entry, value in part.items():
        left = trim(value)
        if left is not None:
            yield entry, left


def _table_block(
    part: FrozenTable, chunk: list[tuple[Any, Any]], max_parallelism: int, owned: GroupRange | None
) -> tuple[bytes, bool]:
    columns = _columns(part.shape, chunk)
    groups = key_groups(hash_values(columns["key"]), max_parallelism)
    if owned is not None:
        others = np.nonzero((groups < owned[0]) | (groups > owned[1]))[0]
        if len(others):
            raise SnapshotError(
                f"state {part.name!r} has {len(others)} keys that belong to another subtask, such as "
                f"{columns['key'][int(others[0])]!r}: they were changed after they had become keys. Key by "
                "values that nothing changes, such as a tuple of numbers and strings"
            )
    arrays: dict[str, pa.Array] = {KEY_GROUP: pa.array(groups, pa.int32())}
    opaque: dict[str, list[Any]] = {}
    header: dict[str, Any] = {"table": part.name, "shape": part.shape.name, "rows": len(chunk)}
    if part.form is not None:
        header["state"] = part.form.schema.to_json()
        typed = encode(columns["value"], part.form.schema.layout)
        if typed is not None:
            arrays["value"] = typed
            header["typed"] = ["value"]
            del columns["value"]
    for name, values in columns.items():
        array = _to_arrow(values)
        if array is None:
            opaque[name] = values
        else:
            arrays[name] = array
    body = _to_ipc(pa.RecordBatch.from_pydict(arrays))
    if opaque:
        header["arrow"] = len(body)
        header["pickled"] = sorted(opaque)
        body += stored(opaque, f"state {part.name!r}", dumps_columns)
    return _block(header, body), bool(opaque)


def _columns(shape: EntryShape, chunk: list[tuple[Any, Any]]) -> dict[str, list[Any]]:
    values = [value for _, value in chunk]
    if shape is EntryShape.KEY:
        return {"key": [entry for entry, _ in chunk], "value": values}
    if shape is EntryShape.NAMESPACED:
        return {
            "key": [entry[0] for entry, _ in chunk],
            "namespace": [entry[1] for entry, _ in chunk],
            "value": values,
        }
    return {
        "time": [entry[0] for entry, _ in chunk],
        "key": [entry[1] for entry, _ in chunk],
        "namespace": [entry[2] for entry, _ in chunk],
        "value": values,
    }


def _to_arrow(values: list[Any]) -> pa.Array | None:
    """A typed array if all values share one plain type, else ``None``."""
    kinds = set(map(type, values))
    if len(kinds) != 1:
        return None
    wanted = _ARROW_TYPES.get(kinds.pop())
    if wanted is None:
        return None
    try:
        return pa.array(values, wanted)
    except (pa.ArrowInvalid, OverflowError, UnicodeError):
        return None


def _to_ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _block(header: dict[str, Any], body: bytes) -> bytes:
    return _head(header, body) + body


def _head(header: dict[str, Any], body: bytes) -> bytes:
    """What stands in front of a block's body."""
    head = json.dumps(header, separators=(",", ":")).encode()
    return b"".join((_HEADER.pack(len(head)), head, _BODY.pack(len(body))))


class StateBlocks:
    """Reads what :func:`write_blocks` wrote, cut to a range of key groups (inclusive)."""

    def __init__(
        self,
        data: bytes,
        first_group: int,
        last_group: int,
        owned: GroupRange | None = None,
        rehashed: int | None = None,
    ) -> None:
        """``owned`` are the key groups that may be in ``data``; with another one in it, it is refused.

        ``rehashed`` is the number of key groups, if pickled keys were stored by older formulas: such rows are
        wherever the formulas of today have them.
        """
        self._data = memoryview(data)
        self._first = first_group
        self._last = last_group
        self._owned = owned
        self._rehashed = rehashed

    def tables(self) -> Iterator[TableBlock]:
        """The table blocks, read as far as they are within the range."""
        for header, body in self._blocks():
            if "table" in header:
                with _refusing_nonsense():
                    arrow_length = int(header.get("arrow", len(body)))
                    batch = _from_ipc(body[:arrow_length])
                opaque = _unpickled(header, body[arrow_length:]) if "pickled" in header else {}
                with _refusing_nonsense():
                    found = self._table(header, batch, opaque)
                yield found

    def chunk_batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """For each chunk-store block: store name and the rows within the range."""
        for header, body in self._blocks():
            if "chunks" in header:
                with _refusing_nonsense():
                    batch = _from_ipc(body)
                    kept = batch.filter(self._mask(batch))
                    name = _name_in(header, "chunks")
                if kept.num_rows:
                    yield name, kept

    def parts(self) -> Iterator[tuple[dict[str, Any], pa.RecordBatch, pa.Array, memoryview]]:
        """For each block: header, typed columns, which rows are within the range, and the pickled rest.

        Nothing is unpickled.
        """
        for header, body in self._blocks():
            with _refusing_nonsense():
                arrow_length = int(header.get("arrow", len(body)))
                batch = _from_ipc(body[:arrow_length])
                mask = self._mask(batch)
            yield header, batch, mask, body[arrow_length:]

    def _mask(self, batch: pa.RecordBatch) -> pa.Array:
        groups = batch.column(KEY_GROUP)
        if self._owned is not None:
            others = len(groups) - int(pc.sum(_within(groups, *self._owned)).as_py() or 0)
            if others:
                raise rows_out_of_range(others)
        return _within(groups, self._first, self._last)

    def _kept(self, batch: pa.RecordBatch, opaque: dict[str, list[Any]]) -> npt.NDArray[np.int64]:
        """The numbers of the rows within the range."""
        if self._rehashed is None or "key" not in opaque:
            return np.nonzero(self._mask(batch).to_numpy(zero_copy_only=False))[0]
        groups = key_groups(hash_values(canonical_keys(opaque["key"])), self._rehashed)
        return np.nonzero((groups >= self._first) & (groups <= self._last))[0]

    def _table(
        self, header: dict[str, Any], batch: pa.RecordBatch, opaque: dict[str, list[Any]]
    ) -> TableBlock:
        schema = StateSchema.from_json(header["state"]) if "state" in header else None
        typed = header.get("typed", ())
        keep = self._kept(batch, opaque)
        everything = len(keep) == batch.num_rows

        def column(name: str) -> list[Any]:
            if name in opaque:
                values: list[Any] = opaque[name]
                return values if everything else [values[i] for i in keep.tolist()]
            array = batch.column(name) if everything else batch.column(name).take(pa.array(keep))
            if name in typed and schema is not None:
                return decode(array, schema.layout)
            found: list[Any] = array.to_pylist()
            return found

        shape = EntryShape[header["shape"]]
        entries = column("key")
        if shape is EntryShape.NAMESPACED:
            entries = list(zip(entries, column("namespace"), strict=True))
        elif shape is EntryShape.TIMER:
            entries = list(zip(column("time"), entries, column("namespace"), strict=True))
        values = column("value")
        if len(entries) != len(values):
            raise ValueError("columns of different lengths")
        return TableBlock(_name_in(header, "table"), shape, entries, values, schema)

    def _blocks(self) -> Iterator[tuple[dict[str, Any], memoryview]]:
        position, end = 0, len(self._data)
        while position < end:
            try:
                header, start, after = block_head(self._data, position)
                if after > end:
                    raise ValueError("a block is longer than the file")
            except (struct.error, ValueError, RecursionError) as error:
                raise CorruptSnapshotError(f"a state file is not readable: {error}") from error
            yield header, self._data[start:after]
            position = after


def rows_out_of_range(count: int) -> SnapshotError:
    """The error for rows that no subtask would take."""
    return SnapshotError(
        f"{count} rows of a piece of keyed state are in key groups that the piece does not have: no subtask "
        "would take them. The snapshot was written by something else, or by a program whose keys changed "
        "while they were in use; start from an older one, or write it anew with the state processor"
    )


def _within(groups: pa.Array, first: int, last: int) -> pa.Array:
    return pc.and_(
        pc.greater_equal(groups, pa.scalar(first, groups.type)),
        pc.less_equal(groups, pa.scalar(last, groups.type)),
    )


def block_head(data: memoryview, position: int) -> tuple[dict[str, Any], int, int]:
    """Header of the block at ``position``, and where its body begins and ends.

    The end may lie beyond ``data``.  Bytes that are no block, or too few of them, are a ``struct.error``,
    ``ValueError`` or ``RecursionError``.
    """
    (head_length,) = _HEADER.unpack_from(data, position)
    start = position + _HEADER.size + head_length
    header = json.loads(bytes(data[position + _HEADER.size : start]))
    if not isinstance(header, dict):
        raise ValueError("a header is not an object")
    (body_length,) = _BODY.unpack_from(data, start)
    return header, start + _BODY.size, start + _BODY.size + body_length


def _unpickled(header: dict[str, Any], data: memoryview) -> dict[str, list[Any]]:
    try:
        found: dict[str, list[Any]] = loads_stored(data)
    except (AttributeError, ImportError) as error:
        raise SnapshotError(
            f"state {header['table']!r} is stored pickled and names a class that this program does not have: "
            f"{error}. Bring the class back under its old name; state with a declared type is not pickled, "
            "so neither classes nor their modules matter to it",
            code=Code.CLASS_GONE,
        ) from error
    return found


def _from_ipc(body: memoryview) -> pa.RecordBatch:
    """The batch, checked through: Arrow believes its lengths and offsets, and would read beyond the bytes."""
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        batch = next(iter(reader))
    batch.validate(full=True)
    return batch


def _name_in(header: dict[str, Any], kind: str) -> str:
    name = header[kind]
    if not isinstance(name, str):
        raise ValueError(f"the name of a block is {name!r}")
    return name


@contextmanager
def _refusing_nonsense() -> Iterator[None]:
    """Whatever goes wrong in here, the bytes are to blame; unpickling stays outside."""
    try:
        yield
    except (KeyError_, SnapshotError):
        raise
    except Exception as error:
        raise CorruptSnapshotError(f"a block of a state file is not readable: {error!r}") from error
