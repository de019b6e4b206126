"""Rows between vertices: what a shuffle sees of records.

A row has columns to move and sort by, and an opaque body of many records: a frame, or a sorted piece
(:mod:`~penstock.batch.pieces`).  Sorting by :data:`SORTED_BY` within a partition gives the order in which a
vertex must read.

``part`` is what belongs together: the hash of a key, a key group, or nothing.  Keys with equal hashes are
not told apart here: an operator may see several keys at a time, it must only see each of them whole.
"""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch, Times
from penstock.core.keygroups import Hashes
from penstock.core.pickling import dumps
from penstock.exchange.codec import dumped, pack_rows, to_stream, unpack_rows

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


def frame(batch: Batch) -> bytes:
    """Many records as one body."""
    if batch.columns is None:
        return dumped((batch.times, None, pack_rows(batch)), batch)
    return dumps((batch.times, batch.key_columns, to_stream(batch.columns).to_pybytes()))


def batch_of_frame(body: bytes) -> Batch:
    """The records of :func:`frame` again."""
    times, key_columns, data = pickle.loads(body)
    if key_columns is None:
        return unpack_rows(data, times)
    columns = pa.ipc.open_stream(data).read_next_batch()
    return Batch(columns=columns, times=times, key_columns=key_columns)
