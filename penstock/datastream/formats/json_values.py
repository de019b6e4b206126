"""Values of each type from and to what the ``json`` module reads and writes.

:func:`reader_of` and :func:`writer_of` answer with a function of one value, put together once per
type; a reader of ``None`` means that JSON's own value is right already.

Python's ``json`` module would change decimals of many digits, and what is no number.  Reading:
a number becomes a float before anybody can make a decimal of it, so it keeps its text where a type has
decimals.  Writing: the module knows no decimals, so one that no float equals is written as text behind a
mark, which is taken away with its quotes.  NaN and the infinities are no JSON; as in Flink they are text.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
import secrets
from collections.abc import Callable
from decimal import Decimal
from typing import Any, cast

from penstock.core.durations import Instant
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
from penstock.datastream.formats.row_values import row_values, whole_number_reader

_MARK = secrets.token_hex(16)
"""Drawn by each process: no text of a user's begins with it."""
_MARKED = re.compile(f'"{_MARK}([^"]*)"')
_LONGEST = 4000
"""Digits of a whole number that Python turns into text without being told that it may."""
_NAMES = {math.inf: "Infinity", -math.inf: "-Infinity"}
Reader = Callable[[Any], Any]
Writer = Callable[[Any], Any]
_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
_FORMATS: dict[str, Callable[[], TypeInformation[Any]]] = {
    "date-time": Types.SQL_TIMESTAMP,
    "date": Types.SQL_DATE,
    "time": Types.SQL_TIME,
}


class WrittenFloat(float):
    """A float that knows how it was written."""

    text: str

    def __new__(cls, text: str) -> WrittenFloat:
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return (float, (float(self),))


def has_decimals(kind: TypeInformation) -> bool:
    """Whether values of this type have decimals in them."""
    if isinstance(kind, BasicTypeInfo):
        return kind.basic_type is BasicType.BIG_DEC
    if isinstance(kind, TupleTypeInfo):
        return any(map(has_decimals, kind.get_field_types()))
    if isinstance(kind, MapTypeInfo):
        return has_decimals(kind.value_type)
    element = getattr(kind, "element_type", None)
    return element is not None and has_decimals(element)


def read_decimal(value: Any) -> Decimal:
    """The decimal that was written."""
    return Decimal(value.text if isinstance(value, WrittenFloat) else str(value))


def write_decimal(value: Decimal) -> Any:
    """A number for the ``json`` module, or text for :func:`encoded` to take the mark from."""
    if not value.is_finite():
        return str(value)
    if value == value.to_integral_value():
        # A few characters, such as 1E+999999999, may stand for more digits than there is memory.
        return int(value) if value.adjusted() < _LONGEST else f"{_MARK}{value}"
    number = float(value)
    return number if Decimal(repr(number)) == value else f"{_MARK}{value}"


def encoded(found: Any, encode: Callable[[Any], str]) -> str:
    """JSON of what :func:`write_decimal` and others made; ``encode`` must refuse what is no number."""
    try:
        text = encode(found)
    except ValueError:
        text = encode(_named(found))
    return _MARKED.sub(r"\1", text) if _MARK in text else text


