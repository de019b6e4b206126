"""Lines of CSV in a dialect that Arrow does not write: another quote, an escape, a text for null.

All text is quoted, with quotes inside it doubled and the escape in front of itself, as Flink writes.  Where
quoting is off, a value that needs it is escaped, or else an error: it could not be read back.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connectors.files.csv import CsvDialect
from penstock.core.errors import ConnectorError


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
