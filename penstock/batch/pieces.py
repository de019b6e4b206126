"""Pieces: many records of a keyed exchange in one row of the shuffle, sorted, for a reader that merges them.

A sender sorts what it holds by ``part`` and time (see :mod:`~penstock.batch.wire`) and cuts it into pieces.
The row's own ``part``, ``time`` and ``place`` are those of the piece's first record, so pieces come to the
reader in the order of their first records.  The places of the others follow one by one, in order of arrival
where part and time are equal.  No two records have the same place, so there is one order of all of them.

Columns stay columns, as a bare Arrow message behind their schema; rows are pickled together.  What is
encoded with a dictionary travels as rows, and so do views of lists: each piece would have to bring all.
"""

from __future__ import annotations

import pickle
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch, Times
from penstock.core.ids import MIN_TIME
from penstock.core.pickling import dumps
from penstock.core.views import without_views
from penstock.exchange.codec import dumped, pack_rows, unpack_rows

_KEY_BYTES = 64
"""What a record has besides itself, about: its key, part, time and place."""
Spot = tuple[int, int, int]
"""Where a record stands in the order of its reader: part, time, place."""


class Piece:
    """Sorted records of one input: their parts and times, and the records with their keys."""

    __slots__ = ("batch", "input_index", "kind", "parts", "places", "row_bytes", "times")

    def __init__(
        self,
        input_index: int,
        kind: Any,
        parts: Times,
        times: Times,
        places: Times,
        batch: Batch,
        row_bytes: int,
    ) -> None:
        self.input_index = input_index
        self.kind = kind
        """Batches of pieces of one kind can be joined."""
        self.parts = parts
        self.times = times
        self.places = places
        self.batch = batch
        """Without times."""
        self.row_bytes = row_bytes
        """What a record occupies, about."""

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def first(self) -> Spot:
        """Where its first record stands."""
        return int(self.parts[0]), int(self.times[0]), int(self.places[0])

    def before(self, spot: Spot) -> int:
        """How many of its records come before this spot."""
        part, time, place = spot
        low, high = _equal(self.parts, part, 0, len(self.parts))
        low, high = _equal(self.times, time, low, high)
        return low + int(np.searchsorted(self.places[low:high], place))

    def slice(self, start: int, stop: int) -> Piece:
        """Some of its records."""
        if stop - start == len(self):
            return self
        parts, times, places = (column[start:stop] for column in (self.parts, self.times, self.places))
        batch = self.batch.slice(start, stop)
        return Piece(self.input_index, self.kind, parts, times, places, batch, self.row_bytes)


def _equal(values: Times, value: int, low: int, high: int) -> tuple[int, int]:
    """The stretch between ``low`` and ``high`` that has this value."""
    if low == high:
        return low, high
    some = values[low:high]
    return low + int(np.searchsorted(some, value)), low + int(np.searchsorted(some, value, side="right"))


def body_of(parts: Times, times: Times | None, batch: Batch, places: Times | None = None) -> bytes:
    """A piece as bytes. ``times`` if there are any, ``places`` where they do not follow one by one."""
    heads = tuple(None if column is None else column.tobytes() for column in (parts, times, places))
    columns = batch.columns
    if columns is None:
        return dumped((heads, None, pack_rows(batch)), batch)
    kind = batch.key_columns, columns.schema.serialize().to_pybytes()
    return dumps((heads, kind, columns.serialize().to_pybytes()))


def piece_of(body: Any, input_index: int, place: int) -> Piece:
    """The piece again; ``place`` is that of the row."""
    heads, kind, data = pickle.loads(body)
    parts = np.frombuffer(heads[0], np.int64)
    times = np.full(len(parts), MIN_TIME) if heads[1] is None else np.frombuffer(heads[1], np.int64)
    following = np.arange(place, place + len(parts))
    places = following if heads[2] is None else np.frombuffer(heads[2], np.int64)
    if kind is None:
        batch = unpack_rows(data, None)
    else:
        key_columns, schema = kind
        columns = pa.ipc.read_record_batch(pa.py_buffer(data), _schema_of(schema))
        batch = Batch(columns=columns, key_columns=key_columns)
    row_bytes = max(len(body), batch.about_bytes()) // len(parts) + _KEY_BYTES
    return Piece(input_index, (input_index, kind), parts, times, places, batch, row_bytes)


@lru_cache(maxsize=64)
def _schema_of(data: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))


def sendable(batch: Batch) -> Batch:
    """The batch as it can be cut into pieces, which of several senders can be joined."""
    if batch.columns is None:
        return batch
    if any(map(_refers, batch.columns.schema.types)):
        return Batch(rows=batch.to_rows(), times=batch.times, keys=batch.key_list())
    bare = without_views(batch.columns).replace_schema_metadata(None)
    return Batch(columns=bare, times=batch.times, key_columns=batch.key_columns)


def _refers(kind: pa.DataType) -> bool:
    """Whether values may be anywhere in the column, so that a few records would bring those of all."""
    if isinstance(kind, pa.BaseExtensionType):
        return _refers(kind.storage_type)
    return "dictionary<" in str(kind) or "list_view<" in str(kind)
