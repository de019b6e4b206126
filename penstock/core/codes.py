"""Values as int64: equal values have equal codes, and for all types but texts the order is kept, too.

So keys of any types are compared, hashed and stored as arrays of NumPy.  Of floats there is one zero and
one NaN, which is above all others.  Texts, bytes and decimals have no code of their own; whoever keeps them
numbers them (:mod:`penstock.state.interning`).  The hashes are part of the snapshot format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.keygroups import hash_array, hash_integers, hash_values

Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

KEY_HASH = "$key"
"""Name of the column by which rows are partitioned: the hash of their key, whose columns may be null."""

MOST_KEYS = 63
"""Of how many columns a key may be made: which of them are null is kept in the bits of a number."""

_SIGN = np.uint64(1 << 63)
_LOW = np.int64(0x7FFF_FFFF_FFFF_FFFF)
_P = np.uint64(0x9E3779B97F4A7C15 | 1)
_NULL = np.uint64(0x5851F42D4C957F2D)


def has_codes(kind: pa.DataType) -> bool:
    """Whether values of the type are codes by themselves."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_floating(kind)
        or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))
    )


def is_comparable(kind: pa.DataType) -> bool:
    """Whether values of the type can be keys, distinct values, smallest and largest ones."""
    return has_codes(kind) or bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_decimal(kind)
    )


def validity(array: pa.Array) -> Mask | None:
    """Where there is a value; ``None`` if everywhere."""
    if not array.null_count:
        return None
    valid: Mask = np.asarray(array.is_valid())
    return valid


def codes_of(array: pa.Array) -> Codes:
    """The codes of values of a type that has them; zero for nulls."""
    kind = array.type
    if pa.types.is_floating(kind):
        return _float_codes(array.cast(pa.float64()))
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pa.types.is_temporal(kind):
        array = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if array.null_count:
        array = array.fill_null(0)
    values = array.to_numpy(zero_copy_only=False)
    if kind == pa.uint64():
        flipped: Codes = (values ^ _SIGN).view(np.int64)
        return flipped
    return np.asarray(values, np.int64)


def _float_codes(array: pa.Array) -> Codes:
    if array.null_count:
        array = array.fill_null(0.0)
    values = array.to_numpy(zero_copy_only=False) + 0.0  # makes 0.0 of -0.0
    nans = np.isnan(values)
    if nans.any():
        values[nans] = np.nan
    bits: Codes = values.view(np.int64)
    return bits ^ ((bits >> 63) & _LOW)


def values_of(codes: Codes, kind: pa.DataType, valid: Mask | None = None) -> pa.Array:
    """The values of codes."""
    mask = None if valid is None else ~valid
    if pa.types.is_floating(kind):
        bits = codes ^ ((codes >> 63) & _LOW)
        return pa.array(bits.view(np.float64), mask=mask).cast(kind)
    if kind == pa.uint64():
        return pa.array(codes.view(np.uint64) ^ _SIGN, mask=mask)
    whole = pa.array(codes, mask=mask)
    if pa.types.is_boolean(kind):
        return whole.cast(pa.bool_())
    if pa.types.is_temporal(kind):
        return (whole.cast(pa.int32()) if kind.bit_width == 32 else whole).view(kind)
    return whole.cast(kind)


def row_hashes(columns: Sequence[pa.Array]) -> Codes:
    """A hash of each row; exact for one column with codes and no nulls: different ones for all values."""
    with np.errstate(over="ignore"):
        mixed: npt.NDArray[np.uint64] | None = None
        for column in columns:
            hashes = _hashes(column)
            if mixed is None:
                mixed = hashes
            else:
                mixed = hash_integers((mixed * _P + hashes).view(np.int64))
    assert mixed is not None
    return mixed.view(np.int64)


def _hashes(column: pa.Array) -> npt.NDArray[np.uint64]:
    valid = validity(column)
    if column.null_count == len(column):
        return np.full(len(column), _NULL)
    if has_codes(column.type):
        hashes = hash_integers(codes_of(column))
    elif pa.types.is_nested(column.type):
        hashes = hash_values([_plain(value) for value in column.to_pylist()])
    else:
        # Texts repeat, and to find those that do costs less than to hash them all.
        encoded = column.dictionary_encode()
        hashes = hash_array(encoded.dictionary)[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    return hashes if valid is None else np.where(valid, hashes, _NULL)


def _plain(value: Any) -> Any:
    """A value of a nested type as one that has a hash: equal ones have equal hashes."""
    if isinstance(value, dict):
        return tuple(map(_plain, value.values()))
    if isinstance(value, list | tuple):
        return ("", *map(_plain, value))  # a list of one is not its element
    return () if value is None else value


def plain_column(array: pa.Array) -> pa.Array:
    """A column without a dictionary."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return pc.cast(array, array.type.value_type) if pa.types.is_dictionary(array.type) else array


def key_schema(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """The key columns, without dictionaries."""
    found = []
    for name in names:
        kind = schema.field(name).type
        found.append(pa.field(name, kind.value_type if pa.types.is_dictionary(kind) else kind))
    return pa.schema(found)
