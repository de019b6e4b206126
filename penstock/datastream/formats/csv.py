"""PyFlink's ``datastream.formats.csv``: rows as lines of separated values."""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import dataclass, replace
from typing import Any

from penstock.common.serialization import (
    BulkWriterFactory,
    DeserializationSchema,
    RowDataBulkWriterFactory,
    SerializationSchema,
)
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.row import Row
from penstock.core.typeinfo import RowTypeInfo, TypeInformation
from penstock.datastream.connectors.file_system import StreamFormat
from penstock.datastream.formats.csv_schema import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvSchema,
    CsvSchemaBuilder,
)
from penstock.datastream.formats.csv_values import reader_of, writer_of
from penstock.datastream.formats.row_values import row_values

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


def _row_type(type_info: TypeInformation) -> RowTypeInfo:
    if not isinstance(type_info, RowTypeInfo):
        raise ConfigError(f"CSV needs the type of its rows, such as Types.ROW([...]), not {type_info!r}")
    return type_info


def _one_character(name: str, value: str) -> str:
    if len(value) != 1:
        raise ConfigError(f"the {name} of a CSV schema must be one character, not {value!r}")
    return value


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

    class Builder:
        """Collects the settings of a :class:`CsvRowDeserializationSchema`."""

        def __init__(self, type_info: TypeInformation) -> None:
            self._row_type = _row_type(type_info)
            self._settings = _Settings()

        def set_field_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Between values; ``,`` unless set."""
            return self._with(delimiter=_one_character("field delimiter", delimiter))

        def set_allow_comments(self, allow_comments: bool) -> CsvRowDeserializationSchema.Builder:
            """Whether lines that begin with ``#`` are skipped."""
            return self._with(allow_comments=allow_comments)

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Between the elements of an array or nested row; ``;`` unless set."""
            return self._with(array_delimiter=delimiter)

        def set_quote_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """Around values; ``"`` unless set."""
            return self._with(quote=_one_character("quote character", c))

        def set_escape_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """Before characters to be taken literally; none unless set."""
            return self._with(escape=_one_character("escape character", c))

        def set_null_literal(self, null_literal: str) -> CsvRowDeserializationSchema.Builder:
            """The text that means ``None``."""
            return self._with(null_literal=null_literal)

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> CsvRowDeserializationSchema.Builder:
            """Whether lines that cannot be read are skipped instead of failing the job."""
            return self._with(ignore_errors=ignore_parse_errors)

        def build(self) -> CsvRowDeserializationSchema:
            """The schema."""
            return CsvRowDeserializationSchema(self._row_type, self._settings)

        def _with(self, **changes: Any) -> CsvRowDeserializationSchema.Builder:
            self._settings = replace(self._settings, **changes)
            return self


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

    class Builder:
        """Collects the settings of a :class:`CsvRowSerializationSchema`."""

        def __init__(self, type_info: TypeInformation) -> None:
            self._row_type = _row_type(type_info)
            self._settings = _Settings()

        def set_field_delimiter(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Between values; ``,`` unless set."""
            return self._with(delimiter=_one_character("field delimiter", c))

        def set_line_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """After each row; a line feed unless set, may be empty."""
            return self._with(line_delimiter=delimiter)

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Between the elements of an array or nested row; ``;`` unless set."""
            return self._with(array_delimiter=delimiter)

        def disable_quote_character(self) -> CsvRowSerializationSchema.Builder:
            """Never quote; values that would need it are an error unless there is an escape."""
            return self._with(quote=None)

        def set_quote_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Around values that need it; ``"`` unless set."""
            return self._with(quote=_one_character("quote character", c))

        def set_escape_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Before characters to be taken literally; none unless set."""
            return self._with(escape=_one_character("escape character", c))

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            """The text that stands for ``None``; empty unless set."""
            return self._with(null_literal=s)

        def build(self) -> CsvRowSerializationSchema:
            """The schema."""
            return CsvRowSerializationSchema(self._row_type, self._settings)

        def _with(self, **changes: Any) -> CsvRowSerializationSchema.Builder:
            self._settings = replace(self._settings, **changes)
            return self
