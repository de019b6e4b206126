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
        self._dialect = CsvDialect()
        self._separators: set[str] = set()

    def build(self) -> CsvSchema:
        """The schema."""
        if len(self._separators) > 1:
            raise ConfigError(
                f"the array columns of a CSV schema share one separator, not {sorted(self._separators)}"
            )
        return CsvSchema(pa.schema(self._columns), self._dialect)

    def add_array_column(
        self, name: str, separator: str = ";", element_type: Any | None = None
    ) -> CsvSchemaBuilder:
        """A list of values in one cell, of text unless told otherwise."""
        self._separators.add(separator)
        self._columns.append((name, pa.list_(_arrow(element_type or Types.STRING()))))
        return self._with(array_delimiter=separator)

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
        if any(pa.types.is_list(column.type) for column in schema.columns):
            self._separators.add(schema.dialect.array_delimiter)
            return self._with(array_delimiter=schema.dialect.array_delimiter)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        """Without columns again."""
        self._columns, self._separators = [], set()
        return self

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Whether lines that begin with ``#`` are left out."""
        return self._with(comments=allow)

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        """Refused: a line with more values than there are columns is a bad record here."""
        raise ConfigError("CSV columns must be declared; there is no set_any_property_name")

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Refused, as lists need one."""
        raise ConfigError("array columns need a separator; declare the column as text instead")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Read the array column at ``index`` as text."""
        self._columns[index] = (self._columns[index][0], pa.string())
        return self

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Between the elements of array columns."""
        self._separators = {separator}
        return self._with(array_delimiter=separator)

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Between values; ``,`` unless set."""
        return self._with(delimiter=char)

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """No character has a special meaning before another. The default."""
        return self._with(escape=None)

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Before characters to be taken literally."""
        return self._with(escape=char)

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        """Accepted if it is a line feed, alone or behind a carriage return: both are read."""
        if separator not in ("\n", "\r\n"):
            raise ConfigError(f"lines of CSV files end in a line feed, not in {separator!r}")
        return self

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """The text that means ``None``."""
        return self._with(null_values=(null_value,))

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Values are never quoted."""
        return self._with(quote=None)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Around values; ``"`` unless set."""
        return self._with(quote=char)

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Whether the first line is left out, whatever it says."""
        return self._with(header=skip, names_in_header=not skip)

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Accepted: a header must always name all columns of the schema."""
        return self

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Whether the first line names the columns."""
        return self._with(header=use, names_in_header=True)

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
