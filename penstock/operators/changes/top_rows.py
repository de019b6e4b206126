"""The first rows of each group by an order: top-N, and first and last rows of keys.

Changes within a batch are folded: what leaves is how the first rows differ from those before the
batch.  Rows with a number (``rank``) change place by place, rows without one come and go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.changes import (
    CHANGE,
    CHANGE_FIELD,
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    weights_of,
)
from penstock.core.codes import KEY_HASH, key_schema
from penstock.core.ids import MAX_TIME, EventTime
from penstock.operators.changes.rank_state import Ranking, Ranks, RankState, changes_of
from penstock.operators.columnar.calc import conform
from penstock.operators.columnar.plan import columns_of
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.outflow import pieces
from penstock.state.column_state import ColumnState
from penstock.state.key_index import Rows

STATE_NAME = "top-rows"
_GROUPS = 65536


class TopRowsOperator(Operator):
    """Takes rows with ``$key`` and maybe ``$change``; emits rows, ``rank`` if it has a name, and ``$change``.

    ``before``: with old rows in front of those that replace them; needed where rows have no place.
    """

    def __init__(
        self, schema: pa.Schema, keys: Sequence[str], ranking: Ranking, rank: str | None, before: bool
    ) -> None:
        self._schema = schema
        self._keys = key_schema(schema, keys)
        self._ranking = ranking
        self._rank = rank
        self._before = before
        self._retracts = CHANGE in schema.names
        self._stored = pa.schema([field for field in schema if field.name != CHANGE])

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._state = RankState(self._stored, self._keys, self._ranking, self._retracts)
        store = ColumnState(STATE_NAME, self._state, self._state.stored, ctx.info.max_parallelism)
        ctx.keyed.register_chunks(STATE_NAME, store)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Rank the rows of a batch, and say what has changed."""
        if not len(batch):
            return
        columns = conform(columns_of(batch, self._schema.names), self._schema)
        state = self._state
        arrived = state.arrive(columns.select(self._stored.names), weights_of(columns))
        if not len(arrived.groups):
            return
        if self.ctx.runtime.batch:
            state.log.kill(state.change(arrived))
        else:
            old = state.first(arrived.touched)
            dropped = state.change(arrived)
            self._tell(old, state.first(arrived.touched))
            state.log.kill(dropped)
        state.forget()

    def _tell(self, old: Ranks, new: Ranks) -> None:
        """Emit what has changed."""
        gone, come = self._different(old, new)
        n = self._ranking.n
        places = [part.which * n + part.ranks for part in (old, new)]
        replaced = np.isin(places[0][gone], places[1][come], assume_unique=True)
        replaces = np.isin(places[1][come], places[0][gone], assume_unique=True)
        if self._rank is None and n > 1:  # no place: rows come and go
            replaced, replaces = np.zeros_like(replaced), np.zeros_like(replaces)
        if not self._before:
            gone, replaced = gone[~replaced], replaced[~replaced]
        parts = [
            self._rows(old, gone, np.where(replaced, UPDATE_BEFORE, DELETE)),
            self._rows(new, come, np.where(replaces, UPDATE_AFTER, INSERT)),
        ]
        told = [part for part in parts if part.num_rows]
        if told:
            self.ctx.out.emit(Batch.of_columns(pa.concat_batches(told)))

    def _different(self, old: Ranks, new: Ranks) -> tuple[Rows, Rows]:
        if self._rank is not None:
            return changes_of(old, new, self._ranking.n)
        gone = np.flatnonzero(~np.isin(old.positions, new.positions, assume_unique=True))
        come = np.flatnonzero(~np.isin(new.positions, old.positions, assume_unique=True))
        return gone, come

    def _rows(self, ranks: Ranks, chosen: Rows, kinds: Any) -> pa.RecordBatch:
        rows = self._state.log.take(ranks.positions[chosen])
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        del columns[KEY_HASH]
        if self._rank is not None:
            columns[self._rank] = pa.array(ranks.ranks[chosen] + 1, pa.int64())
        fields = [pa.field(name, column.type) for name, column in columns.items()]
        arrays = [*columns.values(), pa.array(kinds.astype(np.int8))]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*fields, CHANGE_FIELD]))

    def on_watermark(self, time: EventTime) -> None:
        """In BATCH mode the end of a round of keys: emit all first rows."""
        if self.ctx.runtime.batch and time == MAX_TIME:
            self.work(self._finish(time))
        else:
            super().on_watermark(time)

    def _finish(self, time: EventTime) -> Iterator[None]:
        everything = self._state.everything()
        for start in range(0, len(everything), _GROUPS):
            ranks = self._state.first(everything[start : start + _GROUPS])
            every = np.arange(len(ranks.positions))
            for piece in pieces(
                Batch.of_columns(self._rows(ranks, every, np.full(len(every), INSERT))), self.ctx
            ):
                self.ctx.out.emit(piece)
                yield
        self.ctx.out.watermark(time)
