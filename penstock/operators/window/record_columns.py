"""Records of windows as the columns they came in: what windows keep of a stream of columns.

The records of a window lie in batches one behind the other, in order of arrival, and belong to no key until
the window fires: then they are sorted by key, and become rows a piece at a time.  A row that is kept is
several objects, which a snapshot visits and which have left the processor's caches when they are looked at;
of columns a snapshot copies references.

In a snapshot each window has blocks of a chunk store with its bounds beside its columns; the schema's
metadata says which columns are the key, and whether the window has fired and waits for late records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.errors import CorruptSnapshotError
from penstock.operators.window.windows import TimeWindow
from penstock.state.chunks import KEY_GROUP, PANE, ChunkStore, FrozenChunks, groups_of

STORE_NAME = "window-records"
WINDOW_END = "__window_end"
_MARK_FIELDS = (
    pa.field(KEY_GROUP, pa.int32()),
    pa.field(PANE, pa.int64()),
    pa.field(WINDOW_END, pa.int64()),
)
MARKS = frozenset(field.name for field in _MARK_FIELDS)
"""Columns of a snapshot beside those of the records."""
_KEY_COLUMNS = b"penstock.key_columns"
_FIRED = b"penstock.fired"
_FAN_IN = 16
_MOST_BYTES = 1 << 28
"""How much is joined to one batch."""
_PIECE_ROWS = 8192
"""How many records are made rows at a time; those of one key are never divided."""
_FILE_ROWS = 65536

Numbers = npt.NDArray[np.int64]
Group = tuple[Any, list[Any]]
"""A key and its records."""


class Records:
    """The records of one window; all batches have the same columns and key columns."""

    __slots__ = ("_batches", "fired", "keys", "schema")

    def __init__(self, schema: pa.Schema, keys: tuple[str, ...], fired: bool = False) -> None:
        self.schema = schema.remove_metadata()
        self.keys = keys
        self.fired = fired
        self._batches: list[tuple[int, pa.RecordBatch]] = []
        """How often each was joined, and the batch."""

    def fit(self, schema: pa.Schema, keys: tuple[str, ...]) -> bool:
        """Whether a batch has the same columns."""
        return self.keys == keys and self.schema.equals(schema)

    def append(self, columns: pa.RecordBatch) -> None:
        """Add a batch, without what else its buffers hold."""
        if columns.get_total_buffer_size() > 2 * columns.nbytes:
            columns = columns.take(pa.array(np.arange(columns.num_rows)))
        self._batches.append((0, columns.replace_schema_metadata(None)))
        while True:
            last = self._batches[-_FAN_IN:]
            if len(last) < _FAN_IN or last[0][0] != last[-1][0]:
                return
            batches = [batch for _, batch in last]
            if sum(batch.nbytes for batch in batches) > _MOST_BYTES:
                return
            self._batches[-_FAN_IN:] = [(last[0][0] + 1, pa.concat_batches(batches))]

    def batches(self) -> list[pa.RecordBatch]:
        """All of them, in order of arrival."""
        return [batch for _, batch in self._batches]

    def groups(self) -> Iterator[Group]:
        """Each key in order of its first record, with its records in order of arrival."""
        pieces, order, bounds = self._sorted()
        keys = iter(self._keys(pieces, order[bounds[:-1]]))
        first, ends = 0, bounds[1:]
        while first < len(ends):
            start = int(bounds[first])
            behind = max(first + 1, int(np.searchsorted(ends, start + _PIECE_ROWS, "right")))
            rows = pieces.read(order[start : int(bounds[behind])], Batch.to_rows)
            for low, high in zip(bounds[first:behind].tolist(), ends[first:behind].tolist(), strict=True):
                yield next(keys), rows[low - start : high - start]
            first = behind

    def every_key(self) -> list[Any]:
        """Each key in order of its first record."""
        pieces, order, bounds = self._sorted()
        return self._keys(pieces, order[bounds[:-1]])

    def _sorted(self) -> tuple[_Pieces, Numbers, Numbers]:
        """All records, their places in order of keys, and where in it each key begins, and the end."""
        pieces = _Pieces(self.batches())
        codes = _codes(pa.Table.from_batches(pieces.batches), self.keys)
        order = np.argsort(codes.astype(np.uint16) if codes.max() < 1 << 16 else codes, kind="stable")
        return pieces, order, np.concatenate([[0], np.cumsum(np.bincount(codes))])

    def _keys(self, pieces: _Pieces, places: Numbers) -> list[Any]:
        # Without the other columns; a key may name a column twice.
        names = list(dict.fromkeys(self.keys))
        narrow = _Pieces([batch.select(names) for batch in pieces.batches])
        return narrow.read(
            places, lambda batch: Batch.of_columns(batch.columns, key_columns=self.keys).key_list()
        )


class _Pieces:
    """Batches joined to few; none has more than Arrow can address, which is 2 GB in a column of texts."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        parts: list[list[pa.RecordBatch]] = [[]]
        size = 0
        for batch in batches:
            if parts[-1] and size + batch.nbytes > _MOST_BYTES:
                parts.append([])
                size = 0
            parts[-1].append(batch)
            size += batch.nbytes
        self.batches = [part[0] if len(part) == 1 else pa.concat_batches(part) for part in parts]
        self._starts = np.cumsum([0, *(batch.num_rows for batch in self.batches)])

    def read(self, places: Numbers, read: Callable[[Batch], list[Any]]) -> list[Any]:
        """What ``read`` makes of the records at these places, in that order."""
        if len(self.batches) == 1:
            return read(Batch.of_columns(self.batches[0].take(pa.array(places))))
        found: list[Any] = [None] * len(places)
        numbers = np.searchsorted(self._starts, places, "right") - 1
        for number in np.unique(numbers).tolist():
            mine = np.flatnonzero(numbers == number)
            picked = self.batches[number].take(pa.array(places[mine] - self._starts[number]))
            for place, value in zip(mine.tolist(), read(Batch.of_columns(picked)), strict=True):
                found[place] = value
        return found


