"""Key columns of two sides, whatever their types, as columns of one type in which equal keys are equal.

The exchange hashes keys of all numbers alike, so ``1`` and ``1.0`` meet in one subtask, and rows are compared
as Python does.  Casting one column to the type of the other would not do: text becomes a number, every number
but 0 becomes ``True``, and what does not fit is an error.  Pure.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.core.error_codes import Code
from penstock.core.errors import KeyError_
from penstock.core.key_kinds import column_kind, fits, in_words
from penstock.core.keys import canonical_keys

Names = tuple[str, str]
"""Of the key columns, left and right."""


def aligned(left: pa.ChunkedArray, right: pa.ChunkedArray, names: Names) -> tuple[pa.ChunkedArray, ...]:
    """Both columns, none of which has a null, with one type; refuses those of which no keys can be equal."""
    if left.type == right.type:
        return left, right
    kinds = column_kind(left.type), column_kind(right.type)
    if not fits(*kinds):
        raise KeyError_(
            f"key column {names[0]!r} of the left stream is {in_words([kinds[0]])} and {names[1]!r} of the "
            f"right one is {in_words([kinds[1]])}: no key of one is equal to one of the other. Cast one of "
            "them before key_by",
            code=Code.KEY,
        )
    for same in (_is_small_integer, pa.types.is_floating, _is_text):
        if same(left.type) and same(right.type):
            wide = _WIDE[same]
            return left.cast(wide), right.cast(wide)
    return _numbered(left, right)


def shown_as(values: Any, kind: pa.DataType, names: Names) -> Any:
    """Keys of the right side in the left key column of a result."""
    if values.type == kind:
        return values
    try:
        shown = values.cast(kind)
        as_numbers = _numbered(shown, values)
        if not as_numbers[0].equals(as_numbers[1]):
            raise pa.ArrowInvalid("another value would be shown")
    except pa.ArrowInvalid as error:
        raise KeyError_(
            f"a key of the right stream ({names[1]!r}, {values.type}) cannot be shown in the key column "
            f"{names[0]!r} of the result, which has the left stream's type, {kind} ({error}). Cast one of "
            "them before key_by",
            code=Code.KEY,
        ) from error
    return shown


def _is_small_integer(kind: pa.DataType) -> bool:
    """Whether int64 holds all of its values."""
    return bool(pa.types.is_integer(kind) and not pa.types.is_uint64(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


_WIDE = {_is_small_integer: pa.int64(), pa.types.is_floating: pa.float64(), _is_text: pa.large_string()}


def _numbered(*columns: pa.ChunkedArray) -> tuple[pa.ChunkedArray, ...]:
    """Numbers in place of keys, the same for keys that Python holds equal."""
    known: dict[Any, int] = {}

    def numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
        found = [known.setdefault(key, len(known)) for key in canonical_keys(column.to_pylist())]
        return pa.chunked_array([pa.array(found, pa.int64())])

    return tuple(map(numbers, columns))
