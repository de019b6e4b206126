"""Reaching into lists without a loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def element(lists: pa.Array, index: int) -> pa.Array:
    """The element at an index from zero of each list; null where there is none."""
    return elements(lists, np.full(len(lists), index, np.int64))


def elements(lists: pa.Array, indices: Any, valid: Any = None) -> pa.Array:
    """The same with an index for each list, and where not ``valid``, null."""
    starts = np.asarray(lists.offsets[:-1]).astype(np.int64)
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
    there = (indices >= 0) & (indices < lengths)
    if valid is not None:
        there &= valid
    return lists.values.take(pa.array(np.where(there, starts + indices, 0), mask=~there))
