"""Columns to JSON objects, a column at a time instead of a record at a time.

Each column becomes text in a few Arrow kernels; one last kernel joins them with the field names.
Nested lists and maps, and strings that need escapes, go through :mod:`json`, and only they.
NaN and infinities, which JSON does not have, become ``null``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import ConnectorError

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def encode_columns(columns: pa.RecordBatch) -> pa.BinaryArray:
    """One JSON object per row."""
    if columns.num_rows == 0:
        return pa.array([], pa.binary())
    return _objects(columns.schema.names, columns.columns, columns.num_rows).cast(pa.binary())


def _objects(names: Sequence[str], arrays: Sequence[pa.Array], count: int) -> pa.StringArray:
    pieces: list[Any] = []
    literal = "{"
    for name, array in zip(names, arrays, strict=True):
        text, quoted = _texts(array)
        quote = '"' if quoted else ""
        pieces += [literal + json.dumps(name, ensure_ascii=False) + ":" + quote, text]
        literal = quote + ","
    if not pieces:
        return pa.array(["{}"] * count, pa.string())
    return pc.binary_join_element_wise(*pieces, literal[:-1] + "}", "")


def _texts(array: pa.Array) -> tuple[pa.StringArray, bool]:
    """The values as JSON text without nulls, and whether quotes are still to be put around each."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _texts(array.dictionary_decode())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _strings(array.cast(pa.string()))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.string()).fill_null("null"), False
    if pa.types.is_floating(kind):
        return _floats(array), False
    if pa.types.is_timestamp(kind):
        return _quoted(pc.replace_substring(array.cast(pa.string()), " ", "T", max_replacements=1))
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return _quoted(array.cast(pa.string()))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _strings(_utf8(array))
    if pa.types.is_struct(kind):
        inner = _objects([field.name for field in kind], array.flatten(), len(array))
        return pc.if_else(array.is_valid(), inner, "null"), False
    values = [json.dumps(value, ensure_ascii=False, default=str) for value in array.to_pylist()]
    return pa.array(values, pa.string()), False


def _utf8(array: pa.Array) -> pa.StringArray:
    try:
        return array.cast(pa.binary()).cast(pa.string())
    except pa.ArrowInvalid as e:
        raise ConnectorError(f"JSON has no bytes, and a binary column is not UTF-8 text: {e}") from e


def _floats(array: pa.Array) -> pa.StringArray:
    """Shortest text that reads back the same; whole numbers keep a ``.0``, so that they stay floats."""
    finite = pc.if_else(pc.is_finite(array), array, pa.scalar(None, array.type))
    text = finite.cast(pa.string())
    values = array.to_numpy(zero_copy_only=False)
    if np.any(values == np.floor(values)):
        plain = pc.invert(pc.match_substring_regex(text, "[.e]"))
        text = pc.if_else(plain, pc.binary_join_element_wise(text, ".0", ""), text)
    return text.fill_null("null")


def _strings(array: pa.StringArray) -> tuple[pa.StringArray, bool]:
    dirty = pc.match_substring_regex(array, _NEEDS_ESCAPE)
    if pc.any(dirty).as_py():
        escaped = [json.dumps(value, ensure_ascii=False)[1:-1] for value in array.filter(dirty).to_pylist()]
        array = pc.replace_with_mask(array, dirty.fill_null(False), pa.array(escaped, pa.string()))
    return _quoted(array)


def _quoted(array: pa.StringArray) -> tuple[pa.StringArray, bool]:
    if array.null_count == 0:
        return array, True
    return pc.binary_join_element_wise('"', array, '"', "").fill_null("null"), False
