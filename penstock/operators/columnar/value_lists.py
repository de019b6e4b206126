"""The different values of each group, as a list in its row: what COUNT(DISTINCT) of windows gathers.  Pure.

Lists are joined like sums: any number of times, in any order.  Nulls are not among the values; of floats
there is one zero and one NaN.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.codes import plain_column
from penstock.core.keys import canonical_column

Numbers = npt.NDArray[np.int64]


def single_values(values: pa.Array) -> pa.Array:
    """A list per value: of itself alone, and an empty one for a null."""
    values = canonical_column(plain_column(values))
    ends = np.cumsum(np.asarray(values.is_valid()), dtype=np.int32)
    offsets = pa.array(np.append(np.int32(0), ends), pa.int32())
    return pa.ListArray.from_arrays(offsets, values.drop_null())


def elements(lists: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, Numbers]:
    """All values of lists, and the row that each is in."""
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.combine_chunks()
    lengths = lengths_of(lists)
    return pc.list_flatten(lists), np.repeat(np.arange(len(lists)), lengths)


def lengths_of(lists: pa.Array | pa.ChunkedArray) -> Numbers:
    """How many values each list has."""
    found: Numbers = np.asarray(pc.list_value_length(lists)).astype(np.int64)
    return found


def joined_lists(lists: pa.ChunkedArray, groups: Numbers, shown: Numbers) -> pa.Array:
    """A list for each of the groups ``shown``: the different values of the rows that are of it."""
    values, rows = elements(lists)
    place = np.zeros(int(groups.max(initial=-1)) + 1, np.int64)
    place[shown] = np.arange(len(shown))
    pairs = pa.table({"place": place[groups[rows]], "value": values})
    once = pairs.group_by(["place", "value"], use_threads=False).aggregate([])
    places = once.column("place").to_numpy()
    order = np.argsort(places, kind="stable")
    ends = np.cumsum(np.bincount(places, minlength=len(shown)))
    offsets = pa.array(np.append(0, ends).astype(np.int32), pa.int32())
    kept = once.column("value").combine_chunks().take(pa.array(order))
    return pa.ListArray.from_arrays(offsets, kept)
