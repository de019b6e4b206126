"""Lists of rows as they are pickled: the names once, then nothing but values.

State is full of lists of rows of one shape, and each row that is pickled by itself is a call of Python code.
Packed, a list goes through pickle at its own speed.  What is unpickled is the list as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from penstock.core.pickling import dumps
from penstock.core.row import Row, RowKind

_FIELDS, _VALUES, _KIND = attrgetter("_fields"), attrgetter("_values"), attrgetter("_kind")
_PLAIN_KIND = {id(RowKind.INSERT)}
_WORTH_PACKING = 4
_ROWS, _PAIRS = {Row}, {tuple}


class _Packed:
    """Pickles as the list that it stands for."""

    __slots__ = ("_fields", "_others", "_values")

    def __init__(self, fields: Any, values: list[Any], others: list[Any] | None) -> None:
        self._fields = fields
        self._values = values
        self._others = others

    def __reduce__(self) -> tuple[Any, ...]:
        return rows_of, (self._fields, self._values, self._others)


def rows_of(fields: Sequence[str] | None, values: list[Any], others: list[Any] | None) -> list[Any]:
    """Rows of one shape, or pairs of a row and something else; snapshots name this function."""
    rows = Row.many(fields, values)
    return rows if others is None else list(zip(rows, others, strict=True))


def packed(value: Any) -> Any:
    """``value``, or what pickles to the same in less time: for lists of rows, or of pairs of one and more."""
    if type(value) is not list or len(value) < _WORTH_PACKING:
        return value
    kinds = set(map(type, value))
    if kinds == _ROWS:
        return _packed(value, None) or value
    if kinds == _PAIRS and set(map(len, value)) == {2} and type(value[0][0]) is Row:
        rows, others = map(list, zip(*value, strict=True))
        if set(map(type, rows)) == _ROWS:
            return _packed(rows, others) or value
    return value


def _packed(rows: list[Row], others: list[Any] | None) -> _Packed | None:
    fields = set(map(_FIELDS, rows))
    if len(fields) != 1 or set(map(id, map(_KIND, rows))) != _PLAIN_KIND:
        return None
    return _Packed(fields.pop(), list(map(tuple, map(_VALUES, rows))), others)


def dumps_packed(value: Any) -> bytes:
    """The bytes of an object."""
    return dumps(packed(value))


def dumps_columns(columns: dict[str, list[Any]]) -> bytes:
    """The bytes of named columns of objects."""
    return dumps({name: list(map(packed, values)) for name, values in columns.items()})
