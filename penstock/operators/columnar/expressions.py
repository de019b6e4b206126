"""Expressions in aggregates: bound when columns come, since a stream says nothing of them before.

Computed on whole columns, or on one record where a step works row by row; both give the same.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa

from penstock.core.errors import ConfigError, TypeMismatchError
from penstock.core.row import Row
from penstock.expressions.nodes import Column, Node
from penstock.expressions.program import Projection

_RESULT = "result"
_REMEMBERED = 256


@lru_cache(_REMEMBERED)
def computed(column: str | Node) -> Computed:
    """How to compute a column by name, or an expression."""
    return Computed(Column(column) if isinstance(column, str) else column)


class Computed:
    """An expression, bound to the columns that came last.  Used by all tasks of a process."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.names = node.columns()
        """The columns it reads."""
        self._bound: tuple[pa.Schema, Projection] | None = None

    def of_columns(self, columns: pa.RecordBatch) -> Any:
        """Its value for each record of a batch."""
        if isinstance(self._node, Column):
            return columns.column(self._node.name)
        bound = self._bound
        if bound is None or not bound[0].equals(columns.schema):
            bound = self._bound = columns.schema, Projection(columns.schema, {_RESULT: self._node})
        return bound[1].apply(columns).column(0)

    def of_row(self, row: Any) -> Any:
        """Its value for one record with named fields."""
        if isinstance(self._node, Column):
            return field_of(row, self._node.name)
        try:
            one = pa.RecordBatch.from_pylist([{name: field_of(row, name) for name in self.names}])
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise TypeMismatchError(f"{self._node} cannot be computed of {row!r}: {error}") from error
        return self.of_columns(one)[0].as_py()


def field_of(row: Any, name: str) -> Any:
    """A named field of a ``Row``, a dict or an object with attributes."""
    try:
        return row[name] if isinstance(row, Row | dict) else getattr(row, name)
    except (KeyError, AttributeError, ValueError) as e:
        raise ConfigError(
            f"agg or key_by asks for the field {name!r}, which the record {row!r} does not have; give the "
            "records names (Row, dict, dataclass) in the step before"
        ) from e
