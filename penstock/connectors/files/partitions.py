"""A columnar batch divided by the values of some columns, without Python per record.

Used by every sink that writes partitioned directories or tables.  Each column becomes small codes, the
codes of all columns one number per record; records with equal numbers are then brought together by one
stable sort, so within a partition they keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Values = tuple[Any, ...]


def split_by_columns(columns: pa.RecordBatch, names: Sequence[str]) -> list[tuple[Values, pa.RecordBatch]]:
    """The parts of a batch with equal values in ``names``, each with these values as Python objects.

    The columns stay in the parts.  ``null`` is a value like any other.
    """
    if not columns.num_rows:
        return []
    if not names:
        return [((), columns)]
    codes = _codes(columns.column(names[0]))
    for name in names[1:]:
        more = _codes(columns.column(name))
        # Made dense again after each column: the product of many cardinalities might not fit.
        codes = np.unique(codes * (more.max() + 1) + more, return_inverse=True)[1]
    first, which = np.unique(codes, return_index=True, return_inverse=True)[1:]
    values = [tuple(columns.column(name)[int(row)].as_py() for name in names) for row in first]
    if len(values) == 1:
        return [(values[0], columns)]
    together = columns.take(pa.array(np.argsort(which, kind="stable")))
    ends = np.cumsum(np.bincount(which)).tolist()
    starts = [0, *ends[:-1]]
    return [
        (value, together.slice(start, end - start))
        for value, start, end in zip(values, starts, ends, strict=True)
    ]


def _codes(column: pa.Array) -> npt.NDArray[np.int64]:
    """A small number for each value, in the order of first appearance."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    indices = column.dictionary_encode(null_encoding="encode").indices
    codes: npt.NDArray[np.int64] = indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes
