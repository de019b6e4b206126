"""Group-by on Arrow tables in which an integer sum that overflows is an error.

Arrow's grouped sum wraps around silently.  Whether it could is decided from the extremes of the column,
which costs next to nothing; only then the sum is taken in two halves that cannot overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import ConfigError

_LOW = 0xFFFF_FFFF


def grouped(table: pa.Table, by: Sequence[str], folds: Sequence[tuple[str, str]]) -> pa.Table:
    """One row per distinct value of ``by``, the columns of ``folds`` folded and named as before.

    ``folds`` pairs a column with ``sum``, ``min`` or ``max``.  Nulls are skipped; only nulls give null.
    """
    wide = [name for name, how in folds if how == "sum" and _may_overflow(table.column(name))]
    for name in wide:
        values = table.column(name)
        low = pc.bit_wise_and(values, pa.scalar(_LOW, pa.int64()))
        table = table.append_column(name + ":high", pc.shift_right(values, pa.scalar(32, pa.int64())))
        table = table.append_column(name + ":low", low)
    asked = [(name, how) for name, how in folds if name not in wide]
    asked += [(name + half, "sum") for name in wide for half in (":high", ":low")]
    result = table.group_by(list(by), use_threads=False).aggregate(asked)
    columns: dict[str, Any] = {name: result.column(name) for name in by}
    for name, how in folds:
        columns[name] = _joined(result, name) if name in wide else result.column(f"{name}_{how}")
    return pa.table(columns)


def _may_overflow(values: pa.ChunkedArray) -> bool:
    if values.type != pa.int64() or not len(values):
        return False
    extremes = pc.min_max(values)
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    return low is not None and max(-low, high) * len(values) >= 2**63


def _joined(result: pa.Table, name: str) -> pa.Array:
    high_sums = result.column(f"{name}:high_sum").combine_chunks()
    valid = np.asarray(high_sums.is_valid())
    high = np.asarray(high_sums.fill_null(0))
    low = np.asarray(result.column(f"{name}:low_sum").combine_chunks().fill_null(0))
    carried = high + (low >> 32)
    if len(carried) and (carried.min() < -(2**31) or carried.max() >= 2**31):
        raise ConfigError(
            f"the sum in {name.removeprefix('__')!r} overflows int64; cast the column to double before agg"
        )
    return pa.array((carried << 32) | (low & _LOW), mask=~valid)
