"""Joins on columns: stored records, matching by key, and the columns of the result.

Matching joins only the keys and the positions of the rows, with Arrow's hash join; the other columns are
then picked by position, whatever their types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.batch import Batch
from penstock.core.dictionaries import plain_schema
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, KeyError_
from penstock.core.keys import canonical_column
from penstock.operators.join.equal_keys import aligned, shown_as
from penstock.operators.join.functions import JoinKind
from penstock.state.chunks import FIRED_TO, KEY_GROUP, PANE, ChunkStore

TIME = "__time"
MET = "__met"
ROW = "__row"
ORDER = "__order"
_MARKS = (KEY_GROUP, PANE, FIRED_TO, MET)
_ENGINE = (TIME, ROW, MET, ORDER, PANE)
"""Columns of stored records that no result has."""
_BATCH_ROWS = 65536
_UNKNOWN_COLUMNS = (
    "an outer join of columns must know the columns of both sides, also before the first record of a side "
    "has come: declare them, as in columns(types=(Types.ROW_NAMED(...), Types.ROW_NAMED(...))), or declare "
    "the types of the streams themselves"
)
Numbers = npt.NDArray[np.int64]
Schemas = tuple[pa.Schema | None, pa.Schema | None]
Rows = tuple[pa.Array | None, pa.Array | None]
"""Positions of the left and the right records of pairs; ``None`` if a side has none."""


class RowChunks(ChunkStore):
    """Whole records of one side, by pane: the columns are those declared, else those of its first batch."""

    width: int | None = None
    """Of panes that restored rows are put into by their times, whatever it was before."""

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        max_parallelism: int,
        schema: pa.Schema | None = None,
        divided: str = "",
    ) -> None:
        names = () if schema is None else schema.names
        super().__init__(name, keys, names, concatenated, max_parallelism, divided)
        self._schema, self._promised = None if schema is None else plain_schema(schema), schema is not None

    def nothing(self) -> pa.Table:
        """No rows; for sides whose columns are declared."""
        assert self._schema is not None
        return self._schema.empty_table()

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
        if kept and not self._columns:
            self._columns = [name for name in kept[0].schema.names if name not in _MARKS]
        super().restore(kept)

    def _with_marks(self, table: pa.Table) -> pa.Table:
        marked = super()._with_marks(table)
        if self.width is None:
            return marked
        panes = pa.array(table.column(TIME).to_numpy() // self.width * self.width)
        return marked.set_column(marked.schema.get_field_index(PANE), PANE, panes)


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
    for name in (*_MARKS, *_ENGINE):
        if name in names:
            raise ConfigError(f"the column name {name!r} is taken by the engine; rename the column")
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"the stream has two columns {double!r}; rename one before the join")
    return pa.Table.from_batches([batch.columns])


class ColumnJoin:
    """Which columns meet, and what the result is called. Immutable.

    The result has the key columns under the left names, then the other columns of the left and of the
    right side; names that would be double get the suffix of their side.  Where a record has no partner the
    columns of the other side are null: in outer joins ``schemas`` says what they are.
    """

    def __init__(
        self,
        left_keys: Sequence[str],
        right_keys: Sequence[str],
        suffixes: tuple[str, str],
        how: JoinKind = JoinKind.INNER,
        schemas: Schemas = (None, None),
    ) -> None:
        if len(left_keys) != len(right_keys):
            raise ConfigError(
                f"the two sides of a join need as many key columns: {', '.join(left_keys)} and "
                f"{', '.join(right_keys)} do not match"
            )
        if suffixes[0] == suffixes[1]:
            raise ConfigError("the two suffixes of a join must differ, to tell equal names apart")
        self.keys = (tuple(left_keys), tuple(right_keys))
        self.keeps = (how.keeps_left, how.keeps_right)
        """Whether records of each side appear that have no partner."""
        self.schemas = schemas
        self._suffixes = suffixes
        for keys, schema in zip(self.keys, schemas, strict=True):
            if schema is None and any(self.keeps):
                raise ConfigError(_UNKNOWN_COLUMNS)
            if schema is not None and (missing := [key for key in keys if key not in schema.names]):
                raise ConfigError(
                    f"the declared columns {', '.join(schema.names)} lack the key column {missing[0]!r}"
                )

    def match(self, left: pa.Table, right: pa.Table) -> tuple[pa.Array, pa.Array]:
        """The positions of all pairs with equal keys."""
        both = self._aligned(left, right)
        keys = [str(n) for n in range(len(both))]
        numbered: list[pa.Table] = []
        for side, table in enumerate((left, right)):
            columns: dict[str, Any] = {n: pair[side] for n, pair in zip(keys, both, strict=True)}
            columns[f"row{side}"] = np.arange(table.num_rows)
            numbered.append(pa.table(columns))
        # Arrow builds its hash table of the right side: let that be the smaller one.
        probe, build = numbered if left.num_rows >= right.num_rows else reversed(numbered)
        joined = probe.join(build, keys, join_type="inner", use_threads=False)
        return joined.column("row0").combine_chunks(), joined.column("row1").combine_chunks()

    def codes_of_both(self, left: pa.Table, right: pa.Table) -> tuple[Numbers, Numbers]:
        """A number for each row, below that of all rows: equal ones have equal keys, on both sides."""
        both = [
            pa.chunked_array([*mine.chunks, *others.chunks], mine.type)
            for mine, others in self._aligned(left, right)
        ]
        codes = _codes(both)
        return codes[: left.num_rows], codes[left.num_rows :]

    def _aligned(self, left: pa.Table, right: pa.Table) -> list[tuple[pa.ChunkedArray, ...]]:
        """The key columns of both sides, pair by pair."""
        return [
            aligned(_key(left, names[0]), _key(right, names[1]), names)
            for names in zip(*self.keys, strict=True)
        ]

    def codes(self, table: pa.Table, side: int) -> Numbers:
        """The same for one side alone."""
        return _codes([_key(table, name) for name in self.keys[side]])

    def near(self, mine: pa.Table, others: pa.Table, side: int) -> pa.Table:
        """Rows of the other side without most that have no equal key among ``mine``, which is of ``side``."""
        names = self.keys[0][0], self.keys[1][0]
        left, right = (others, mine) if side else (mine, others)
        pair = aligned(_key(left, names[0]), _key(right, names[1]), names)
        return others.filter(pc.is_in(pair[1 - side], pair[side].combine_chunks()))

    def pick(self, left: pa.Table, right: pa.Table, rows: Rows) -> dict[str, Any]:
        """The columns of the result for pairs of positions; all nulls for a side that has none."""
        tables, (left_keys, right_keys) = (left, right), self.keys

        def column(side: int, name: str) -> Any:
            at, other = rows[side], rows[1 - side]
            if at is None:
                assert other is not None
                return pa.nulls(len(other), tables[side].schema.field(name).type)
            return tables[side].column(name).take(at)

        mine = [name for name in left.schema.names if name not in left_keys and name not in _ENGINE]
        others = [name for name in right.schema.names if name not in right_keys and name not in _ENGINE]
        result: dict[str, Any] = {}
        for name, other_name in zip(left_keys, right_keys, strict=True):
            kind = left.schema.field(name).type
            result[name] = (
                column(0, name)
                if rows[0] is not None
                else shown_as(column(1, other_name), kind, (name, other_name))
            )
        for name in mine:
            result[name + self._suffixes[0] if name in others else name] = column(0, name)
        for name in others:
            shown = name + self._suffixes[1] if name in mine or name in left_keys else name
            if shown in result:
                raise ConfigError(f"the joined stream would have two columns {shown!r}; use other suffixes")
            result[shown] = column(1, name)
        return result


def _codes(columns: Sequence[pa.ChunkedArray]) -> Numbers:
    codes: Numbers | None = None
    for column in columns:
        found = column.combine_chunks().dictionary_encode()
        mine = found.indices.to_numpy().astype(np.int64)
        if codes is None:
            codes = mine
        else:
            codes = np.unique(codes * len(found.dictionary) + mine, return_inverse=True)[1]
    assert codes is not None
    return codes


def _key(table: pa.Table, name: str) -> pa.ChunkedArray:
    values = table.column(name)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if values.null_count:
        raise KeyError_(
            f"key column {name!r} has a null; filter such records out or give them a key before the join",
            code=Code.KEY_NULL,
        )
    return canonical_column(values)


def batches_of(columns: dict[str, Any], times: Any) -> Iterable[Batch]:
    """A result as batches of bounded size."""
    start = 0
    for piece in pa.table(columns).combine_chunks().to_batches(_BATCH_ROWS):
        yield Batch.of_columns(piece, times[start : start + piece.num_rows])
        start += piece.num_rows