def _named(found: Any) -> Any:
    """The same with the names of those that are no numbers."""
    if isinstance(found, dict):
        return {key: _named(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [_named(value) for value in found]
    return found if not isinstance(found, float) or math.isfinite(found) else _NAMES.get(found, "NaN")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _boolean(value: Any) -> bool:
    return value if isinstance(value, bool) else {"true": True, "false": False}[str(value).lower()]


def _timestamp(value: str) -> dt.datetime:
    return _in_utc(dt.datetime.fromisoformat(value))


def _in_utc(moment: dt.datetime) -> dt.datetime:
    return moment.astimezone(dt.UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _instant(value: str) -> Instant:
    moment = dt.datetime.fromisoformat(value)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    since = aware - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return Instant(since.days * 86400 + since.seconds, since.microseconds * 1000)


def _time(value: str) -> dt.time:
    return dt.time.fromisoformat(value).replace(tzinfo=None)


_READ_BASIC: dict[BasicType, Reader] = {
    BasicType.STRING: _text,
    BasicType.CHAR: _text,
    BasicType.BOOLEAN: _boolean,
    BasicType.FLOAT: float,
    BasicType.DOUBLE: float,
    BasicType.BIG_DEC: read_decimal,
    BasicType.INSTANT: _instant,
}
_READ_TIME: dict[type[TypeInformation], Reader] = {
    DateTypeInfo: dt.date.fromisoformat,
    TimeTypeInfo: _time,
    TimestampTypeInfo: _timestamp,
}


def reader_of(kind: TypeInformation, strict: bool = False) -> Reader | None:
    """Turns a value of JSON into one of ``kind``; never called with ``None``."""
    if isinstance(kind, BasicTypeInfo):
        return _READ_BASIC.get(kind.basic_type) or whole_number_reader(kind.basic_type)
    if type(kind) in _READ_TIME:
        return _READ_TIME[type(kind)]
    if kind == _BYTES:
        return base64.b64decode
    if isinstance(kind, RowTypeInfo):
        return _row_reader(kind, strict)
    if isinstance(kind, TupleTypeInfo):
        each = [_nullable(reader_of(field, strict)) for field in kind.get_field_types()]
        return lambda values: tuple(read(value) for read, value in zip(each, values, strict=True))
    if isinstance(kind, MapTypeInfo):
        read_value = _nullable(reader_of(kind.value_type, strict))
        read_key = _nullable(reader_of(kind.key_type, strict))
        return lambda found: {read_key(key): read_value(value) for key, value in found.items()}
    element = getattr(kind, "element_type", None)
    if element is None:
        return None
    read_element = _nullable(reader_of(element, strict))
    return lambda values: [read_element(value) for value in values]


def _nullable(read: Reader | None) -> Reader:
    if read is None:
        return lambda value: value
    return lambda value: None if value is None else read(value)


def _row_reader(kind: RowTypeInfo, strict: bool) -> Reader:
    names = tuple(kind.get_field_names())
    each = [_nullable(reader_of(field, strict)) for field in kind.get_field_types()]

    def read_row(found: dict[str, Any]) -> Row:
        values = [found[name] if strict else found.get(name) for name in names]
        return Row.many(names, [[read(value) for read, value in zip(each, values, strict=True)]])[0]

    return read_row


def _same(value: Any) -> Any:
    return value


_WRITE_BASIC: dict[BasicType, Writer] = {
    BasicType.BIG_DEC: write_decimal,
    BasicType.INSTANT: lambda value: (
        dt.datetime.fromtimestamp(value.seconds, dt.UTC)
        .replace(microsecond=value.nanos // 1000)
        .strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    ),
}


def writer_of(kind: TypeInformation) -> Writer:
    """Turns a value of ``kind``, or ``None``, into what the ``json`` module writes."""
    plain = _writer(kind)
    return plain if plain is _same else lambda value: None if value is None else plain(value)


def _writer(kind: TypeInformation) -> Writer:
    if isinstance(kind, BasicTypeInfo):
        return _WRITE_BASIC.get(kind.basic_type, _same)
    if isinstance(kind, DateTypeInfo):
        return lambda value: value.isoformat()
    if isinstance(kind, TimeTypeInfo):
        return lambda value: f"{value.isoformat()}Z"
    if isinstance(kind, TimestampTypeInfo):
        return lambda value: f"{_in_utc(value).isoformat(sep='T')}Z"
    if kind == _BYTES:
        return lambda value: base64.b64encode(value).decode()
    if isinstance(kind, RowTypeInfo):
        return _row_writer(kind)
    if isinstance(kind, TupleTypeInfo):
        parts = [writer_of(field) for field in kind.get_field_types()]
        return lambda values: [write(value) for write, value in zip(parts, values, strict=True)]
    if isinstance(kind, MapTypeInfo):
        write_value = writer_of(kind.value_type)
        return lambda found: {str(key): write_value(value) for key, value in found.items()}
    element = getattr(kind, "element_type", None)
    if element is None:
        return _same
    write_element = writer_of(element)
    return lambda values: [write_element(value) for value in values]


def _row_writer(kind: RowTypeInfo) -> Writer:
    """Writes the first fields of a row, as many as the type has: so a key is made of the row's beginning."""
    names = tuple(kind.get_field_names())
    each = [writer_of(field) for field in kind.get_field_types()]

    def write_row(row: Any) -> dict[str, Any]:
        values = tuple(row_values(row))
        if len(values) < len(names):
            known = ", ".join(names)
            raise ValueError(f"{len(values)} values for {len(names)} fields ({known}): {row!r:.200}")
        return {name: write(value) for name, write, value in zip(names, each, values, strict=False)}

    return write_row


def row_type_of_json_schema(text: str) -> RowTypeInfo:
    """The row type that a JSON schema of an object describes."""
    try:
        schema = json.loads(text)
    except ValueError as e:
        raise ConfigError(f"the JSON schema is not JSON: {e}") from None
    found = _type_of_schema(schema)
    if not isinstance(found, RowTypeInfo):
        raise ConfigError(f"the JSON schema must describe an object with properties: {text:.200}")
    return found


def _type_of_schema(schema: dict[str, Any]) -> TypeInformation:
    declared = schema.get("type")
    if isinstance(declared, list):
        declared = next((name for name in declared if name != "null"), None)
    match declared:
        case "object":
            fields = cast(dict[str, Any], schema.get("properties", {}))
            return Types.ROW_NAMED(list(fields), [_type_of_schema(field) for field in fields.values()])
        case "array":
            return Types.OBJECT_ARRAY(_type_of_schema(schema.get("items", {})))
        case "number":
            return Types.BIG_DEC()
        case "integer":
            return Types.BIG_INT()
        case "boolean":
            return Types.BOOLEAN()
        case "string":
            if schema.get("contentEncoding") == "base64":
                return _BYTES
            return _FORMATS.get(schema.get("format", ""), Types.STRING)()
        case _:
            raise ConfigError(
                f"the JSON schema uses type {declared!r}; known are object, array, number, integer, "
                "boolean and string"
            )
