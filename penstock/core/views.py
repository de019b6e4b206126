"""Views of texts and bytes, as polars hands them out, as columns that Arrow can take records from.

It has no kernel that takes some of a view.  For views of lists it has one; these are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

_PLAIN = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}


def without_views(columns: pa.RecordBatch) -> pa.RecordBatch:
    """The same values; the columns themselves if none of them is a view or has one inside."""
    schema = _plain_schema(columns.schema)
    return columns if schema is columns.schema else columns.cast(schema)


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    kinds = list(map(plain_type, schema.types))
    if kinds == schema.types:
        return schema
    fields: Sequence[pa.Field] = [field.with_type(kind) for field, kind in zip(schema, kinds, strict=True)]
    return pa.schema(fields, schema.metadata)


@lru_cache(256)
def plain_type(kind: pa.DataType) -> pa.DataType:
    """What values of a type are as plain columns; lists and structs are looked into."""
    name = str(kind).partition("<")[0]
    if name in _PLAIN:
        return _PLAIN[name]
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(kind.field(number)) for number in range(kind.num_fields)])
    if name == "list":
        return pa.list_(_plain_field(kind.value_field))
    if name == "large_list":
        return pa.large_list(_plain_field(kind.value_field))
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(plain_type(field.type))
