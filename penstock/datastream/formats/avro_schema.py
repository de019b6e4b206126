"""An Avro schema, parsed; travels by its text.

Its types and values are as rows have them.  :func:`reader_of` and :func:`writer_of` answer with a
function of one value between what ``fastavro`` knows (dicts, aware datetimes) and what rows hold; put
together once per schema.  Schemas are those that ``fastavro`` has parsed: all names in them are full names.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.core.errors import ConfigError
from penstock.core.optional import require
from penstock.core.row import Row
from penstock.core.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.datastream.formats.row_values import row_values

Convert = Callable[[Any], Any]
Named = dict[str, Any]
"""Records, enums and fixed types that were defined so far, by name."""

_BASIC: dict[str, Callable[[], TypeInformation]] = {
    "string": Types.STRING,
    "boolean": Types.BOOLEAN,
    "int": Types.INT,
    "long": Types.LONG,
    "float": Types.FLOAT,
    "double": Types.DOUBLE,
    "enum": Types.STRING,
}
_LOGICAL: dict[str, Callable[[], TypeInformation]] = {
    "date": Types.SQL_DATE,
    "time-millis": Types.SQL_TIME,
    "time-micros": Types.SQL_TIME,
    "timestamp-millis": Types.SQL_TIMESTAMP,
    "timestamp-micros": Types.SQL_TIMESTAMP,
    "local-timestamp-millis": Types.SQL_TIMESTAMP,
    "local-timestamp-micros": Types.SQL_TIMESTAMP,
    "decimal": Types.BIG_DEC,
    "uuid": Types.PICKLED_BYTE_ARRAY,
}


def row_type_of(schema: Any) -> RowTypeInfo:
    """The row type of a schema, which must be that of a record."""
    found = _type_of(schema, {})
    if not isinstance(found, RowTypeInfo):
        raise ConfigError(f"an Avro schema for rows must be that of a record, not {schema!r:.200}")
    return found


def reader_of(schema: Any) -> Convert:
    """Turns what ``fastavro`` reads into the value of a row."""
    return _converter(schema, {}, _Reading()) or _same


def writer_of(schema: Any) -> Convert:
    """Turns the value of a row into what ``fastavro`` writes."""
    return _converter(schema, {}, _Writing()) or _same


def _same(value: Any) -> Any:
    return value


def resolved(schema: Any, named: Named) -> Any:
    """The definition that a name stands for; definitions are remembered."""
    if isinstance(schema, str):
        return named.get(schema, {"type": schema})
    if isinstance(schema, list):
        kinds = [kind for kind in schema if kind != "null"]
        return resolved(kinds[0], named) if len(kinds) == 1 else {"type": "union"}
    if isinstance(schema["type"], dict | list):
        return resolved(schema["type"], named)
    if schema["type"] in ("record", "enum", "fixed"):
        named[schema["name"]] = schema
    return schema


def _type_of(schema: Any, named: Named, within: tuple[str, ...] = ()) -> TypeInformation:
    found = resolved(schema, named)
    kind = found["type"]
    logical = found.get("logicalType")
    if logical in _LOGICAL:
        return _LOGICAL[logical]()
    if kind in _BASIC:
        return _BASIC[kind]()
    match kind:
        case "record":
            name, fields = found["name"], found["fields"]
            if name in within:
                raise ConfigError(f"the Avro record {name!r} holds itself, and a row type cannot")
            types = [_type_of(field["type"], named, (*within, name)) for field in fields]
            return Types.ROW_NAMED([field["name"] for field in fields], types)
        case "array":
            return Types.OBJECT_ARRAY(_type_of(found["items"], named, within))
        case "map":
            return Types.MAP(Types.STRING(), _type_of(found["values"], named, within))
        case "bytes" | "fixed":
            return Types.PRIMITIVE_ARRAY(Types.BYTE())
        case _:
            return Types.PICKLED_BYTE_ARRAY()


class _Reading:
    """Values as rows hold them."""

    def record(self, names: tuple[str, ...], each: list[Convert | None]) -> Convert:
        def read(found: dict[str, Any]) -> Row:
            values = [found[name] for name in names]
            return Row.many(names, [_each(values, each)])[0]

        return read

    def timestamp(self) -> Convert:
        return lambda moment: moment.astimezone(dt.UTC).replace(tzinfo=None)


class _Writing:
    """Values as ``fastavro`` takes them."""

    def record(self, names: tuple[str, ...], each: list[Convert | None]) -> Convert:
        def write(row: Any) -> dict[str, Any]:
            return dict(zip(names, _each(list(row_values(row)), each), strict=True))

        return write

    def timestamp(self) -> Convert:
        return lambda moment: moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment


def _each(values: list[Any], each: list[Convert | None]) -> list[Any]:
    return [
        value if value is None or convert is None else convert(value)
        for value, convert in zip(values, each, strict=True)
    ]


def _converter(schema: Any, named: Named, way: _Reading | _Writing) -> Convert | None:
    """The conversion of values that are not ``None``; ``None`` if they stay as they are."""
    found = resolved(schema, named)
    if found.get("logicalType") in ("timestamp-millis", "timestamp-micros"):
        return way.timestamp()
    match found["type"]:
        case "record":
            fields = found["fields"]
            each = [_converter(field["type"], named, way) for field in fields]
            return way.record(tuple(field["name"] for field in fields), each)
        case "array":
            inner = _converter(found["items"], named, way)
            return None if inner is None else lambda values: _each(values, [inner] * len(values))
        case "map":
            inner = _converter(found["values"], named, way)
            if inner is None:
                return None
            return lambda found: dict(
                zip(found, _each(list(found.values()), [inner] * len(found)), strict=True)
            )
        case _:
            return None


class AvroSchema:
    """A parsed schema; ``text`` is its JSON."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.parsed: Any = _parsed(text)

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """A schema out of its JSON."""
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """A schema out of a file of JSON."""
        return AvroSchema(Path(file_path).read_text())

    def row_type(self) -> RowTypeInfo:
        """The type of rows for records of this schema."""
        return row_type_of(self.parsed)

    def __reduce__(self) -> tuple[Any, ...]:
        return (AvroSchema, (self.text,))


def _parsed(text: str) -> Any:
    fastavro = require("fastavro", "kafka")
    try:
        schema = json.loads(text)
    except ValueError as e:
        raise ConfigError(f"the Avro schema is not JSON: {e}") from None
    try:
        return fastavro.parse_schema(schema)
    except (fastavro.schema.SchemaParseException, ValueError, LookupError, TypeError) as e:
        raise ConfigError(f"the Avro schema cannot be used: {e}") from None
