"""Rows of key and value as state files.  Runs on the driver, or inside Spark's tasks for DataFrames.

A file belongs to one operator and one state and holds the key groups of one range.

Bytes of an existing snapshot are taken over into a savepoint's own directory, edited on the way.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import SnapshotError
from penstock.core.handles import Blob, KeyedHandle, KeyedPiece
from penstock.core.ids import SubtaskIndex
from penstock.core.keygroups import hash_values, key_group_range, key_groups, owner
from penstock.core.keys import canonical_keys
from penstock.operators.window.windows import CountWindow, TimeWindow
from penstock.snapshot.storage import SnapshotStore
from penstock.state.backend import EntryShape, Table
from penstock.state.columns import decode, encode
from penstock.state.files import write_blocks
from penstock.state.heap.backend import HeapTable
from penstock.state.rocks.files import NativeBlocks
from penstock.state.schema import StateSchema, type_lines
from penstock.state_processor.blocks import untrusted
from penstock.state_processor.editing import Edits, converted, edited, frozen
from penstock.state_processor.values import stored, to_python

DIRECTORY = "state"
"""Where state files are, below a savepoint's directory."""

STATE_FILE = re.compile(rf"{DIRECTORY}/[0-9a-f]{{32}}\.state")
"""Paths of state files."""

COLUMNS = {
    EntryShape.KEY: ("key", "value"),
    EntryShape.NAMESPACED: ("key", "namespace", "value"),
    EntryShape.TIMER: ("time", "key", "namespace"),
}


@dataclass(frozen=True, slots=True)
class Target:
    """The state that is written, and how its key groups are divided among files. Picklable."""

    operator: str
    state: str
    shape: EntryShape
    parallelism: int
    max_parallelism: int
    schema: StateSchema | None = None
    """What the job's descriptor declares, if it is known: values are then stored as that type."""

    def parts(self, keys: Sequence[Any]) -> Any:
        """The number of the file that each key belongs into."""
        groups = key_groups(hash_values(keys), self.max_parallelism)
        return owner(groups, self.parallelism, self.max_parallelism)

    def check(self, values: list[Any]) -> None:
        """Refuse values that are not what the descriptor declares: the job could not use them."""
        if self.schema is None or "PICKLED" in json.dumps(self.schema.to_json()):
            return
        if encode(values, self.schema.layout) is None:
            shown = next((v for v in values if encode([v], self.schema.layout) is None), values[0])
            raise self.misfit(repr(shown))

    def misfit(self, what: str) -> SnapshotError:
        """The error for values of a wrong type."""
        declared = "" if self.schema is None else " ".join(type_lines(self.schema.layout))
        return SnapshotError(f"{self}: {what} cannot be what its descriptor declares, {declared}")

    def __str__(self) -> str:
        return f"state {self.state!r} of operator {self.operator!r}"


def new_path() -> str:
    """A path that no state file has yet."""
    return f"{DIRECTORY}/{uuid.uuid4().hex}.state"


def shape_of(columns: Iterable[str], target: str) -> EntryShape:
    """The shape of a state from the columns that its rows have."""
    names = set(columns)
    for shape in (EntryShape.TIMER, EntryShape.NAMESPACED, EntryShape.KEY):
        optional = {"namespace"} if shape is EntryShape.TIMER else set()
        if set(COLUMNS[shape]) - optional <= names <= set(COLUMNS[shape]):
            return shape
    raise SnapshotError(
        f"{target}: rows have the columns {', '.join(sorted(names))}; keyed state takes key and value, state "
        f"of windows key, namespace and value, timers time and key (and namespace)"
    )


def keys_of(batch: pa.Table | pa.RecordBatch) -> list[Any]:
    """The keys as the job will see them: structs are tuples."""
    return canonical_keys(to_python(batch.column("key"), structs_as_tuples=True))


def entries_of(target: Target, batch: pa.Table | pa.RecordBatch) -> list[tuple[Any, Any]]:
    """Entries and values, as a table of state holds them."""
    keys, shape = keys_of(batch), target.shape
    if shape is EntryShape.KEY:
        return list(zip(keys, _values(target, batch), strict=True))
    named = "namespace" in batch.schema.names
    namespaces = _windows(batch.column("namespace")) if named else [None] * len(keys)
    if shape is EntryShape.NAMESPACED:
        pairs = zip(keys, namespaces, strict=True)
        return list(zip(pairs, _values(target, batch), strict=True))
    times = [int(time) for time in batch.column("time").to_pylist()]
    return [(entry, True) for entry in zip(times, keys, namespaces, strict=True)]


def _values(target: Target, batch: pa.Table | pa.RecordBatch) -> list[Any]:
    column = batch.column("value")
    if target.schema is None:
        return to_python(column)
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    try:
        return decode(stored(whole), target.schema.layout)
    except Exception as error:
        raise target.misfit(f"values of type {column.type}") from error


