"""Arrow schemas as row types, for formats that know rows."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from penstock.common.typeinfo import TypeInformation, Types
from penstock.core.errors import ConfigError

_KINDS: dict[pa.DataType, Callable[[], TypeInformation]] = {
    pa.bool_(): Types.BOOLEAN,
    pa.int8(): Types.BYTE,
    pa.int16(): Types.SHORT,
    pa.int32(): Types.INT,
    pa.int64(): Types.LONG,
    pa.float32(): Types.FLOAT,
    pa.float64(): Types.DOUBLE,
    pa.string(): Types.STRING,
    pa.large_string(): Types.STRING,
}


def row_type_of(schema: pa.Schema) -> TypeInformation:
    """The type of rows with these columns: numbers, texts, truth values, times, lists of these."""
    return Types.ROW_NAMED(list(schema.names), [_of(field.type, field.name) for field in schema])


def _of(kind: pa.DataType, name: str) -> TypeInformation:
    if kind in _KINDS:
        return _KINDS[kind]()
    if pa.types.is_timestamp(kind):
        return Types.SQL_TIMESTAMP()
    if pa.types.is_date32(kind):
        return Types.SQL_DATE()
    if pa.types.is_list(kind):
        return Types.OBJECT_ARRAY(_of(kind.value_type, name))
    if pa.types.is_struct(kind):
        return row_type_of(pa.schema(list(kind)))
    raise ConfigError(f"column {name!r} is {kind}, for which JSON has no form; cast it to a text or a number")
