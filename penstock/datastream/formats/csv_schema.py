"""PyFlink's ``CsvSchema`` and what reads and writes files with it.

Column types are ``Types.INT()`` and so on, or Arrow's.  Of Jackson's many settings, those that files of
separated values need are here; the others say that they are not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from penstock.connectors.files.column_parts import CsvParts
from penstock.connectors.files.csv import CsvDialect, CsvFormat
from penstock.core.errors import ConfigError
from penstock.core.typeinfo import TypeInformation, Types, to_arrow


@dataclass(frozen=True, slots=True)
class CsvSchema:
    """The columns of CSV files and how they are written. Made by ``CsvSchema.builder()``."""

    columns: pa.Schema
    dialect: CsvDialect

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """No columns yet."""
        return CsvSchemaBuilder()

    def size(self) -> int:
        """How many columns there are."""
        return len(self.columns)

    def __len__(self) -> int:
        return self.size()


class CsvSchemaBuilder:
    """Builds a :class:`CsvSchema`."""

    def __init__(self) -> None:
        self._columns: list[tuple[str, Any]] = []
        self._dialect = CsvDialect(empty_text=True, multiline=True)
        self._separators: dict[str, str] = {}

    def build(self) -> CsvSchema:
        """The schema."""
        dialect = replace(self._dialect, array_delimiters=tuple(self._separators.items()))
        return CsvSchema(pa.schema(self._columns), dialect)

    def add_array_column(
        self, name: str, separator: str = ";", element_type: Any | None = None
    ) -> CsvSchemaBuilder:
        """A list of values in one cell, of text unless told otherwise."""
        self._separators[name] = separator
        self._columns.append((name, pa.list_(_arrow(element_type or Types.STRING()))))
        return self

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """``true`` or ``false``."""
        self._columns.append((name, pa.bool_()))
        return self

    def add_number_column(self, name: str, number_type: Any | None = None) -> CsvSchemaBuilder:
        """A number, ``Types.LONG()`` unless told otherwise."""
        self._columns.append((name, _arrow(number_type or Types.LONG())))
        return self

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Text."""
        self._columns.append((name, pa.string()))
        return self

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """The columns of another schema."""
        self._columns += [(column.name, column.type) for column in schema.columns]
        self._separators.update(schema.dialect.array_delimiters)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        """Without columns again."""
        self._columns, self._separators = [], {}
        return self

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Whether lines that begin with ``#`` are left out."""
        return self._with(comments=allow)

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        """Refused: a line with more values than there are columns is a bad record here."""
        raise ConfigError("CSV columns must be declared; there is no set_any_property_name")

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Accepted without effect, as in Flink: every array column has a separator of its own."""
        return self

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Accepted without effect, as in Flink: every array column has a separator of its own."""
        return self

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Accepted without effect, as in Flink: every array column has a separator of its own."""
        return self

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Between values; ``,`` unless set."""
        return self._with(delimiter=char)

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """No character has a special meaning before another. The default."""
        return self._with(escape=None, multiline=self._dialect.quote is not None)

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Before characters to be taken literally."""
        return self._with(escape=char, multiline=False)

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        """What is written: a line feed, alone or behind a carriage return. Both are read."""
        return self._with(line_end=separator)

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """The text that means ``None``, in quotes or not; without one, empty text is empty text."""
        return self._with(null_literal=null_value)

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Values are never quoted; those that would need it are an error unless there is an escape."""
        return self._with(quote=None, multiline=False)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Around values; ``"`` unless set."""
        return self._with(quote=char, multiline=self._dialect.escape is None)

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Whether the first line is left out, whatever it says."""
        return self._with(header=skip, names_in_header=False)

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Whether the names in a header must be those of the schema, in its order."""
        return self._with(strict_header=strict)

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Whether files have a first line of names. As in Flink, the place of a column decides."""
        return self._with(header=use, names_in_header=False)

    def size(self) -> int:
        """How many columns there are so far."""
        return len(self._columns)

    def __len__(self) -> int:
        return self.size()

    def _with(self, **changes: Any) -> CsvSchemaBuilder:
        self._dialect = replace(self._dialect, **changes)
        return self


class CsvReaderFormat:
    """Reads CSV files: ``FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), path)``."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvFormat:
        """Records are rows with the names of the columns, in columnar batches."""
        return CsvFormat(schema.columns, schema.dialect)


class CsvBulkWriters:
    """Writes CSV files: ``FileSink.for_bulk_format(path, CsvBulkWriters.for_schema(schema))``."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvParts:
        """For rows, tuples, dictionaries and columns with the names of the schema."""
        return CsvParts(schema.columns, schema.dialect)


def _arrow(kind: Any) -> pa.DataType:
    found = to_arrow(kind) if isinstance(kind, TypeInformation) else kind
    if not isinstance(found, pa.DataType):
        raise ConfigError(f"{kind!r} is no type of a CSV column; use Types.INT() and so on")
    return found
