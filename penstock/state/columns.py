"""Values of a declared type as typed Arrow columns, and back, exactly.

:func:`encode` answers ``None`` unless every value comes back as it went in: of the very type that was
declared, in range, and without anything a column cannot hold.  The caller then pickles.  Two liberties are
taken: an unnamed ``Row`` in a ROW with names comes back with those names, and a FLOAT is stored with 64
bits, since Python's floats have that many.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.durations import Instant
from penstock.core.row import Row, RowKind
from penstock.core.type_tree import (
    BasicType,
    BasicTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.state.schema import StampedTypeInfo

_NONE = type(None)
_SECOND = 1_000_000_000

_BASIC: dict[BasicType, tuple[type, pa.DataType]] = {
    BasicType.STRING: (str, pa.string()),
    BasicType.CHAR: (str, pa.string()),
    BasicType.BOOLEAN: (bool, pa.bool_()),
    BasicType.BYTE: (int, pa.int8()),
    BasicType.SHORT: (int, pa.int16()),
    BasicType.INT: (int, pa.int32()),
    BasicType.LONG: (int, pa.int64()),
    BasicType.BIG_INT: (int, pa.int64()),
    BasicType.FLOAT: (float, pa.float64()),
    BasicType.DOUBLE: (float, pa.float64()),
}
_TIMES: dict[pa.DataType, type] = {
    pa.date32(): dt.date,
    pa.time64("us"): dt.time,
    pa.timestamp("us"): dt.datetime,
}


class _DoesNotFitError(Exception):
    """Some value cannot be stored as declared."""


def encode(values: list[Any], kind: TypeInformation) -> pa.Array | None:
    """The values as a typed array, or ``None`` if they do not all fit."""
    if not has_columns(kind):
        return None
    try:
        array = _encode(values, kind)
    except (_DoesNotFitError, pa.ArrowException, OverflowError, UnicodeError, RecursionError):
        return None
    return array if isinstance(array, pa.Array) else None


def decode(array: pa.Array, kind: TypeInformation) -> list[Any]:
    """What :func:`encode` was given. Raises anything if the array is not of that type."""
    if isinstance(kind, TupleTypeInfo):
        return _decode_struct(array, kind)
    if isinstance(kind, MapTypeInfo):
        entries = TupleTypeInfo([kind.key_type, kind.value_type])
        return [None if pairs is None else dict(pairs) for pairs in _decode_list(array, entries)]
    if not _is_bytes(kind) and (element := getattr(kind, "element_type", None)) is not None:
        return _decode_list(array, element)
    values: list[Any] = array.to_pylist()
    special = _SPECIAL.get(getattr(kind, "basic_type", None))
    if special is not None:
        values = [None if value is None else special[2](value) for value in values]
    return values


def has_columns(kind: TypeInformation) -> bool:
    """Whether any values of this type can be a column."""
    if isinstance(kind, TupleTypeInfo):
        return bool(kind.field_types) and all(map(has_columns, kind.field_types))
    if isinstance(kind, MapTypeInfo):
        return has_columns(kind.key_type) and has_columns(kind.value_type)
    element = getattr(kind, "element_type", None)
    if element is not None:
        return has_columns(element)
    basic = getattr(kind, "basic_type", None)
    return basic in _BASIC or basic in _SPECIAL or kind.arrow_type() in _TIMES


def _encode(values: list[Any], kind: TypeInformation) -> pa.Array:
    if isinstance(kind, RowTypeInfo):
        return _encode_struct(values, kind, Row)
    if isinstance(kind, TupleTypeInfo):
        return _encode_struct(values, kind, tuple)
    if isinstance(kind, MapTypeInfo):
        _require(values, dict)
        pairs = [None if value is None else list(value.items()) for value in values]
        return _encode_list(pairs, TupleTypeInfo([kind.key_type, kind.value_type]))
    if _is_bytes(kind):
        _require(values, bytes)
        return pa.array(values, pa.binary())
    element = getattr(kind, "element_type", None)
    if element is not None:
        return _encode_list(values, element)
    if isinstance(kind, BasicTypeInfo):
        return _encode_basic(values, kind.basic_type)
    return _encode_time(values, kind)


def _require(values: list[Any], wanted: type) -> None:
    if not set(map(type, values)) <= {wanted, _NONE}:
        raise _DoesNotFitError


def _is_bytes(kind: TypeInformation) -> bool:
    return isinstance(kind, PrimitiveArrayTypeInfo) and kind.element_type == BasicTypeInfo(BasicType.BYTE)


def _encode_basic(values: list[Any], basic: BasicType) -> pa.Array:
    if basic in _BASIC:
        wanted, arrow = _BASIC[basic]
        _require(values, wanted)
        return pa.array(values, arrow)
    wanted, to_plain, _, arrow = _SPECIAL[basic]
    _require(values, wanted)
    return pa.array([None if value is None else to_plain(value) for value in values], arrow)


_SPECIAL: dict[Any, tuple[type, Callable[[Any], Any], Callable[[Any], Any], pa.DataType]] = {
    BasicType.BIG_DEC: (decimal.Decimal, str, decimal.Decimal, pa.string()),
    BasicType.INSTANT: (
        Instant,
        lambda instant: instant.seconds * _SECOND + instant.nanos,
        lambda nanos: Instant(*divmod(nanos, _SECOND)),
        pa.int64(),
    ),
}


def _encode_time(values: list[Any], kind: TypeInformation) -> pa.Array:
    """Dates, and times without zone; ``fold`` has no place in a column."""
    arrow = kind.arrow_type()
    wanted = _TIMES[arrow]
    _require(values, wanted)
    if wanted is not dt.date and any(v is not None and (v.tzinfo is not None or v.fold) for v in values):
        raise _DoesNotFitError
    return pa.array(values, arrow)


def _encode_struct(values: list[Any], kind: TupleTypeInfo, wanted: type) -> pa.Array:
    _require(values, wanted)
    width = len(kind.field_types)
    if isinstance(kind, RowTypeInfo):
        _require_rows(values, row_names(kind))
    nothing = (None,) * width
    filled = [nothing if value is None else tuple(value) for value in values]
    if any(len(value) != width for value in filled):
        raise _DoesNotFitError
    columns = list(zip(*filled, strict=True)) or [()] * width
    arrays = [_encode(list(c), field) for c, field in zip(columns, kind.field_types, strict=True)]
    if not all(isinstance(array, pa.Array) for array in arrays):
        raise _DoesNotFitError
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(arrays, names=_column_names(kind), mask=mask)


def row_names(kind: RowTypeInfo) -> tuple[str, ...] | None:
    """The names that rows of this type carry: none if the type did not name its fields."""
    names = tuple(kind.field_names)
    return None if names == tuple(f"f{n}" for n in range(len(names))) else names


def _require_rows(rows: list[Any], names: tuple[str, ...] | None) -> None:
    for row in rows:
        if row is not None and (
            row.field_names() not in (names, None) or row.get_row_kind() is not RowKind.INSERT
        ):
            raise _DoesNotFitError


def _column_names(kind: TupleTypeInfo) -> list[str]:
    if isinstance(kind, RowTypeInfo):
        return kind.field_names
    if isinstance(kind, StampedTypeInfo):
        return ["value", "time"]
    return [f"f{n}" for n in range(len(kind.field_types))]


def _encode_list(values: list[Any], element: TypeInformation) -> pa.Array:
    _require(values, list)
    lengths = np.array([0 if value is None else len(value) for value in values], np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    flat = _encode([item for value in values if value is not None for item in value], element)
    if not isinstance(flat, pa.Array) or offsets[-1] >= 2**31:
        raise _DoesNotFitError
    missing = np.array([value is None for value in values], np.bool_)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), flat, mask=pa.array(missing))


def _decode_struct(array: pa.Array, kind: TupleTypeInfo) -> list[Any]:
    if array.type.num_fields != len(kind.field_types):
        raise ValueError("a struct has another number of fields than its type")
    columns = [decode(array.field(n), field) for n, field in enumerate(kind.field_types)]
    found: list[Any] = list(zip(*columns, strict=True))
    if isinstance(kind, RowTypeInfo):
        found = list(Row.many(row_names(kind), found))
    if array.null_count:
        for place in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            found[place] = None
    return found


def _decode_list(array: pa.Array, element: TypeInformation) -> list[Any]:
    items = decode(array.flatten(), element)
    found: list[Any] = []
    start = 0
    for length in array.value_lengths().to_pylist():
        if length is None:
            found.append(None)
        else:
            found.append(items[start : start + length])
            start += length
    return found
