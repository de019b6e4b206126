"""CSV as columns: lines of separated values of a declared schema.

One line is one record, so that large files can be read in parts and a wrong line is known by itself;
with ``multiline`` quoted values may hold newlines, and files are then read whole.  Text is UTF-8.
Columns of lists hold their elements separated by ``array_delimiter``, or a delimiter of their own.

Lines in a dialect that Arrow does not write (another quote, an escape, a text for null) are written here.
All text is quoted, with quotes inside it doubled and the escape in front of itself, as Flink writes.  Where
quoting is off, a value that needs it is escaped, or else an error: it could not be read back.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from penstock.connectors.files.column_types import parsed_decimals
from penstock.connectors.files.lines import LineFormat, Lines, undecodable
from penstock.core.errors import ConfigError, ConnectorError
from penstock.formats.bad_records import DecodeError

_COMMENT_STARTS = b"# \t"
"""How a line may begin that is a comment."""
_COLUMN_NUMBER = re.compile(r"In CSV column #(\d+): CSV ")


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How the values of a line are written. ``quote`` or ``escape`` of ``None`` turns that off."""

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null_values: tuple[str, ...] = ("",)
    """Texts that mean null where they are not quoted."""
    null_literal: str | None = None
    """The text that means null in every column, quoted or not, and is written for it."""
    empty_text: bool = False
    """Whether an empty cell of text or of a list is empty, as in Flink, and not null."""
    header: bool = False
    """Whether the first line of a file has the names of the columns."""
    names_in_header: bool = True
    """Whether these names say which column is which; if not, the schema's order does."""
    strict_header: bool = False
    """Whether the names must be those of the schema, in its order."""
    multiline: bool = False
    comments: bool = False
    """Whether lines that begin with ``#`` are left out."""
    array_delimiter: str = ";"
    array_delimiters: tuple[tuple[str, str], ...] = ()
    """Delimiters of single columns, by name."""
    line_end: str = "\n"
    """What is written behind a line; both kinds are read."""
    strict_decimals: bool = False
    """Whether decimals are refused that the scale of their column would round."""

    def __post_init__(self) -> None:
        for name in ("delimiter", "quote", "escape"):
            value = getattr(self, name)
            if value is not None and (len(value) != 1 or not value.isascii() or value in "\r\n"):
                raise ConfigError(f"the {name} of CSV files must be one ASCII character, not {value!r}")
        if self.line_end not in ("\n", "\r\n"):
            raise ConfigError(f"lines of CSV files end in a line feed, not in {self.line_end!r}")
        if self.multiline and (self.quote is None or self.escape is not None):
            raise ConfigError(
                "CSV values with newlines must be quoted, with quotes inside them doubled; leave out escape"
            )

    def array_delimiter_of(self, column: str) -> str:
        """What stands between the elements of a list."""
        return dict(self.array_delimiters).get(column, self.array_delimiter)

    @property
    def is_plain(self) -> bool:
        """Whether Arrow writes it."""
        return (self.quote, self.escape, self.null_literal, self.line_end) == ('"', None, None, "\n")


@dataclass(frozen=True, slots=True)
class CsvFormat(LineFormat):
    """Reads CSV files into Arrow columns of ``schema``.

    Columns come in the order of the schema; with a header, by name, and the file may have more of them.
    """

    schema: Any
    dialect: CsvDialect = field(default_factory=CsvDialect)

    def enclosing_quote(self) -> str | None:
        return self.dialect.quote if self.dialect.multiline else None

    def has_header(self) -> bool:
        return self.dialect.header

    def check_header(self, path: str, header: bytes) -> None:
        if self.dialect.strict_header:
            self._check_names(path, header)
        names = self._names(header)
        unknown = [name for name in self.schema.names if name not in names]
        if unknown and header:
            raise ConnectorError(
                f"{path!r} has no column {', '.join(unknown)} in its first line; it has {', '.join(names)}"
            )

    def _check_names(self, path: str, header: bytes) -> None:
        found = self._cells_of(header)
        if found != self.schema.names:
            raise ConnectorError(
                f"{path!r} has the columns {', '.join(found)} in its first line, and the schema has "
                f"{', '.join(self.schema.names)}; leave out set_strict_headers() to take them by their place"
            )

    def _names(self, header: bytes) -> list[str]:
        """The columns of a file, in its order."""
        if not (self.dialect.header and self.dialect.names_in_header):
            names: list[str] = self.schema.names
            return names
        return self._cells_of(header)

    def _cells_of(self, header: bytes) -> list[str]:
        text = header.decode("utf-8-sig").rstrip("\r\n")
        return next(csv.reader([text], delimiter=self.dialect.delimiter, quotechar=self.dialect.quote), [])

    def decode(self, lines: Lines, header: bytes) -> pa.RecordBatch:
        if self.dialect.comments:
            lines = _without_comments(lines)
        names = self._names(header)
        try:
            return self._parse(lines, names, rounding=False)
        except (pa.ArrowInvalid, _OpenQuote):
            pass
        rounding = not self.dialect.strict_decimals and any(map(pa.types.is_decimal, self.schema.types))
        try:
            return self._parse(lines, names, rounding)
        except (pa.ArrowInvalid, _OpenQuote):
            wrong = undecodable(lines, lambda some: self._error_of(some, names, rounding))
            reason = _COLUMN_NUMBER.sub(lambda at: f"column {names[int(at[1])]!r}: ", wrong.reason)
            raise DecodeError(wrong.index, reason) from None

    def _error_of(self, lines: Lines, names: list[str], rounding: bool) -> Exception | None:
        try:
            self._parse(lines, names, rounding)
        except (pa.ArrowInvalid, _OpenQuote) as e:
            return e
        return None

    def _parse(self, lines: Lines, names: list[str], rounding: bool) -> pa.RecordBatch:
        dialect = self.dialect
        # A line of one column that is null is empty, and a record all the same.
        skip_empty = len(names) > 1 or dialect.comments
        if not lines.data.strip(b"\r\n") and (skip_empty or not lines.data):
            return _empty(self.schema)
        self._refuse_open_quotes(lines)
        literal = [] if dialect.null_literal is None else [dialect.null_literal]
        read: Any = pacsv.read_csv(
            pa.BufferReader(lines.data),
            pacsv.ReadOptions(use_threads=False, column_names=names, block_size=len(lines.data) + 1),
            pacsv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char=dialect.quote or False,
                escape_char=dialect.escape or False,
                newlines_in_values=dialect.multiline,
                ignore_empty_lines=skip_empty,
            ),
            pacsv.ConvertOptions(
                column_types={column.name: _cell_type(column.type, rounding) for column in self.schema},
                include_columns=self.schema.names,
                null_values=[*dialect.null_values, *literal],
                strings_can_be_null=not dialect.empty_text,
                quoted_strings_can_be_null=False,
            ),
        )
        arrays = [
            _value(_nulled(read.column(column.name).combine_chunks(), dialect), column, dialect)
            for column in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _refuse_open_quotes(self, lines: Lines) -> None:
        """A quote that is not closed would swallow the lines behind it, as many as happen to be at hand."""
        quote = self.dialect.quote
        if quote is None or self.dialect.escape is not None or quote.encode() not in lines.data:
            return
        quotes = np.frombuffer(lines.data, np.uint8) == ord(quote)
        if np.any(np.add.reduceat(quotes, lines.starts(), dtype=np.int64) % 2):
            raise _OpenQuote("a quote is not closed in its line; for values with newlines choose multiline")


class _OpenQuote(Exception):
    """A line ends inside a quoted value."""


def _empty(schema: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], column.type) for column in schema], schema=schema)


