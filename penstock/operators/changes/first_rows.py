"""The first row of each key to come: only the keys are kept, and nothing changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.codes import KEY_HASH, key_schema
from penstock.operators.columnar.calc import conform
from penstock.operators.columnar.plan import columns_of
from penstock.operators.operator import Operator, OperatorContext
from penstock.state.column_state import ColumnState, MakeTable
from penstock.state.group_keys import GroupKeys
from penstock.state.key_index import Rows, grown, last_of_each

STATE_NAME = "seen-keys"


class SeenKeys:
    """Keys that were there, as state."""

    def __init__(self, schema: pa.Schema) -> None:
        self._keys = GroupKeys(schema)
        self._scratch: Rows = np.zeros(0, np.int64)

    def new(self, columns: pa.RecordBatch) -> Rows:
        """The positions of rows whose keys were not there before, the first of each."""
        known = len(self._keys)
        groups = self._keys.locate(columns)
        self._scratch = grown(self._scratch, len(self._keys))
        first = len(groups) - 1 - last_of_each(groups[::-1], self._scratch)[::-1]
        fresh: Rows = first[groups[first] >= known]
        return fresh

    def freeze(self) -> MakeTable:
        """All keys."""
        hashes, keys = self._keys.hashes.copy(), self._keys.later()
        return lambda: pa.table({KEY_HASH: pa.array(hashes), **keys()})

    def restore(self, batch: pa.RecordBatch) -> None:
        """Take keys of a snapshot."""
        self._keys.locate(batch)

    def clear(self) -> None:
        """Forget all keys."""
        self._keys.clear()


class FirstRowsOperator(Operator):
    """Passes a row on if none of its key came before; takes rows with ``$key``, none taken back."""

    def __init__(self, schema: pa.Schema, keys: Sequence[str]) -> None:
        self._schema = schema
        self._keys = key_schema(schema, keys)

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._seen = SeenKeys(self._keys)
        store = ColumnState(STATE_NAME, self._seen, self._keys.names, ctx.info.max_parallelism)
        ctx.keyed.register_chunks(STATE_NAME, store)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Emit the rows with new keys."""
        if not len(batch):
            return
        columns = conform(columns_of(batch, self._schema.names), self._schema)
        new = self._seen.new(columns)
        if len(new):
            rows = columns.drop_columns([KEY_HASH]).take(pa.array(new))
            self.ctx.out.emit(Batch.of_columns(rows, None if batch.times is None else batch.times[new]))
