"""Grouping a table by columns: sums that do not overflow in silence, extremes, and sets of values.

NaN is the largest value of a group that has one; Arrow takes it for none.

A sum of integers or decimals that overflows is an error, but Arrow's grouped sum wraps around silently.
Whether it could is decided from the extremes of the column, which costs next to nothing; only then the sum is
taken in parts that cannot overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.codes import codes_of, validity, values_of
from penstock.core.decimals import (
    MOST_DIGITS,
    PARTS,
    carried,
    decimals_of,
    digits_of,
    parts_of,
    whole_numbers,
    wide_numbers,
)
from penstock.core.errors import ConfigError
from penstock.operators.columnar.spans import key_codes
from penstock.operators.columnar.value_lists import joined_lists

_LOW = 0xFFFF_FFFF
_GROUP = "__group"


def grouped(table: pa.Table, by: Sequence[str], folds: Sequence[tuple[str, str]]) -> pa.Table:
    """One row per distinct value of ``by``, the columns of ``folds`` folded and named as before.

    ``folds`` pairs a column with ``sum``, ``min``, ``max`` or ``values``, which joins lists to lists of their
    different values.  Nulls are skipped; only nulls give null.
    """
    lists = [name for name, how in folds if how == "values"]
    nothing = [name for name, _ in folds if pa.types.is_null(table.schema.field(name).type)]
    wide = [name for name, how in folds if how == "sum" and _may_overflow(table.column(name))]
    asked = [(name, how) for name, how in folds if name not in (*wide, *lists, *nothing)]
    flat = table.drop_columns([*lists, *nothing])
    coded = [name for name, how in folds if how == "max" and _has_nan(table.column(name))]
    for name in coded:
        flat = flat.set_column(flat.schema.names.index(name), name, _in_order(table.column(name)))
    for name in wide:
        for part, values in enumerate(_in_parts(table.column(name))):
            flat = flat.append_column(f"{name}:{part}", values)
            asked.append((f"{name}:{part}", "sum"))
    if lists:
        flat = flat.append_column(_GROUP, pa.array(key_codes([flat.column(name) for name in by])))
        asked.append((_GROUP, "min"))
    result = flat.group_by(list(by), use_threads=False).aggregate(asked)
    columns: dict[str, Any] = {name: result.column(name) for name in by}
    for name, how in folds:
        if name in wide:
            columns[name] = _whole(result, name, table.column(name).type)
        elif name in nothing:  # a sum would have a type
            columns[name] = pa.nulls(result.num_rows)
        elif name in coded:
            codes = result.column(f"{name}_{how}").combine_chunks()
            columns[name] = values_of(codes_of(codes), table.column(name).type, validity(codes))
        elif name not in lists:
            columns[name] = result.column(f"{name}_{how}")
        else:
            codes = flat.column(_GROUP).to_numpy()
            shown = result.column(f"{_GROUP}_min").to_numpy()
            columns[name] = joined_lists(table.column(name), codes, shown)
    return pa.table(columns)


def _has_nan(values: pa.ChunkedArray) -> bool:
    return pa.types.is_floating(values.type) and bool(pc.any(pc.is_nan(values)).as_py())


def _in_order(values: pa.ChunkedArray) -> pa.Array:
    """Whole numbers in the order of floats, NaN above all."""
    whole = values.combine_chunks()
    valid = validity(whole)
    return pa.array(codes_of(whole), mask=None if valid is None else ~valid)


def _may_overflow(values: pa.ChunkedArray) -> bool:
    kind = values.type
    if not (kind == pa.int64() or pa.types.is_decimal(kind)) or not len(values):
        return False
    extremes = pc.min_max(values)
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    if low is None:
        return False
    if kind == pa.int64():
        return bool(max(-low, high) * len(values) >= 2**63)
    most = max(-digits_of(low, kind.scale), digits_of(high, kind.scale))
    return bool(most * len(values) >= 10**MOST_DIGITS)


def _in_parts(values: pa.ChunkedArray) -> list[pa.Array]:
    if values.type == pa.int64():
        low = pc.bit_wise_and(values, pa.scalar(_LOW, pa.int64()))
        return [low, pc.shift_right(values, pa.scalar(32, pa.int64()))]
    missing = ~np.asarray(values.is_valid())
    return [pa.array(part, mask=missing) for part in parts_of(wide_numbers(values))]


def _whole(result: pa.Table, name: str, kind: pa.DataType) -> pa.Array:
    what = f"the sum in {name.removeprefix('__')!r}"
    count = 2 if kind == pa.int64() else PARTS
    sums = [result.column(f"{name}:{part}_sum").combine_chunks() for part in range(count)]
    valid = np.asarray(sums[0].is_valid())
    parts = carried([np.asarray(part.fill_null(0)) for part in sums])
    if kind != pa.int64():
        return decimals_of(whole_numbers(parts, what), kind, valid)
    low, high = parts
    if len(high) and (high.min() < -(2**31) or high.max() >= 2**31):
        raise ConfigError(f"{what} overflows int64; cast the column to double before agg")
    return pa.array((high << 32) | low, mask=~valid)
