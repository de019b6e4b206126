"""Where changes leave columns: rows that know their kind."""

from __future__ import annotations

from penstock.core.batch import Batch
from penstock.core.changes import CHANGE
from penstock.core.row import Row, RowKind
from penstock.operators.operator import Operator

KINDS = (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE)
"""By the numbers in ``$change``."""


class ChangelogOperator(Operator):
    """Makes rows of columns; their kinds are those in ``$change``, if there is one."""

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Emit the rows of a batch."""
        columns = batch.columns
        if columns is None or CHANGE not in columns.schema.names:
            self.ctx.out.emit(Batch.of_rows(batch.to_rows(), batch.times))
            return
        place = columns.schema.get_field_index(CHANGE)
        kinds = columns.column(place).to_pylist()
        rows: list[Row] = Batch.of_columns(columns.remove_column(place)).to_rows()
        for row, kind in zip(rows, kinds, strict=True):
            if kind:
                row.set_row_kind(KINDS[kind])
        self.ctx.out.emit(Batch.of_rows(rows, batch.times))
