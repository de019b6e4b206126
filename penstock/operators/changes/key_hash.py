"""In front of the exchange: the hash of each row's key, by which rows are partitioned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.codes import KEY_HASH, plain_column, row_hashes
from penstock.operators.columnar.calc import conform
from penstock.operators.columnar.plan import columns_of
from penstock.operators.operator import Operator


class KeyHashOperator(Operator):
    """Adds the column ``$key``.  Without key columns all rows have one key."""

    def __init__(self, schema: pa.Schema, keys: Sequence[str]) -> None:
        self._schema = schema
        self._keys = tuple(keys)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Emit the batch with one more column."""
        if not len(batch):
            return
        columns = conform(columns_of(batch, self._schema.names), self._schema)
        keys = [plain_column(columns.column(name)) for name in self._keys]
        hashes = row_hashes(keys) if keys else np.zeros(len(batch), np.int64)
        hashed = columns.append_column(pa.field(KEY_HASH, pa.int64()), pa.array(hashes))
        self.ctx.out.emit(Batch.of_columns(hashed, batch.times))


def hashed_schema(schema: pa.Schema) -> pa.Schema:
    """What leaves a :class:`KeyHashOperator` that gets ``schema``."""
    return schema.append(pa.field(KEY_HASH, pa.int64()))
