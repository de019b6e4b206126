"""Columns with dictionaries, of which each batch may have its own: as they are where that works, else plain.

Arrow joins arrays by uniting their dictionaries, and refuses some: if the whole has more values than the
index can count (a byte's, as pandas makes it), if nulls are among the values, if these are lists.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema without dictionaries."""
    if not any(map(pa.types.is_dictionary, schema.types)):
        return schema
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in schema
    ]
    return pa.schema(fields, schema.metadata)


def plain_columns(columns: pa.RecordBatch) -> pa.RecordBatch:
    """The columns without dictionaries."""
    schema = plain_schema(columns.schema)
    if schema is columns.schema:
        return columns
    arrays = [
        array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        for array in columns.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def united(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of several with the same columns."""
    try:
        return pa.concat_batches(batches)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if not any(map(pa.types.is_dictionary, batches[0].schema.types)):
            raise
        return pa.concat_batches([plain_columns(batch) for batch in batches])
