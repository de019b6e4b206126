"""Filters and projections on columns, in one pass over a batch.  Event times go with the rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.batch import Batch
from penstock.core.errors import TypeMismatchError
from penstock.expressions.nodes import Node
from penstock.expressions.program import Predicate, Projection
from penstock.operators.columnar.plan import columns_of
from penstock.operators.operator import Operator


class CalcOperator(Operator):
    """Keeps the rows for which ``condition`` is true, and makes the columns of ``named`` of them.

    Both are optional.  The columns that come in must be those of ``schema``, in any order; rows of Python
    objects with such fields are made columns.  Checked when it is made: names, types, arguments.
    """

    def __init__(self, schema: pa.Schema, condition: Node | None, named: Mapping[str, Node] | None) -> None:
        self._schema = schema
        self._predicate = None if condition is None else Predicate(schema, condition)
        self._projection = None if named is None else Projection(schema, named)

    @property
    def schema(self) -> pa.Schema:
        """Of what comes out."""
        return self._schema if self._projection is None else self._projection.schema

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Emit what is left of the batch."""
        if not len(batch):
            return
        columns, times = conform(columns_of(batch, self._schema.names), self._schema), batch.times
        if self._predicate is not None:
            mask = self._predicate.mask(columns)
            kept = pc.sum(mask).as_py() or 0
            if kept < columns.num_rows:
                columns = columns.filter(mask)
                times = None if times is None else times[np.asarray(mask)]
            if not kept:
                return
        if self._projection is not None:
            columns = self._projection.apply(columns)
        self.ctx.out.emit(Batch.of_columns(columns, times))


def conform(columns: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns in the order and of the types that were promised."""
    if columns.schema.equals(schema):
        return columns
    found = []
    for field in schema:
        index = columns.schema.get_field_index(field.name)
        if index < 0:
            there = ", ".join(columns.schema.names)
            raise TypeMismatchError(f"column {field.name!r} was promised and is not there; there are {there}")
        try:
            found.append(columns.column(index).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise TypeMismatchError(
                f"column {field.name!r} was promised as {field.type} and is "
                f"{columns.schema.field(index).type}: {error}"
            ) from error
    return pa.RecordBatch.from_arrays(found, schema=schema)
