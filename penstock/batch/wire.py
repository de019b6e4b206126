"""Rows between vertices: what a shuffle sees of records.

A row has columns to move and sort by, and an opaque body: one pickled record with its key, or a frame of
many records.  Sorting by :data:`SORTED_BY` within a partition gives the order in which a vertex must read.

``part`` is what belongs together: the hash of a key, a key group, or nothing.  Keys with equal hashes are
not told apart here: an operator may see several keys at a time, it must only see each of them whole.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch, Times
from penstock.core.ids import MIN_TIME
from penstock.core.keygroups import Hashes
from penstock.core.pickling import dumps
from penstock.core.row import Row, RowKind
from penstock.exchange.codec import pack_rows, to_stream, unpack_rows

SCHEMA = pa.schema(
    [
        ("edge", pa.int32()),
        ("target", pa.int32()),
        ("part", pa.int64()),
        ("time", pa.int64()),
        ("place", pa.int64()),
        ("body", pa.binary()),
    ]
)
SORTED_BY = ("part", "time", "place")
"""Together, key by key; of a key in order of time; at equal times input by input in order of arrival."""
TO_DRIVER = -1
"""The ``edge`` of rows that are for the driver: what sinks prepared, and what they have to say."""
HERE = -2
"""The ``edge`` of the row that a partition on Spark begins with: its ``target`` says which one it is."""
FIRST_PART = -(2**63)
"""The ``part`` of what is read before everything else."""

_COUNTER_BITS, _SENDER_BITS, _EDGE_BITS = 34, 15, 13


def parts_of(hashes: Hashes) -> Times:
    """The ``part`` of each key's hash."""
    return np.maximum(hashes.view(np.int64), FIRST_PART + 1)


def first_place(input_index: int, edge: int, sender: int) -> int:
    """The first ``place`` of what a sender sends over an edge; the others follow one by one."""
    return ((input_index << _EDGE_BITS | edge) << _SENDER_BITS | sender) << _COUNTER_BITS


def record_bodies(batch: Batch) -> list[bytes]:
    """One body per record, each with its key. Rows travel as bare values: they pickle much faster."""
    keys = batch.key_list()
    if batch.columns is not None:
        names = tuple(batch.columns.schema.names)
        values = zip(*(column.to_pylist() for column in batch.columns.columns), strict=True)
        return _pickled([(key, names, row) for key, row in zip(keys, values, strict=True)])
    rows = batch.to_rows()
    if any(type(row) is Row for row in rows):
        return _pickled(list(map(_bare, keys, rows)))
    return _pickled(list(zip(keys, rows, strict=True)))


def _pickled(items: list[tuple[Any, ...]]) -> list[bytes]:
    encode = pickle.dumps
    try:
        return [encode(item, 5) for item in items]
    except (pickle.PicklingError, AttributeError, TypeError):
        return [dumps(item) for item in items]


def _bare(key: Any, value: Any) -> tuple[Any, ...]:
    if type(value) is Row and value._kind is RowKind.INSERT:
        return key, value._fields, value._values
    return key, value


def batch_of_records(bodies: Sequence[bytes], times: Times) -> Batch:
    """The records of :func:`record_bodies` again, as rows."""
    loaded = list(map(pickle.loads, bodies))
    keys = [item[0] for item in loaded]
    known = None if int(times.max()) == MIN_TIME else times
    if all(len(item) == 2 for item in loaded):
        return Batch(rows=[item[1] for item in loaded], times=known, keys=keys)
    rows = [item[1] if len(item) == 2 else Row.many(item[1], (item[2],))[0] for item in loaded]
    return Batch(rows=rows, times=known, keys=keys)


def frame(batch: Batch) -> bytes:
    """Many records as one body."""
    if batch.columns is None:
        return dumps((batch.times, None, pack_rows(batch)))
    return dumps((batch.times, batch.key_columns, to_stream(batch.columns).to_pybytes()))


def batch_of_frame(body: bytes) -> Batch:
    """The records of :func:`frame` again."""
    times, key_columns, data = pickle.loads(body)
    if key_columns is None:
        return unpack_rows(data, times)
    columns = pa.ipc.open_stream(data).read_next_batch()
    return Batch(columns=columns, times=times, key_columns=key_columns)
