"""PyFlink's ``datastream.formats.json``: rows as JSON objects.

The converters of a type are put together once, when the schema is built; per record only they run.

Many messages become columns at once, for the types where JSON's values are the columns' own.  The records are
those that :class:`JsonRowDeserializationSchema` gives one by one. Messages that the quick way does not take
(a number in quotes, a float for a whole number) are left to it, and with them all that came in the same poll.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

from penstock.common import typeinfo
from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.row import Row
from penstock.core.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TypeInformation
from penstock.datastream.formats.json_values import (
    Reader,
    WrittenFloat,
    encoded,
    has_decimals,
    reader_of,
    row_type_of_json_schema,
    writer_of,
)
from penstock.formats.json_values import parse_columns
from penstock.formats.value_format import SchemaFormat, ValueFormat

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

# PyFlink has these here, too, from its other modules.
__all__ += ["typeinfo"]

_PLAIN = {
    BasicType.STRING: pa.string(),
    BasicType.BOOLEAN: pa.bool_(),
    BasicType.BYTE: pa.int8(),
    BasicType.SHORT: pa.int16(),
    BasicType.INT: pa.int32(),
    BasicType.LONG: pa.int64(),
    BasicType.DOUBLE: pa.float64(),
}
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
"""Half of a character that takes two escapes. Others are no reason to look at the values again."""


def plain_schema(row_type: RowTypeInfo) -> pa.Schema | None:
    """The columns of a row type, if JSON's values need no conversion for any of its fields."""
    fields = []
    for name, kind in zip(row_type.get_field_names(), row_type.get_field_types(), strict=True):
        if not isinstance(kind, BasicTypeInfo) or kind.basic_type not in _PLAIN:
            return None
        fields.append(pa.field(name, _PLAIN[kind.basic_type]))
    return pa.schema(fields)


class JsonRows(SchemaFormat):
    """The quick way if there is one, and the schema's own for the rest."""

    def __init__(self, schema: Any, row_type: RowTypeInfo, every_field: bool) -> None:
        super().__init__(schema)
        self._columns = plain_schema(row_type)
        self._every_field = every_field

    @property
    def is_by_value(self) -> bool:
        return self._columns is None

    def decode(self, values: pa.BinaryArray) -> pa.RecordBatch | list[Any]:
        found = self._parse(values)
        return super().decode(values) if found is None else found

    def _parse(self, values: pa.BinaryArray) -> pa.RecordBatch | None:
        if self._columns is None or len(values) == 0:
            return None
        try:
            found = parse_columns(values.cast(pa.string()), self._columns)
        except pa.ArrowInvalid:
            return None
        if found is None or (self._every_field and any(column.null_count for column in found.columns)):
            return None
        return found


def _row_type(type_info: TypeInformation | None, wanted_by: str) -> RowTypeInfo:
    if not isinstance(type_info, RowTypeInfo):
        raise ConfigError(
            f"{wanted_by} needs the type of its rows, not {type_info!r}; "
            "pass Types.ROW_NAMED([...names], [...types])"
        )
    return type_info


class JsonRowDeserializationSchema(DeserializationSchema):
    """JSON objects to rows of a declared type. Fields that the type does not name are dropped."""

    def __init__(self, row_type: RowTypeInfo, fail_on_missing_field: bool, ignore_errors: bool) -> None:
        self._row_type = row_type
        self._strict = fail_on_missing_field
        self._ignore_errors = ignore_errors
        self._names = tuple(row_type.get_field_names())
        self._readers: list[Reader | None] = [
            reader_of(field, fail_on_missing_field) for field in row_type.get_field_types()
        ]
        self._loads = json.JSONDecoder(parse_float=WrittenFloat if has_decimals(row_type) else None).decode

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Begins a schema."""
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, data: bytes) -> Row | None:
        try:
            found = self._loads(data.decode(json.detect_encoding(data)))
            if _HALF.search(data):  # without the other half no later step could write it
                json.dumps(found, ensure_ascii=False).encode()
            return Row.many(self._names, (self._values(found),))[0]
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError) as e:
            if self._ignore_errors:
                return None
            raise ConnectorError(
                f"cannot read {bytes(data)!r:.200} as JSON of {self._row_type!r}: {e}. "
                "To skip such messages build the schema with ignore_parse_errors()"
            ) from e

    def get_produced_type(self) -> TypeInformation:
        return self._row_type

    def value_format(self) -> ValueFormat:
        """The same for many messages at once, as columns where the type allows."""
        return JsonRows(self, self._row_type, self._strict)

    def __reduce__(self) -> tuple[Any, ...]:
        return (JsonRowDeserializationSchema, (self._row_type, self._strict, self._ignore_errors))

    def _values(self, found: dict[str, Any]) -> list[Any]:
        if self._strict:
            values = [found[name] for name in self._names]
        else:
            get = found.get
            values = [get(name) for name in self._names]
        return [
            value if value is None or read is None else read(value)
            for value, read in zip(values, self._readers, strict=True)
        ]

    class Builder:
        """Collects the settings of a :class:`JsonRowDeserializationSchema`."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None
            self._fail_on_missing = False
            self._ignore_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """The type of the rows."""
            self._type_info = type_info
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """The type of the rows, as a JSON schema of an object."""
            self._type_info = row_type_of_json_schema(json_schema)
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """A field that is absent is an error; otherwise it is ``None``."""
            self._fail_on_missing = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Skip messages that cannot be read; otherwise they fail the job."""
            self._ignore_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """The schema."""
            if self._fail_on_missing and self._ignore_errors:
                raise ConfigError("choose fail_on_missing_field() or ignore_parse_errors(), not both")
            row_type = _row_type(self._type_info, "JsonRowDeserializationSchema")
            return JsonRowDeserializationSchema(row_type, self._fail_on_missing, self._ignore_errors)


class JsonRowSerializationSchema(SerializationSchema):
    """Rows of a declared type to JSON objects."""

    def __init__(self, row_type: RowTypeInfo) -> None:
        self._row_type = row_type
        self._write = writer_of(row_type)
        self._encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Begins a schema."""
        return JsonRowSerializationSchema.Builder()

    def serialize(self, value: Any) -> bytes:
        return encoded(self._write(value), self._encode).encode()

    def __reduce__(self) -> tuple[Any, ...]:
        return (JsonRowSerializationSchema, (self._row_type,))

    class Builder:
        """Collects the settings of a :class:`JsonRowSerializationSchema`."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """The type of the rows."""
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """The schema."""
            return JsonRowSerializationSchema(_row_type(self._type_info, "JsonRowSerializationSchema"))
