"""Columns with dictionaries, of which each batch may have its own: as they are where that works, else plain.

Arrow joins arrays by uniting their dictionaries, and refuses some: if the whole has more values than the
index can count (a byte's, as pandas makes it), if nulls are among the values, if these are lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema without dictionaries."""
    if not _has_any(schema):
        return schema
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in schema
    ]
    return pa.schema(fields, schema.metadata)


def plain_columns(columns: pa.RecordBatch) -> pa.RecordBatch:
    """The columns without dictionaries."""
    if not _has_any(columns.schema):
        return columns
    return pa.RecordBatch.from_arrays(
        list(map(_decoded, columns.columns)), schema=plain_schema(columns.schema)
    )


def plain_table(table: pa.Table) -> pa.Table:
    """The same of a table."""
    if not _has_any(table.schema):
        return table
    return pa.Table.from_arrays(list(map(_decoded, table.columns)), schema=plain_schema(table.schema))


def united(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of several with the same columns."""
    try:
        return pa.concat_batches(batches)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if not _has_any(batches[0].schema):
            raise
        return pa.concat_batches([plain_columns(batch) for batch in batches])


def _has_any(schema: pa.Schema) -> bool:
    return any(map(pa.types.is_dictionary, schema.types))


def _decoded(values: Any) -> Any:
    """An array, or one in pieces."""
    if not pa.types.is_dictionary(values.type):
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array(
            [piece.dictionary_decode() for piece in values.chunks], values.type.value_type
        )
    return values.dictionary_decode()
