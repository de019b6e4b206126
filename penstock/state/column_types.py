"""Types of stored columns: what the columns of a later batch may be made, and what would change them.  Pure.

A store has the types of its first batch, or those that were declared.  Arrow casts much of which Python holds
the two sides unequal: text to numbers, every number but 0 to ``True``, doubles to the nearest float.  A key
that changed on the way would be one whose rows another subtask has; other values would be wrong in silence.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.key_kinds import column_kind, fits, in_words
from penstock.core.keygroups import hash_nullable


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


_TEXTS = (_is_text, _is_bytes)


class Unfit(Exception):
    """A column cannot be made what the store has."""

    def __init__(self, column: str, why: str) -> None:
        super().__init__(why)
        self.column = column


def learned(known: pa.Schema, new: pa.Schema) -> pa.Schema:
    """``known``, in which columns that had nothing but nulls so far take their types from ``new``."""
    for at, (old, found) in enumerate(zip(known, new, strict=True)):
        if _tells_more(old.type, found.type):
            known = known.set(at, found)
    return known


def retyped(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table whose columns of nothing but nulls have the types of ``schema``; it may have others."""
    for field in schema:
        at = table.schema.get_field_index(field.name)
        if at >= 0 and _tells_more(table.schema.field(at).type, field.type):
            table = table.set_column(at, field, _cast(table.column(at), field.type))
    return table


def _tells_more(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether there was no value yet to tell the type by, be it within lists, and now there is."""
    if pa.types.is_null(old):
        return not pa.types.is_null(new)
    both_lists = pa.types.is_list(old) and pa.types.is_list(new)
    return both_lists and _tells_more(old.value_type, new.value_type)


def fitted(table: pa.Table, schema: pa.Schema, keys: Collection[str], promised: bool) -> pa.Table:
    """The table with the types of ``schema``, whose columns it has; raises :class:`Unfit`.

    No value becomes another one, but those of columns that are no keys where the types were ``promised``.
    """
    columns = []
    for old, new, values in zip(schema, table.schema, table.columns, strict=True):
        if not new.type.equals(old.type):
            values = _fitted(values, old, old.name in keys, promised)
        columns.append(values)
    return pa.table(columns, schema=schema)


def _fitted(values: pa.ChunkedArray, wanted: pa.Field, is_key: bool, promised: bool) -> pa.ChunkedArray:
    kinds = column_kind(wanted.type), column_kind(values.type)
    if is_key and not fits(*kinds):
        raise Unfit(wanted.name, f"{in_words([kinds[1]])} keys find no {in_words([kinds[0]])} keys")
    try:
        cast = _cast(values, wanted.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Unfit(wanted.name, str(error)) from error
    if is_key:
        if _may_change(values, cast) and not _have_same_hashes(values, cast):
            raise Unfit(wanted.name, "a key would become another one")
    elif not promised and not (fits(*kinds) or pa.types.is_nested(values.type)):
        raise Unfit(wanted.name, f"{in_words([kinds[1]])} is not {in_words([kinds[0]])}")
    elif not promised and _may_change(values, cast) and not _is_unchanged(values, cast):
        raise Unfit(wanted.name, "a value would become another one")
    return cast


def _may_change(values: pa.ChunkedArray, cast: pa.ChunkedArray) -> bool:
    """Whether Arrow might have lost something without a word: not so of texts, times and integers."""
    exact = (pa.types.is_integer, pa.types.is_temporal, *_TEXTS)
    return not any(test(_plain_type(values.type)) and test(_plain_type(cast.type)) for test in exact)


def _have_same_hashes(values: pa.ChunkedArray, cast: pa.ChunkedArray) -> bool:
    one, other = (hash_nullable(column.combine_chunks()) for column in (values, cast))
    return bool(np.array_equal(one, other))


def _is_unchanged(values: pa.ChunkedArray, cast: pa.ChunkedArray) -> bool:
    if _tells_more(values.type, cast.type):
        return True
    values = _plain(values)
    try:
        back = _plain(cast).cast(values.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return bool(_without_nan(back).equals(_without_nan(values)))


def _cast(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_null(values.type):
        return pa.chunked_array([pa.nulls(len(values), kind)])
    return _plain(values).cast(kind)


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without a dictionary: one cannot be cast to one with other codes."""
    return values.cast(_plain_type(values.type)) if pa.types.is_dictionary(values.type) else values


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _without_nan(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Zero in place of NaN, which is not equal to itself."""
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(0.0, values.type), values)
