"""Lookup join of columns: each row beside the rows of a table that every subtask holds.

The table is fixed and travels with the job, so the step has no state, and a row that is read again after a
failure meets the same rows.  The index over its keys is made once, not per batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.batch import Batch, Indices
from penstock.core.keys import canonical_column
from penstock.operators.columnar.plan import columns_of
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.outflow import pieces


class KeyIndex:
    """Finds the rows of a table by their keys, which have no nulls."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._is_number = len(columns) == 1 and pa.types.is_integer(columns[0].type)
        if self._is_number:
            keys = columns[0].to_numpy(zero_copy_only=False)
            self._known, numbers = np.unique(keys, return_inverse=True)
        else:
            self._places: dict[Any, int] = {}
            values = list(_values(columns))
            numbers = np.array([self._places.setdefault(it, len(self._places)) for it in values], np.int64)
        self._order: Indices = np.argsort(numbers, kind="stable")
        self._counts = np.bincount(numbers, minlength=1) if len(numbers) else np.zeros(1, np.int64)
        self._starts = np.cumsum(self._counts) - self._counts

    def find(self, columns: Sequence[pa.Array]) -> tuple[Indices, Indices]:
        """Pairs of rows: which of those asked for, and which of the table."""
        found = self._numbers(columns)
        rows = np.flatnonzero(found >= 0)
        counts, starts = self._counts[found[rows]], self._starts[found[rows]]
        asked = np.repeat(rows, counts)
        ends = np.cumsum(counts)
        within = np.arange(len(asked)) - np.repeat(ends - counts, counts)
        return asked, self._order[np.repeat(starts, counts) + within]

    def _numbers(self, columns: Sequence[pa.Array]) -> Indices:
        """The number of the key of each row, -1 if there is no such key."""
        if not len(self._order):
            return np.full(len(columns[0]), -1)
        if self._is_number:
            keys = columns[0].fill_null(0).to_numpy(zero_copy_only=False)
            at = np.minimum(np.searchsorted(self._known, keys), len(self._known) - 1)
            found = np.where(self._known[at] == keys, at, -1)
        elif len(columns) == 1:
            once = columns[0].dictionary_encode()
            places = np.array(
                [self._places.get(it, -1) for it in _values([once.dictionary])] or [-1], np.int64
            )
            found = places[once.indices.fill_null(0).to_numpy(zero_copy_only=False)]
        else:
            found = np.array([self._places.get(it, -1) for it in _values(columns)], np.int64)
        for column in columns:
            if column.null_count:
                found = np.where(column.is_valid().to_numpy(zero_copy_only=False), found, -1)
        return found


def _values(columns: Sequence[pa.Array]) -> Any:
    lists = [canonical_column(column).to_pylist() for column in columns]
    return lists[0] if len(lists) == 1 else zip(*lists, strict=True)


class LookupOperator(Operator):
    """Adds the other columns of ``table`` to rows with equal ``keys``; ``keeps`` those that find none."""

    def __init__(self, schema: pa.Schema, table: pa.Table, keys: Sequence[str], keeps: bool) -> None:
        self._schema = schema
        self._table = table
        self._keys = tuple(keys)
        self._keeps = keeps

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        table = self._table.combine_chunks()
        for key in self._keys:
            table = table.filter(pc.is_valid(table.column(key)))
        self._index = KeyIndex([table.column(key).combine_chunks() for key in self._keys])
        self._found = table.drop_columns(list(self._keys)).combine_chunks()

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Emit each row as often as it finds something."""
        if not len(batch):
            return
        columns = columns_of(batch, self._schema.names)
        rows, found = self._index.find([columns.column(key) for key in self._keys])
        picked: pa.Array = pa.array(found)
        if self._keeps:
            alone = np.ones(len(batch), np.bool_)
            alone[rows] = False
            lonely = np.flatnonzero(alone)
            order = np.argsort(np.concatenate([rows, lonely]), kind="stable")
            nobody = np.append(np.zeros(len(rows), np.bool_), np.ones(len(lonely), np.bool_))[order]
            padded = np.append(found, np.zeros(len(lonely), np.int64))[order]
            picked = pa.array(padded, mask=nobody)
            rows = np.concatenate([rows, lonely])[order]
        if not len(rows):
            return
        taken = {name: columns.column(name).take(pa.array(rows)) for name in self._schema.names}
        for name in self._found.schema.names:
            taken[name] = self._found.column(name).combine_chunks().take(picked)
        times = None if batch.times is None else batch.times[rows]
        for piece in pieces(Batch.of_columns(pa.RecordBatch.from_pydict(taken), times), self.ctx):
            self.ctx.out.emit(piece)