def _cell_type(kind: Any, rounding: bool) -> Any:
    is_text = pa.types.is_nested(kind) or (rounding and pa.types.is_decimal(kind))
    return pa.string() if is_text else kind


def _nulled(column: Any, dialect: CsvDialect) -> Any:
    """Texts that are the literal for null are null, also where they were quoted."""
    if dialect.null_literal is None or not pa.types.is_string(column.type):
        return column
    return pc.if_else(pc.equal(column, dialect.null_literal), pa.scalar(None, pa.string()), column)


def _value(column: Any, field: Any, dialect: CsvDialect) -> Any:
    kind = field.type
    if pa.types.is_decimal(kind) and pa.types.is_string(column.type):
        return parsed_decimals(column, kind)
    if not pa.types.is_nested(kind):
        return column
    parts = pc.split_pattern(column, dialect.array_delimiter_of(field.name))
    empty = pa.array([[]] * len(column), pa.list_(pa.string()))
    return pc.if_else(pc.equal(column, ""), empty, parts).cast(kind)


def _without_comments(lines: Lines) -> Lines:
    """Comment lines emptied, so that indices stay: empty lines are no records."""
    if b"#" not in lines.data:
        return lines
    starts = lines.starts()
    view = np.frombuffer(lines.data, np.uint8)
    possible = np.isin(view[starts], list(_COMMENT_STARTS))
    pieces = [
        b"\n" if maybe and lines.data[start:end].lstrip(b" \t").startswith(b"#") else lines.data[start:end]
        for start, end, maybe in zip(starts, lines.ends, possible, strict=True)
    ]
    return Lines(b"".join(pieces), np.cumsum([len(piece) for piece in pieces]).astype(np.int64))


def lines_of(columns: pa.RecordBatch, dialect: CsvDialect) -> bytes:
    """The lines of a batch whose columns are text or numbers, not lists."""
    cells = [
        _cells(column, field, dialect) for column, field in zip(columns.columns, columns.schema, strict=True)
    ]
    lines = pc.binary_join_element_wise(*cells, dialect.delimiter)
    end = dialect.line_end
    return "".join(f"{line}{end}" for line in lines.to_pylist()).encode()


def header_of(schema: pa.Schema, dialect: CsvDialect) -> bytes:
    """The line of names."""
    names = pa.record_batch([pa.array([name]) for name in schema.names], names=schema.names)
    return lines_of(names, dialect)


def _cells(column: Any, field: Any, dialect: CsvDialect) -> Any:
    try:
        texts = column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise ConnectorError(f"column {field.name!r} of type {field.type} cannot be CSV: {e}") from e
    if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
        quote = dialect.quote
        texts = _bare(texts, field, dialect) if quote is None else _quoted(texts, quote, dialect.escape)
    return pc.fill_null(texts, dialect.null_literal or "")


def _quoted(texts: Any, quote: str, escape: str | None) -> Any:
    if escape is not None:
        texts = pc.replace_substring(texts, escape, escape * 2)
    doubled = pc.replace_substring(texts, quote, quote * 2)
    return pc.binary_join_element_wise(quote, doubled, quote, "")


def _bare(texts: Any, field: Any, dialect: CsvDialect) -> Any:
    if dialect.escape is not None:
        for special in (dialect.escape, dialect.delimiter):
            texts = pc.replace_substring(texts, special, dialect.escape + special)
    unwritable = ["\n", "\r"] if dialect.escape else ["\n", "\r", dialect.delimiter]
    for special in unwritable:
        found = pc.match_substring(texts, special)
        if pc.any(found).as_py():
            value = texts.filter(found)[0].as_py()
            raise ConnectorError(
                f"column {field.name!r} holds {value!r:.200}, which CSV without quotes cannot write: it has "
                f"{special!r} in it. Set a quote or an escape character."
            )
    return texts
