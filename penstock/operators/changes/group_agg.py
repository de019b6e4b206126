"""Groups without windows: every batch changes the results of the groups that it has rows of.

Changes within a batch are folded: a group that it touches leaves once, however many rows of it there are,
and not at all if nothing changed.  What leaves is the new result (+I, +U), the deletion of a group whose
last row was taken back (-D), and in front of an update, if ``before`` asks for it, the old result (-U).

In BATCH mode results leave once, when their keys are whole.
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
from penstock.core.codes import Mask, key_schema
from penstock.core.ids import MAX_TIME, EventTime
from penstock.operators.changes.accumulators import Aggregated, Result
from penstock.operators.changes.group_state import GroupState
from penstock.operators.columnar.calc import conform
from penstock.operators.columnar.plan import columns_of
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.outflow import pieces
from penstock.state.key_index import Rows

_BATCH_ROWS = 65536


class GroupAggOperator(Operator):
    """Takes rows with ``$key`` and maybe ``$change``; emits key columns, aggregates and ``$change``."""

    def __init__(
        self, schema: pa.Schema, keys: Sequence[str], aggregates: Sequence[Aggregated], before: bool
    ) -> None:
        self._schema = schema
        self._keys = key_schema(schema, keys)
        self._aggregates = tuple(aggregates)
        self._before = before
        self._retracts = CHANGE in schema.names

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._state = GroupState(self._schema, self._keys, self._aggregates, self._retracts)
        self._state.register(ctx)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Change the groups of a batch, and say how."""
        if not len(batch):
            return
        columns = conform(columns_of(batch, self._schema.names), self._schema)
        state, weights = self._state, weights_of(columns)
        groups, last = state.locate(columns)
        if self.ctx.runtime.batch:
            state.add(columns, groups, weights)
            state.forget()
            return
        touched = groups[last]
        there, old = state.there(touched), state.results(touched)
        state.add(columns, groups, weights)
        self._tell(columns, last, touched, there, old)
        state.forget()

    def _tell(
        self, columns: pa.RecordBatch, last: Rows, touched: Rows, there: Mask, old: dict[str, Result]
    ) -> None:
        """Emit what has changed."""
        now, new = self._state.there(touched), self._state.results(touched)
        changed = _different(old, new) | (there != now)
        updated = there & now & changed
        parts = []
        gone = there & ~now
        if self._before:
            kinds = np.where(now, UPDATE_BEFORE, DELETE)
            parts.append(self._rows(columns, last, old, (updated | gone), kinds))
        elif gone.any():
            parts.append(self._rows(columns, last, old, gone, np.full(len(last), DELETE)))
        kinds = np.where(there, UPDATE_AFTER, INSERT)
        parts.append(self._rows(columns, last, new, now & changed, kinds))
        told = [part for part in parts if part is not None]
        if told:
            self.ctx.out.emit(Batch.of_columns(pa.concat_batches(told)))

    def _rows(
        self, columns: pa.RecordBatch, last: Rows, results: dict[str, Result], wanted: Mask, kinds: Any
    ) -> pa.RecordBatch | None:
        chosen = np.flatnonzero(wanted)
        if not len(chosen):
            return None
        keys = columns.select(self._keys.names).take(pa.array(last[chosen]))
        made = {
            name: self._state.aggregates[name].values(
                (numbers[chosen], None if valid is None else valid[chosen])
            )
            for name, (numbers, valid) in results.items()
        }
        arrays = [column.cast(field.type) for column, field in zip(keys.columns, self._keys, strict=True)]
        return _batch(dict(zip(self._keys.names, arrays, strict=True)) | made, kinds[chosen])

    def on_watermark(self, time: EventTime) -> None:
        """In BATCH mode the end of a round of keys: emit all results."""
        if self.ctx.runtime.batch and time == MAX_TIME:
            self.work(self._finish(time))
        else:
            super().on_watermark(time)

    def _finish(self, time: EventTime) -> Iterator[None]:
        state = self._state
        everything = state.everything()
        for start in range(0, len(everything), _BATCH_ROWS):
            some = everything[start : start + _BATCH_ROWS]
            made = {name: state.aggregates[name].values(it) for name, it in state.results(some).items()}
            columns = _batch(state.keys.columns(some) | made, np.full(len(some), INSERT))
            for piece in pieces(Batch.of_columns(columns), self.ctx):
                self.ctx.out.emit(piece)
                yield
        self.ctx.out.watermark(time)


def _different(old: dict[str, Result], new: dict[str, Result]) -> Mask:
    found: Any = False
    for name, (numbers, valid) in old.items():
        numbers_now, valid_now = new[name]
        differ = numbers != numbers_now
        if valid is not None and valid_now is not None:
            differ = (differ & valid_now) | (valid != valid_now)
        found = found | differ
    mask: Mask = found
    return mask


def _batch(columns: dict[str, Any], kinds: Any) -> pa.RecordBatch:
    named = {**columns, CHANGE: pa.array(kinds.astype(np.int8))}
    fields = [pa.field(name, column.type) for name, column in columns.items()] + [CHANGE_FIELD]
    return pa.RecordBatch.from_arrays(list(named.values()), schema=pa.schema(fields))
