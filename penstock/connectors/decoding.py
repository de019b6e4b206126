"""From decoded values to a batch with event times, without the values that could not be decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch, Times, concat
from penstock.formats.bad_records import BadRecords, salvage

Records: TypeAlias = "pa.RecordBatch | list[Any]"
Whereabouts = Callable[[int], tuple[Any, bytes]]
"""Position and bytes of the value at an index."""


def decode_batch(
    decode: Callable[[int, int], Records],
    times: Times,
    bad: BadRecords,
    at: Whereabouts,
    skips_none: bool,
) -> Batch | None:
    """The values as a batch, ``None`` if none is left; ``bad`` hears of those that cannot be decoded.

    ``decode`` gets a range of values and answers with as many records; ``times`` has one entry a value.
    With ``skips_none`` a record of ``None`` is no record.
    """

    def on_bad(index: int, reason: str) -> None:
        position, raw = at(index)
        bad.add(position, raw, reason, int(times[index]))

    pieces = [
        _batch(records, times[start:stop], skips_none)
        for start, stop, records in salvage(len(times), decode, on_bad)
    ]
    filled = [piece for piece in pieces if len(piece)]
    if not filled:
        return None
    return concat(filled if _alike(filled) else [Batch.of_rows(p.to_rows(), p.times) for p in filled])


def _alike(pieces: list[Batch]) -> bool:
    return len({piece.is_columnar for piece in pieces}) == 1


def _batch(records: Records, times: Times, skips_none: bool) -> Batch:
    if isinstance(records, pa.RecordBatch):
        return Batch.of_columns(records, times)
    there = [record for record in records if record is not None] if skips_none else records
    if len(there) == len(records):
        return Batch.of_rows(records, times)
    kept = np.array([record is not None for record in records], np.bool_)
    return Batch.of_rows(there, times[kept])
