"""Rows ranked within groups: sorted once, as SQL sorts.  Pure.

Nulls are the smallest and NaN is the largest: ascending order begins with nulls, descending order ends with
them.  Rows that are equal keep the order in which they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.batch import Indices
from penstock.operators.columnar.spans import key_codes

SortKeys = Sequence[tuple[str, bool]]
"""Columns, and whether each is sorted downwards."""
Numbers = npt.NDArray[np.int64]


def ranked(table: pa.Table, by: Sequence[str], order: SortKeys) -> tuple[Indices, Numbers]:
    """The rows in order, group after group, and the rank of each within its group, from one on."""
    count = table.num_rows
    codes = key_codes([table.column(name) for name in by]) if by else np.zeros(count, np.int64)
    columns: dict[str, Any] = {"group": pa.array(codes)}
    keys: list[tuple[str, str]] = [("group", "ascending")]

    def add(values: Any, downwards: bool) -> None:
        name = str(len(keys))
        columns[name] = values
        keys.append((name, "descending" if downwards else "ascending"))

    for name, downwards in order:
        values = table.column(name)
        if values.null_count:
            add(pc.is_valid(values), downwards)
        if pa.types.is_floating(values.type):
            add(pc.fill_null(pc.is_nan(values), False), downwards)
        add(values, downwards)
    add(pa.array(np.arange(count)), False)  # sorting by several keys keeps no order by itself
    rows = pc.sort_indices(pa.table(columns), sort_keys=keys).to_numpy().astype(np.int64)
    codes = codes[rows]
    begins = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])) if count else np.zeros(0, np.int64)
    lengths = np.diff(np.append(begins, count))
    return rows, np.arange(count) - np.repeat(begins, lengths) + 1


def first_of_each(table: pa.Table, by: Sequence[str], order: SortKeys, most: int) -> pa.Table:
    """The first rows of each group, in the order in which they came."""
    rows, ranks = ranked(table, by, order)
    if len(ranks) and int(ranks.max()) <= most:
        return table
    return table.take(pa.array(np.sort(rows[ranks <= most])))
