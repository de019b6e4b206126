"""The last row of each key, of a stream that only says what a key has now, or that it is gone.

For whoever needs the old rows: what leaves is the row that is taken back (-U, -D), then the new one (+U, +I).
Changes within a batch are folded: of a key that it has several rows of, the last one counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.changes import CHANGE, CHANGE_FIELD, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.core.codes import KEY_HASH, Mask, key_schema
from penstock.operators.columnar.calc import conform
from penstock.operators.columnar.plan import columns_of
from penstock.operators.operator import Operator, OperatorContext
from penstock.state.column_state import ColumnState, MakeTable
from penstock.state.group_keys import GroupKeys
from penstock.state.key_index import Rows, grown, last_of_each
from penstock.state.row_log import RowLog

STATE_NAME = "last-rows"
_WORTH_FORGETTING = 4096


class LastRows:
    """A row for each key, as state."""

    def __init__(self, schema: pa.Schema, keys: pa.Schema) -> None:
        self._keys = GroupKeys(keys)
        self._log = RowLog(schema)
        self._scratch: Rows = np.zeros(0, np.int64)
        self._clear_places()

    def _clear_places(self) -> None:
        self._place: Rows = np.full(0, -1, np.int64)
        """Where the row of each key is; -1: nowhere."""

    def last(self, rows: pa.RecordBatch) -> tuple[Rows, Rows]:
        """The last position of each different key, and the numbers of these keys."""
        groups = self._keys.locate(rows)
        self._grow()
        found = last_of_each(groups, self._scratch)
        return found, groups[found]

    def _grow(self) -> None:
        count = len(self._keys)
        self._scratch, self._place = grown(self._scratch, count), grown(self._place, count, -1)

    def replace(self, keys: Rows, rows: pa.RecordBatch, stays: Mask) -> tuple[pa.RecordBatch, Mask]:
        """Keep the rows that stay instead of those that their keys had: these, and which keys had one."""
        places = self._place[keys]
        had = places >= 0
        old = self._log.take(places[had])
        self._log.kill(places[had])
        self._place[keys] = -1
        self._place[keys[stays]] = self._log.append(rows.filter(pa.array(stays)))
        return old, had

    def tidy(self) -> None:
        """Let rows and keys go that are not there any more, if they are many."""
        if self._log.is_sparse:
            _, moved = self._log.tidy()
            self._place = np.where(self._place < 0, -1, moved[self._place])
        count = len(self._keys)
        if count > _WORTH_FORGETTING and 2 * (self._log.count - self._log.dead) < count:
            there = self._place[:count] >= 0
            self._keys.keep(there)
            self._place = self._place[:count][there]
            self._grow()

    # --- state ---------------------------------------------------------------------------------------

    def freeze(self) -> MakeTable:
        """All rows."""
        return self._log.freeze()

    def restore(self, batch: pa.RecordBatch) -> None:
        """Take rows of a snapshot."""
        rows = batch.select(self._log.schema.names)
        groups = self._keys.locate(rows)
        self._grow()
        self._place[groups] = self._log.append(rows)

    def clear(self) -> None:
        """Forget all rows."""
        self._keys.clear()
        self._log.clear()
        self._clear_places()


class LastRowsOperator(Operator):
    """Takes rows with ``$key`` and ``$change`` (+U, or -D whose key alone counts); emits old rows, too."""

    def __init__(self, schema: pa.Schema, keys: Sequence[str]) -> None:
        self._schema = schema
        self._kept = schema.remove(schema.get_field_index(CHANGE))
        self._keys = key_schema(schema, keys)

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._state = LastRows(self._kept, self._keys)
        names = [name for name in self._kept.names if name != KEY_HASH]
        ctx.keyed.register_chunks(
            STATE_NAME, ColumnState(STATE_NAME, self._state, names, ctx.info.max_parallelism)
        )

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Replace rows, and say which."""
        if not len(batch):
            return
        columns = conform(columns_of(batch, self._schema.names), self._schema)
        last, keys = self._state.last(columns)
        rows = columns.take(pa.array(last))
        stays = rows.column(CHANGE).to_numpy() != DELETE
        rows = rows.select(self._kept.names)
        old, had = self._state.replace(keys, rows, stays)
        new = rows.filter(pa.array(stays))
        told = [
            _changed(old, np.where(stays[had], UPDATE_BEFORE, DELETE)),
            _changed(new, np.where(had[stays], UPDATE_AFTER, INSERT)),
        ]
        if old.num_rows or new.num_rows:
            self.ctx.out.emit(Batch.of_columns(pa.concat_batches([it for it in told if it.num_rows])))
        self._state.tidy()


def _changed(rows: pa.RecordBatch, kinds: Rows) -> pa.RecordBatch:
    shown = rows.drop_columns([KEY_HASH])
    return pa.RecordBatch.from_arrays(
        [*shown.columns, pa.array(kinds.astype(np.int8))], schema=shown.schema.append(CHANGE_FIELD)
    )
