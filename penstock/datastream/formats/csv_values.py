"""Values of each type from and to the text of a CSV cell."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from penstock.core.errors import ConfigError
from penstock.core.row import Row
from penstock.core.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from penstock.datastream.formats.row_values import row_values
from penstock.datastream.formats.whole_numbers import whole_number_reader

_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


def _boolean(text: str) -> bool:
    return {"true": True, "false": False, "1": True, "0": False}[text.strip().lower()]


_READ_BASIC: dict[BasicType, Callable[[str], Any]] = {
    BasicType.STRING: str,
    BasicType.CHAR: str,
    BasicType.BOOLEAN: _boolean,
    BasicType.FLOAT: float,
    BasicType.DOUBLE: float,
    BasicType.BIG_DEC: Decimal,
}
_READ_TIME: dict[type[TypeInformation], Callable[[str], Any]] = {
    DateTypeInfo: dt.date.fromisoformat,
    TimeTypeInfo: dt.time.fromisoformat,
    TimestampTypeInfo: dt.datetime.fromisoformat,
}


def _refuse(kind: TypeInformation) -> ConfigError:
    return ConfigError(f"CSV has no form for a field of type {kind!r}; use JSON, or map it to text first")


def reader_of(kind: TypeInformation, array_delimiter: str) -> Callable[[str], Any]:
    """Turns the text of a cell into a value of ``kind``."""
    if isinstance(kind, BasicTypeInfo) and kind.basic_type is not BasicType.INSTANT:
        return _READ_BASIC.get(kind.basic_type) or whole_number_reader(kind.basic_type)
    if type(kind) in _READ_TIME:
        return _READ_TIME[type(kind)]
    if kind == _BYTES:
        return base64.b64decode
    if isinstance(kind, RowTypeInfo):
        names = kind.get_field_names()
        each = [reader_of(field, array_delimiter) for field in kind.get_field_types()]
        return lambda text: Row.many(
            names,
            [[read(part) for read, part in zip(each, text.split(array_delimiter), strict=True)]],
        )[0]
    element = getattr(kind, "element_type", None)
    if element is None or isinstance(kind, MapTypeInfo | TupleTypeInfo):
        raise _refuse(kind)
    read_element = reader_of(element, array_delimiter)
    return lambda text: [read_element(part) for part in text.split(array_delimiter)] if text else []


def writer_of(kind: TypeInformation, array_delimiter: str) -> Callable[[Any], str]:
    """Turns a value of ``kind`` into the text of a cell."""
    if isinstance(kind, BasicTypeInfo) and kind.basic_type is not BasicType.INSTANT:
        return (lambda value: str(value).lower()) if kind.basic_type is BasicType.BOOLEAN else str
    if isinstance(kind, DateTypeInfo | TimeTypeInfo):
        return lambda value: str(value.isoformat())
    if isinstance(kind, TimestampTypeInfo):
        return lambda value: str(value.isoformat(sep=" "))
    if kind == _BYTES:
        return lambda value: base64.b64encode(value).decode()
    if isinstance(kind, RowTypeInfo):
        each = [writer_of(field, array_delimiter) for field in kind.get_field_types()]
        return lambda row: array_delimiter.join(
            write(value) for write, value in zip(each, row_values(row), strict=True)
        )
    element = getattr(kind, "element_type", None)
    if element is None or isinstance(kind, MapTypeInfo | TupleTypeInfo):
        raise _refuse(kind)
    write_element = writer_of(element, array_delimiter)
    return lambda values: array_delimiter.join(map(write_element, values))
