"""Row groups of Parquet files that cannot have a wanted row, by what their statistics say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from penstock.connectors.source import Bound, Comparison

_MAY_BE: Mapping[Comparison, Callable[[Any, Any, Any], bool]] = {
    Comparison.EQUAL: lambda least, most, value: least <= value <= most,
    Comparison.LESS: lambda least, most, value: least < value,
    Comparison.LESS_EQUAL: lambda least, most, value: least <= value,
    Comparison.GREATER: lambda least, most, value: most > value,
    Comparison.GREATER_EQUAL: lambda least, most, value: most >= value,
}
"""Whether a value between the least and the most may compare so."""


def may_have(metadata: Any, schema: pa.Schema, group: int, bounds: Iterable[Bound]) -> bool:
    """Whether a row group may have rows within all bounds."""
    return all(_may_be(metadata, schema, group, bound) for bound in bounds)


def _may_be(metadata: Any, schema: pa.Schema, group: int, bound: Bound) -> bool:
    # What the file calls otherwise, or has as another type, may still become a value that compares.
    if bound.column not in schema.names or not schema.field(bound.column).type.equals(bound.type):
        return True
    row_group = metadata.row_group(group)
    columns = [row_group.column(place) for place in range(row_group.num_columns)]
    found = [it for it in columns if it.path_in_schema == bound.column]
    if len(found) != 1:  # ``a.b`` may be a column, and a field of another one, too
        return True
    known = found[0].statistics
    if known is None or not known.has_min_max:
        return True
    try:
        return _MAY_BE[bound.comparison](known.min, known.max, bound.value)
    except (OverflowError, TypeError, ValueError):  # such as a date that Python has none of
        return True
