"""Joins on columns: stored records, matching by key, and the columns of the result.

Matching joins only the keys and the positions of the rows, with Arrow's hash join; the other columns are
then picked by position, whatever their types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, KeyError_
from penstock.core.keys import canonical_column
from penstock.operators.operator import OperatorContext
from penstock.state.chunks import FIRED_TO, KEY_GROUP, PANE, ChunkStore

TIME = "__time"
_MARKS = (KEY_GROUP, PANE, FIRED_TO)
_BATCH_ROWS = 65536


class RowChunks(ChunkStore):
    """Whole records of one side, by pane: the columns are those of its first batch."""

    def __init__(self, name: str, keys: Sequence[str], max_parallelism: int) -> None:
        super().__init__(name, keys, (), concatenated, max_parallelism)

    def conform(self, table: pa.Table) -> pa.Table:
        names = table.schema.names
        if not self._columns:
            self._columns = list(names)
        if missing := [name for name in self._columns if name not in names]:
            raise ConfigError(
                f"a batch has no column {missing[0]!r}, which earlier ones had; a join of columns needs the "
                "same columns in every batch of a stream"
            )
        return super().conform(table)

    def restore(self, batches: Iterable[pa.RecordBatch]) -> None:
        kept = list(batches)
        if kept:
            self._columns = [name for name in kept[0].schema.names if name not in _MARKS]
        super().restore(kept)


def stores_of_both(ctx: OperatorContext, keys: Sequence[Sequence[str]]) -> list[RowChunks]:
    """A store for each side, left first, registered as state of the operator."""
    stores = []
    for name, side_keys in zip(("join-left", "join-right"), keys, strict=True):
        store = RowChunks(name, side_keys, ctx.info.max_parallelism)
        ctx.keyed.register_chunks(name, store)
        stores.append(store)
    return stores


def concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    """Several tables as one, in one piece."""
    return pa.concat_tables(tables).combine_chunks()


def columns_for(batch: Batch, keys: Sequence[str]) -> pa.Table:
    """The batch as a table that has all key columns."""
    if batch.columns is None:
        raise ConfigError(
            "columns() joins named columns, but a stream carries Python objects; give the step before it a "
            "row type with field names, or use a join function on rows instead"
        )
    names = batch.columns.schema.names
    for key in keys:
        if key not in names:
            raise ConfigError(f"the stream has no key column {key!r}; its columns: {', '.join(names)}")
    for name in (PANE, FIRED_TO, KEY_GROUP, TIME):
        if name in names:
            raise ConfigError(f"the column name {name!r} is taken by the engine; rename the column")
    return pa.Table.from_batches([batch.columns])


class ColumnJoin:
    """Which columns meet, and what the result is called. Immutable.

    The result has the key columns under the left names, then the other columns of the left and of the
    right side; names that would be double get the suffix of their side.
    """

    def __init__(
        self, left_keys: Sequence[str], right_keys: Sequence[str], suffixes: tuple[str, str]
    ) -> None:
        if len(left_keys) != len(right_keys):
            raise ConfigError(
                f"the two sides of a join need as many key columns: {', '.join(left_keys)} and "
                f"{', '.join(right_keys)} do not match"
            )
        if suffixes[0] == suffixes[1]:
            raise ConfigError("the two suffixes of a join must differ, to tell equal names apart")
        self.keys = (tuple(left_keys), tuple(right_keys))
        self._suffixes = suffixes

    def match(self, left: pa.Table, right: pa.Table) -> tuple[pa.Array, pa.Array]:
        """The positions of all pairs with equal keys."""
        numbered: list[pa.Table] = []
        for side, (table, names) in enumerate(zip((left, right), self.keys, strict=True)):
            columns: dict[str, Any] = {str(n): _key(table, name) for n, name in enumerate(names)}
            if side:
                columns = {n: values.cast(numbered[0].column(n).type) for n, values in columns.items()}
            columns[f"row{side}"] = np.arange(table.num_rows)
            numbered.append(pa.table(columns))
        keys = [str(n) for n in range(len(self.keys[0]))]
        # Arrow builds its hash table of the right side: let that be the smaller one.
        probe, build = numbered if left.num_rows >= right.num_rows else reversed(numbered)
        joined = probe.join(build, keys, join_type="inner", use_threads=False)
        return joined.column("row0").combine_chunks(), joined.column("row1").combine_chunks()

    def pick(self, left: pa.Table, right: pa.Table, rows: tuple[pa.Array, pa.Array]) -> dict[str, Any]:
        """The columns of the result for pairs of positions."""
        left_keys, right_keys = self.keys
        mine = [name for name in left.schema.names if name not in left_keys and name != TIME]
        others = [name for name in right.schema.names if name not in right_keys and name != TIME]
        result: dict[str, Any] = {name: left.column(name).take(rows[0]) for name in left_keys}
        for name in mine:
            shown = name + self._suffixes[0] if name in others else name
            result[shown] = left.column(name).take(rows[0])
        for name in others:
            shown = name + self._suffixes[1] if name in mine or name in left_keys else name
            if shown in result:
                raise ConfigError(f"the joined stream would have two columns {shown!r}; use other suffixes")
            result[shown] = right.column(name).take(rows[1])
        return result


def _key(table: pa.Table, name: str) -> pa.ChunkedArray:
    values = table.column(name)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if values.null_count:
        raise KeyError_(
            f"key column {name!r} has a null; filter such records out or give them a key before the join"
        )
    return canonical_column(values)


def batches_of(columns: dict[str, Any], times: Any) -> Iterable[Batch]:
    """A result as batches of bounded size."""
    start = 0
    for piece in pa.table(columns).combine_chunks().to_batches(_BATCH_ROWS):
        yield Batch.of_columns(piece, times[start : start + piece.num_rows])
        start += piece.num_rows