def _codes(table: pa.Table, names: tuple[str, ...]) -> Numbers:
    """A number for each row, counted from 0 in order of first rows: equal ones have equal keys."""
    codes: Numbers | None = None
    for name in names:
        found = table.column(name).dictionary_encode().unify_dictionaries()
        parts = [part.indices.to_numpy() for part in found.chunks]
        mine = np.concatenate(parts).astype(np.int64)
        if codes is None:
            codes = mine
            continue
        pairs = codes * (int(mine.max()) + 1) + mine
        _, firsts, codes = np.unique(pairs, return_index=True, return_inverse=True)
        ranks = np.empty(len(firsts), np.int64)
        ranks[np.argsort(firsts)] = np.arange(len(firsts))
        codes = ranks[codes]
    assert codes is not None
    return codes


class RecordColumns(ChunkStore):
    """The records of all windows of a step; register it with ``ctx.keyed.register_chunks``."""

    def __init__(self, max_parallelism: int) -> None:
        super().__init__(STORE_NAME, (), (), pa.concat_tables, max_parallelism)
        self._windows: dict[TimeWindow, list[Records]] = {}

    def windows(self) -> list[TimeWindow]:
        """The windows that hold records, the one that ends first at the head."""
        return sorted(self._windows, key=lambda window: (window.end, window.start))

    def of(self, window: TimeWindow) -> list[Records]:
        """What a window holds; several only behind a restore, of different keys: subtasks had other columns,
        or another time.
        """
        return self._windows.get(window, [])

    def add(
        self, window: TimeWindow, columns: pa.RecordBatch, keys: tuple[str, ...], fired: bool = False
    ) -> None:
        """Add records to a window."""
        held = self._windows.setdefault(window, [])
        for records in held:
            if records.fired is fired and records.fit(columns.schema, keys):
                break
        else:
            records = Records(columns.schema, keys, fired)
            held.append(records)
        records.append(columns)

    def pop(self, window: TimeWindow) -> list[Records]:
        """Take all records of a window out."""
        return self._windows.pop(window, [])

    def clear(self) -> None:
        self._windows.clear()

    def freeze(self) -> FrozenChunks:
        held = [(window, each) for window in self._windows for each in self._windows[window]]
        parts = [(window, each.keys, each.fired, each.batches()) for window, each in held]
        return _FrozenRecords(self.name, self._max_parallelism, parts)

    def groups(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        return groups_of(pa.Table.from_batches([batch]), _keys_of(batch), self._max_parallelism)

    def restore(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            keys = _keys_of(batch)
            starts, ends = (batch.column(name).to_numpy() for name in (PANE, WINDOW_END))
            columns = batch.select([name for name in batch.schema.names if name not in MARKS])
            for start, end in sorted(set(zip(starts.tolist(), ends.tolist(), strict=True))):
                of_window = columns.filter(pa.array((starts == start) & (ends == end)))
                self.add(TimeWindow(start, end), of_window, keys, _FIRED in batch.schema.metadata)


def _keys_of(batch: pa.RecordBatch) -> tuple[str, ...]:
    """The key columns of a restored batch."""
    metadata = batch.schema.metadata or {}
    try:
        keys = tuple(json.loads(metadata[_KEY_COLUMNS]))
    except (KeyError, ValueError, TypeError):
        keys = ()
    if not keys or not {*keys, *MARKS} <= set(batch.schema.names):
        raise CorruptSnapshotError(
            f"a block of state {STORE_NAME!r} does not say which of its columns are the key"
        )
    return keys


class _FrozenRecords(FrozenChunks):
    """What the windows held at one moment."""

    def __init__(
        self,
        name: str,
        max_parallelism: int,
        parts: list[tuple[TimeWindow, tuple[str, ...], bool, list[pa.RecordBatch]]],
    ) -> None:
        super().__init__(name, (), max_parallelism, [])
        self._held = parts

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """All records with ``__key_group``, ``__pane`` and ``__window_end`` before their columns."""
        for window, keys, fired, batches in self._held:
            metadata = {_KEY_COLUMNS: json.dumps(keys).encode(), **({_FIRED: b"yes"} if fired else {})}
            for piece in pa.Table.from_batches(batches).combine_chunks().to_batches(_FILE_ROWS):
                groups = groups_of(pa.Table.from_batches([piece]), keys, self._max_parallelism)
                marks = [pa.array(groups, pa.int32())]
                marks += [pa.array(np.full(piece.num_rows, bound, np.int64)) for bound in window]
                schema = pa.schema([*_MARK_FIELDS, *piece.schema], metadata)
                yield pa.RecordBatch.from_arrays([*marks, *piece.columns], schema=schema)

    def release(self) -> None:
        self._held = []
