"""Python values as Arrow, and back.

Values become the narrowest Arrow type that fits all of them: numbers, text, bytes, times, and, nested, lists,
maps (dicts) and structs (tuples, rows, dataclasses, windows; fields without names are ``f0``, ``f1``, ...).
What fits nowhere becomes JSON text.  The way back serves writers: see :func:`to_python`.

In a column of a declared type a map is stored as a list of pairs, and tables show it as a map.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import uuid
from collections.abc import Iterable
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.row import Row
from penstock.core.stand_ins import StandIn
from penstock.core.type_tree import MapTypeInfo, TupleTypeInfo, TypeInformation

_PLAIN: dict[type, pa.DataType] = {
    type(None): pa.null(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    dt.date: pa.date32(),
}
_NO_KEY = pa.float16()
"""Key type of an empty map, since keys cannot be null; no value has it."""
_UNKNOWN = (pa.null(), _NO_KEY)
_INT64 = range(-(2**63), 2**63)


def shown_type(kind: pa.DataType, layout: TypeInformation) -> pa.DataType:
    """The type of :func:`shown` for a column that is stored as ``kind``."""
    if isinstance(layout, MapTypeInfo):
        key, item = kind.value_type
        return pa.map_(shown_type(key.type, layout.key_type), shown_type(item.type, layout.value_type))
    if isinstance(layout, TupleTypeInfo):
        parts = zip(kind, layout.field_types, strict=True)
        return pa.struct([(field.name, shown_type(field.type, part)) for field, part in parts])
    element = _element(kind, layout)
    return kind if element is None else pa.list_(shown_type(kind.value_type, element))


def shown(array: pa.Array, layout: TypeInformation) -> pa.Array:
    """The column with its pairs turned into maps, at any depth."""
    if shown_type(array.type, layout) == array.type:
        return array
    if isinstance(layout, MapTypeInfo):
        pairs = array.values
        keys, items = shown(pairs.field(0), layout.key_type), shown(pairs.field(1), layout.value_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, mask=array.is_null())
    if isinstance(layout, TupleTypeInfo):
        parts = [shown(array.field(n), part) for n, part in enumerate(layout.field_types)]
        names = [field.name for field in array.type]
        return pa.StructArray.from_arrays(parts, names=names, mask=array.is_null())
    element = _element(array.type, layout)
    assert element is not None
    return pa.ListArray.from_arrays(_offsets(array), shown(array.values, element), mask=array.is_null())


def stored(array: pa.Array) -> pa.Array:
    """The way back: the column with its maps turned into pairs, at any depth."""
    kind = array.type
    if pa.types.is_map(kind):
        pairs = pa.StructArray.from_arrays([stored(array.keys), stored(array.items)], names=["f0", "f1"])
        return pa.ListArray.from_arrays(_offsets(array), pairs, mask=array.is_null())
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(_offsets(array), stored(array.values), mask=array.is_null())
    if pa.types.is_struct(kind):
        parts = [stored(array.field(n)) for n in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, names=[f.name for f in kind], mask=array.is_null())
    return array


def _offsets(array: pa.Array) -> pa.Array:
    """Offsets in an array of their own: one that is cut out of another cannot be combined with a mask."""
    return pa.array(array.offsets.to_numpy(), pa.int32())


def _element(kind: pa.DataType, layout: TypeInformation) -> TypeInformation | None:
    if not pa.types.is_list(kind):
        return None
    found: TypeInformation | None = getattr(layout, "element_type", None)
    return found


def plain_array(values: list[Any]) -> pa.Array | None:
    """The values as an array if all are of one plain type."""
    kinds = set(map(type, values))
    kind = _PLAIN.get(kinds.pop()) if len(kinds) == 1 else None
    try:
        return None if kind is None else pa.array(values, kind)
    except (pa.ArrowInvalid, OverflowError, UnicodeError):
        return None


class MisfitError(ValueError):
    """Values that have no common Arrow type, or a value that does not have the one it should."""


def type_of(values: Iterable[Any]) -> pa.DataType:
    """The type that fits all values; :class:`MisfitError` if there is none."""
    return reduce(join, map(_type, values), pa.null())


def _type(value: Any) -> pa.DataType:
    plain = _PLAIN.get(type(value))
    if plain is not None:
        if plain == pa.int64() and value not in _INT64:
            raise MisfitError(f"{value} has more than 64 bits")
        return plain
    if isinstance(value, np.generic):
        return _type(value.item())
    if isinstance(value, dt.datetime):
        return pa.timestamp("us", None if value.tzinfo is None else "UTC")
    if isinstance(value, dict):
        return pa.map_(_key_type(value), type_of(value.values()))
    if isinstance(value, list | set | frozenset):
        return pa.list_(type_of(value))
    names = _field_names(value)
    if not names:
        raise MisfitError(f"a {type(value).__name__} has no Arrow type")
    return pa.struct(list(zip(names, map(_type, _field_values(value)), strict=True)))


def _key_type(keys: dict[Any, Any]) -> pa.DataType:
    kind = type_of(keys) if keys else _NO_KEY
    if pa.types.is_null(kind):
        raise MisfitError("None cannot be a key of a map")
    return kind


def join(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type that fits the values of both."""
    if one == other or other in _UNKNOWN:
        return one
    if one in _UNKNOWN:
        return other
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return pa.int64()
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_map(one) and pa.types.is_map(other):
        return pa.map_(join(one.key_type, other.key_type), join(one.item_type, other.item_type))
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(join(one.value_type, other.value_type))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        pairs = list(zip(one, other, strict=False))
        if len(one) == len(other) and all(a.name == b.name for a, b in pairs):
            return pa.struct([(a.name, join(a.type, b.type)) for a, b in pairs])
    raise MisfitError(f"{one} and {other} have no common type")


