"""Arrow's columns as the types of rows, and as an Avro schema, for formats that work record by record."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from penstock.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.core.errors import ConfigError

_TYPES: dict[pa.DataType, Callable[[], TypeInformation]] = {
    pa.bool_(): Types.BOOLEAN,
    pa.int8(): Types.BYTE,
    pa.int16(): Types.SHORT,
    pa.int32(): Types.INT,
    pa.int64(): Types.LONG,
    pa.float32(): Types.FLOAT,
    pa.float64(): Types.DOUBLE,
    pa.string(): Types.STRING,
    pa.date32(): Types.SQL_DATE,
}
_AVRO: dict[pa.DataType, Any] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
}


def row_type(schema: pa.Schema) -> RowTypeInfo:
    """The type of rows with these columns."""
    return RowTypeInfo([_type(field.type) for field in schema], schema.names)


def _type(kind: pa.DataType) -> TypeInformation:
    if kind in _TYPES:
        return _TYPES[kind]()
    if kinds.is_binary(kind):
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    if kinds.is_timestamp(kind):
        return Types.SQL_TIMESTAMP() if kind.tz is None else Types.INSTANT()
    if kinds.is_time(kind):
        return Types.SQL_TIME()
    if kinds.is_decimal(kind):
        return Types.BIG_DEC()
    if kinds.is_list(kind):
        return Types.LIST(_type(kind.value_type))
    if kinds.is_map(kind):
        return Types.MAP(_type(kind.key_type), _type(kind.item_type))
    if kinds.is_struct(kind):
        return row_type(pa.schema(list(kind)))
    raise ConfigError(f"{kind} has no type of rows; cast it to another")


def avro_schema(schema: pa.Schema, name: str = "record") -> str:
    """The Avro schema of records with these columns, all of which may be null unless they say otherwise."""
    return json.dumps(_record(list(schema), name))


def _record(fields: list[pa.Field], name: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_field(field, name) for field in fields]}


def _field(field: pa.Field, within: str) -> dict[str, Any]:
    kind = _avro(field.type, f"{within}_{field.name}")
    return (
        {"name": field.name, "type": ["null", kind]} if field.nullable else {"name": field.name, "type": kind}
    )


def _avro(kind: pa.DataType, name: str) -> Any:
    if kind in _AVRO:
        return _AVRO[kind]
    if kinds.is_timestamp(kind):
        unit = "timestamp-millis" if kind.unit in ("s", "ms") else "timestamp-micros"
        return {"type": "long", "logicalType": unit}
    if kinds.is_decimal(kind):
        digits = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if kinds.is_list(kind):
        return {"type": "array", "items": ["null", _avro(kind.value_type, name)]}
    if kinds.is_map(kind) and kinds.is_string(kind.key_type):
        return {"type": "map", "values": ["null", _avro(kind.item_type, name)]}
    if kinds.is_struct(kind):
        return _record(list(kind), name)
    raise ConfigError(f"{kind} has no type in Avro; cast it to another")
