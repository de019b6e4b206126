"""What a filter says of single columns, for sources that can leave out records by that."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyarrow import types as kinds

from penstock.connectors.source import Bound, Comparison
from penstock.expressions.nodes import Call, Column, Literal, Node

_COMPARISONS = {it.value: it for it in Comparison}
_TURNED: Mapping[Comparison, Comparison] = {
    Comparison.EQUAL: Comparison.EQUAL,
    Comparison.LESS: Comparison.GREATER,
    Comparison.LESS_EQUAL: Comparison.GREATER_EQUAL,
    Comparison.GREATER: Comparison.LESS,
    Comparison.GREATER_EQUAL: Comparison.LESS_EQUAL,
}


def bounds_of(condition: Node, schema: pa.Schema) -> Iterator[Bound]:
    """What must hold wherever the condition is true, as comparisons of columns with constants."""
    if not isinstance(condition, Call):
        return
    if condition.function == "and":
        for part in condition.arguments:
            yield from bounds_of(part, schema)
    elif condition.function in _COMPARISONS:
        first, second = condition.arguments
        sign = _COMPARISONS[condition.function]
        if isinstance(second, Column):
            first, second, sign = second, first, _TURNED[sign]
        if isinstance(first, Column) and isinstance(second, Literal):
            kind = schema.field(first.name).type
            if _compare_alike(kind, second):
                yield Bound(first.name, sign, second.value, kind)


def _compare_alike(kind: pa.DataType, constant: Literal) -> bool:
    """Whether the values of a column compare with a constant as Python's do.

    Not so floats, of which NaN is the largest and in no statistics, and times of zones or of nanoseconds.
    """
    value = constant.value
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return bool(kinds.is_integer(kind))
    if isinstance(value, str):
        return bool(kinds.is_string(kind))
    if isinstance(value, dt.datetime):
        return bool(kinds.is_timestamp(kind)) and kind.unit != "ns" and kind.tz is value.tzinfo is None
    return isinstance(value, dt.date) and bool(kinds.is_date32(kind))