def settled(kind: pa.DataType) -> pa.DataType:
    """The type without nulls-only parts, which files and Spark have little use for: they are text."""
    if kind in _UNKNOWN:
        return pa.string()
    if pa.types.is_map(kind):
        return pa.map_(settled(kind.key_type), settled(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(settled(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, settled(field.type)) for field in kind])
    return kind


def to_arrow(values: pa.Array | list[Any], kind: pa.DataType) -> pa.Array:
    """The values as an array of ``kind``; :class:`MisfitError` if one is something else."""
    try:
        if isinstance(values, pa.Array):
            return values if values.type == kind else values.cast(kind)
        if not pa.types.is_nested(kind):
            return pa.array(values, kind)
        return pa.array([_shaped(value, kind) for value in values], kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError) as error:
        raise MisfitError(str(error)) from error


def to_text(values: pa.Array | list[Any]) -> pa.Array:
    """The values as JSON text."""
    plain = values.to_pylist() if isinstance(values, pa.Array) else values
    return pa.array([json_text(value) for value in plain], pa.string())


def json_text(value: Any) -> str:
    """Any value as JSON; what JSON does not have is shown as Python would."""
    return json.dumps(_jsonable(value), ensure_ascii=False)


def _jsonable(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _jsonable(value.item())
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dict):
        return {k if isinstance(k, str) else json_text(k): _jsonable(v) for k, v in value.items()}
    if isinstance(value, list | set | frozenset):
        return [_jsonable(item) for item in value]
    names = _field_names(value)
    if not names:
        return str(value) if isinstance(value, Decimal | uuid.UUID) else repr(value)
    fields = [_jsonable(item) for item in _field_values(value)]
    return fields if names[0] == "f0" else dict(zip(names, fields, strict=True))


def _shaped(value: Any, kind: pa.DataType) -> Any:
    """``value`` in the form that Arrow takes for ``kind``."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [(_shaped(k, kind.key_type), _shaped(v, kind.item_type)) for k, v in value.items()]
    if pa.types.is_list(kind):
        return [_shaped(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        names = _field_names(value)
        if names != [field.name for field in kind]:
            raise MisfitError(f"{value!r} is not a {kind}")
        parts = zip(kind, _field_values(value), strict=True)
        return {field.name: _shaped(item, field.type) for field, item in parts}
    return value


def _field_names(value: Any) -> list[str]:
    """Names of the fields of something made of fields; empty for everything else."""
    if isinstance(value, Row):
        names = value.field_names()
    elif isinstance(value, tuple):
        names = getattr(value, "_fields", None)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [field.name for field in dataclasses.fields(value)]
    elif isinstance(value, StandIn):
        return list(value.fields())
    else:
        return []
    return list(names) if names is not None else [f"f{i}" for i in range(len(value))]


def _field_values(value: Any) -> list[Any]:
    if isinstance(value, Row | tuple):
        return list(value)
    if isinstance(value, StandIn):
        return list(value.fields().values())
    return [getattr(value, field.name) for field in dataclasses.fields(value)]


def to_python(array: pa.Array, structs_as_tuples: bool = False) -> list[Any]:
    """What a job would hold: maps are dicts, lists lists, structs rows (or tuples, as in keys)."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    values: list[Any] = array.to_pylist()
    if not pa.types.is_nested(array.type):
        return values
    return [_restored(value, array.type, structs_as_tuples) for value in values]


def _restored(value: Any, kind: pa.DataType, tuples: bool) -> Any:
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_map(kind):
        return {
            _restored(k, kind.key_type, True): _restored(v, kind.item_type, tuples)
            for k, v in dict(value).items()
        }
    if pa.types.is_struct(kind):
        fields = {field.name: _restored(value[field.name], field.type, tuples) for field in kind}
        unnamed = all(name == f"f{i}" for i, name in enumerate(fields))
        return tuple(fields.values()) if tuples or unnamed else Row(**fields)
    items = [_restored(item, kind.value_type, tuples) for item in value]
    return tuple(items) if tuples else items