def _windows(column: pa.Array) -> list[Any]:
    """Namespaces: structs of start and end are time windows, of id count windows."""
    values = to_python(column, structs_as_tuples=True)
    if not pa.types.is_struct(column.type):
        return values
    kinds: dict[tuple[str, ...], Any] = {("start", "end"): TimeWindow, ("id",): CountWindow}
    kind = kinds.get(tuple(field.name for field in column.type))
    return values if kind is None else [None if value is None else kind(*value) for value in values]


def filled(target: Target, rows: Iterable[tuple[Any, Any]]) -> Table:
    """A table with these entries; one that comes twice is an error, since one of them would be lost."""
    table = HeapTable(target.state, target.shape)
    count = 0
    for entry, value in rows:
        if value is None:
            raise SnapshotError(
                f"{target}: key {target.shape.key_of(entry)!r} has no value (null); leave such rows out"
            )
        table.put(entry, value)
        count += 1
    if len(table) != count:
        raise SnapshotError(
            f"{target}: {_twice(target, rows)} comes twice; bring each key down to one row first"
        )
    return table


def _twice(target: Target, rows: Iterable[tuple[Any, Any]]) -> str:
    seen: set[Any] = set()
    for entry, _ in rows:
        if entry in seen:
            return f"key {target.shape.key_of(entry)!r}"
        seen.add(entry)
    return "a key"


def write_part(
    store: SnapshotStore, target: Target, part: int, rows: list[tuple[Any, Any]]
) -> KeyedHandle | None:
    """Write one file; ``None`` if there is nothing to write.  Its name is new, so a repeated task is safe."""
    if not rows:
        return None
    target.check([value for _, value in rows])
    table = filled(target, rows)
    pickled = False

    def data() -> Iterable[bytes]:
        nonlocal pickled
        for block, opaque in write_blocks([frozen(table, target.schema)], target.max_parallelism):
            pickled = pickled or opaque
            yield block

    blob = store.write_file(new_path(), data())
    groups = key_group_range(SubtaskIndex(part), target.parallelism, target.max_parallelism)
    return KeyedHandle(blob, groups, pickled)


def write_rows(
    store: SnapshotStore, target: Target, keys: list[Any], rows: list[tuple[Any, Any]]
) -> dict[int, KeyedHandle]:
    """Divide rows among files and write them; gives the handle of each file by its number."""
    if not rows:
        return {}
    owners = target.parts(keys)
    handles: dict[int, KeyedHandle] = {}
    for part in np.unique(owners).tolist():
        places = np.nonzero(owners == part)[0].tolist()
        handle = write_part(store, target, part, [rows[place] for place in places])
        if handle is not None:
            handles[part] = handle
    return handles


class Copier:
    """Copies blobs from one store to another; what is carried in the manifest stays there."""

    def __init__(self, source: SnapshotStore, target: SnapshotStore, trusted: bool) -> None:
        self._source = source
        self._target = target
        self._trusted = trusted

    def blob(self, blob: Blob) -> Blob:
        """The same bytes, verified, in the new place."""
        if blob.inline is not None:
            return blob
        return self._written([self._source.read_blob(blob)])

    def keyed(self, pieces: Iterable[KeyedPiece], edits: Edits, max_parallelism: int) -> list[KeyedPiece]:
        """Pieces of keyed state after the edits; empty ones are left out."""
        found: list[KeyedPiece] = []
        for piece in pieces:
            if isinstance(piece, KeyedHandle) and not edits:
                found.append(KeyedHandle(self.blob(piece.blob), piece.key_groups, piece.pickled))
                continue
            handle = self._rewritten(piece, edits, max_parallelism)
            if handle.blob.length:
                found.append(handle)
        return found

    def _rewritten(self, piece: KeyedPiece, edits: Edits, max_parallelism: int) -> KeyedHandle:
        pickled = False

        def data() -> Iterator[bytes]:
            nonlocal pickled
            for block, opaque in self._blocks(piece, edits, max_parallelism):
                pickled = pickled or opaque
                yield block

        return KeyedHandle(self._written(data()), piece.key_groups, pickled)

    def _blocks(self, piece: KeyedPiece, edits: Edits, max_parallelism: int) -> Iterator[tuple[bytes, bool]]:
        if isinstance(piece, KeyedHandle):
            data = self._source.read_blob(piece.blob)
            return edited(data, edits, max_parallelism, self._trusted)
        if not self._trusted:
            raise untrusted(f"a checkpoint of the backend {piece.backend}", ["keyed state"])
        tables = NativeBlocks(piece, self._source, *piece.key_groups).tables()
        return converted(tables, edits, max_parallelism)

    def _written(self, data: Iterable[bytes]) -> Blob:
        return self._target.write_file(new_path(), data)
