"""PyFlink's ``datastream.formats.csv``: rows as lines of separated values.

Values of each type go from and to the text of a cell.
"""

from __future__ import annotations

import base64
import csv
import datetime as dt
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Self

from penstock.common.serialization import (
    BulkWriterFactory,
    DeserializationSchema,
    RowDataBulkWriterFactory,
    SerializationSchema,
)
from penstock.core.errors import ConfigError, ConnectorError
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
from penstock.datastream.connectors.file_system import StreamFormat
from penstock.datastream.formats.csv_schema import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvSchema,
    CsvSchemaBuilder,
)
from penstock.datastream.formats.row_values import row_values, whole_number_reader

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]

# PyFlink has these here, too, from its other modules.
__all__ += ["BulkWriterFactory", "RowDataBulkWriterFactory", "StreamFormat"]


# Python's own limit is 128 KB a value, which would make longer ones bad records.
csv.field_size_limit(sys.maxsize)

_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
_READ_TIME: dict[type[TypeInformation], Callable[[str], Any]] = {
    DateTypeInfo: dt.date.fromisoformat,
    TimeTypeInfo: dt.time.fromisoformat,
    TimestampTypeInfo: dt.datetime.fromisoformat,
}


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


@dataclass(frozen=True, slots=True)
class _Settings:
    """How a line is written. ``quote`` of ``None`` turns quoting off."""

    delimiter: str = ","
    array_delimiter: str = ";"
    quote: str | None = '"'
    escape: str | None = None
    null_literal: str | None = None
    line_delimiter: str = "\n"
    allow_comments: bool = False
    ignore_errors: bool = False

    def dialect(self) -> dict[str, Any]:
        """Arguments for the ``csv`` module."""
        quoting = csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE
        return {
            "delimiter": self.delimiter,
            "quotechar": self.quote,
            "escapechar": self.escape,
            "doublequote": True,
            "quoting": quoting,
        }


def _one_character(name: str, value: str) -> str:
    if len(value) != 1:
        raise ConfigError(f"the {name} of a CSV schema must be one character, not {value!r}")
    return value


class _Builder:
    """What both builders of schemas set."""

    def __init__(self, type_info: TypeInformation) -> None:
        if not isinstance(type_info, RowTypeInfo):
            raise ConfigError(f"CSV needs the type of its rows, such as Types.ROW([...]), not {type_info!r}")
        self._row_type = type_info
        self._settings = _Settings()

    def set_array_element_delimiter(self, delimiter: str) -> Self:
        """Between the elements of an array or nested row; ``;`` unless set."""
        return self._with(array_delimiter=delimiter)

    def set_quote_character(self, c: str) -> Self:
        """Around values; ``"`` unless set."""
        return self._with(quote=_one_character("quote character", c))

    def set_escape_character(self, c: str) -> Self:
        """Before characters to be taken literally; none unless set."""
        return self._with(escape=_one_character("escape character", c))

    def _with(self, **changes: Any) -> Self:
        self._settings = replace(self._settings, **changes)
        return self


class CsvRowDeserializationSchema(DeserializationSchema):
    """Lines to rows of a declared type."""

    def __init__(self, row_type: RowTypeInfo, settings: _Settings) -> None:
        self._row_type = row_type
        self._settings = settings
        self._dialect = settings.dialect()
        self._names = tuple(row_type.get_field_names())
        self._readers = [reader_of(field, settings.array_delimiter) for field in row_type.get_field_types()]

    def deserialize(self, data: bytes) -> Row | None:
        try:
            line = data.decode().rstrip("\r\n")
            if self._settings.allow_comments and line.startswith("#"):
                return None
            cells = next(csv.reader(io.StringIO(line, newline=""), **self._dialect))
            if len(cells) != len(self._names):
                raise ValueError(f"{len(cells)} values for {len(self._names)} fields")
            null = self._settings.null_literal
            values = [
                None if cell == null else read(cell) for read, cell in zip(self._readers, cells, strict=True)
            ]
            return Row.many(self._names, (values,))[0]
        except (ValueError, ArithmeticError, LookupError, StopIteration, csv.Error) as e:
            if self._settings.ignore_errors:
                return None
            raise ConnectorError(
                f"cannot read {bytes(data)!r:.200} as CSV of {self._row_type!r}: {e}. "
                "To skip such lines build the schema with set_ignore_parse_errors(True)"
            ) from e

    def get_produced_type(self) -> TypeInformation:
        return self._row_type

    def __reduce__(self) -> tuple[Any, ...]:
        return (CsvRowDeserializationSchema, (self._row_type, self._settings))

    class Builder(_Builder):
        """Collects the settings of a :class:`CsvRowDeserializationSchema`."""

        def set_field_delimiter(self, delimiter: str) -> Self:
            """Between values; ``,`` unless set."""
            return self._with(delimiter=_one_character("field delimiter", delimiter))

        def set_allow_comments(self, allow_comments: bool) -> Self:
            """Whether lines that begin with ``#`` are skipped."""
            return self._with(allow_comments=allow_comments)

        def set_null_literal(self, null_literal: str) -> Self:
            """The text that means ``None``."""
            return self._with(null_literal=null_literal)

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> Self:
            """Whether lines that cannot be read are skipped instead of failing the job."""
            return self._with(ignore_errors=ignore_parse_errors)

        def build(self) -> CsvRowDeserializationSchema:
            """The schema."""
            return CsvRowDeserializationSchema(self._row_type, self._settings)


class CsvRowSerializationSchema(SerializationSchema):
    """Rows of a declared type to lines, each with its line delimiter."""

    def __init__(self, row_type: RowTypeInfo, settings: _Settings) -> None:
        self._row_type = row_type
        self._settings = settings
        self._null = settings.null_literal or ""
        self._dialect = settings.dialect() | {"lineterminator": settings.line_delimiter}
        self._writers = [writer_of(field, settings.array_delimiter) for field in row_type.get_field_types()]

    def serialize(self, value: Any) -> bytes:
        line = io.StringIO(newline="")
        cells = [
            self._null if cell is None else write(cell)
            for write, cell in zip(self._writers, row_values(value), strict=True)
        ]
        csv.writer(line, **self._dialect).writerow(cells)
        return line.getvalue().encode()

    def __reduce__(self) -> tuple[Any, ...]:
        return (CsvRowSerializationSchema, (self._row_type, self._settings))

    class Builder(_Builder):
        """Collects the settings of a :class:`CsvRowSerializationSchema`."""

        def set_field_delimiter(self, c: str) -> Self:
            """Between values; ``,`` unless set."""
            return self._with(delimiter=_one_character("field delimiter", c))

        def set_line_delimiter(self, delimiter: str) -> Self:
            """After each row; a line feed unless set, may be empty."""
            return self._with(line_delimiter=delimiter)

        def disable_quote_character(self) -> Self:
            """Never quote; values that would need it are an error unless there is an escape."""
            return self._with(quote=None)

        def set_null_literal(self, s: str) -> Self:
            """The text that stands for ``None``; empty unless set."""
            return self._with(null_literal=s)

        def build(self) -> CsvRowSerializationSchema:
            """The schema."""
            return CsvRowSerializationSchema(self._row_type, self._settings)
