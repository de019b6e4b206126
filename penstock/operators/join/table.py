"""A stream beside a table that every subtask holds: fixed, or replaced as a whole now and then.

Input 0 is the stream, input 1 brings new versions of the table.  Each record meets the version that is
there when it is processed.  The version is part of the state, so records that are read again after a
failure meet it, or a newer one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.connectors.combinators.table_versions import TableVersion
from penstock.core.batch import Batch
from penstock.operators.join.functions import JoinKind, pair_call
from penstock.operators.operator import OperatorContext
from penstock.operators.outflow import as_results
from penstock.operators.process import CallContext, ProcessBase
from penstock.state.descriptors import MapStateDescriptor

_STATE = MapStateDescriptor("table")
_CURRENT = "current"
KeyOf = Callable[[Any], Any]


class TableJoinOperator(ProcessBase):
    """Joins records with the rows of a table. ``record_key`` and ``row_key`` say what must be equal."""

    context = CallContext

    def __init__(
        self, function: Any, record_key: KeyOf, row_key: KeyOf, how: JoinKind, initial: TableVersion
    ) -> None:
        super().__init__(function, False, self._meet)
        self._pair = pair_call(function)
        self._record_key = record_key
        self._row_key = row_key
        self._nobody: tuple[Any, ...] = (None,) if how.keeps_left else ()
        self._initial = initial

    def open(self, ctx: OperatorContext) -> None:
        self._state = ctx.operator_state.get_broadcast_state(_STATE)
        known = self._state.get(_CURRENT)
        stored = None if known is None else TableVersion(*known)
        newest = self._initial if stored is None else max(self._initial, stored, key=lambda v: v.loaded_ms)
        self._index = self._indexed(newest)
        self._loaded_ms = newest.loaded_ms
        super().open(ctx)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        if input_index:
            for version in batch.to_rows():
                self._replace(version)
        else:
            super().process(batch)

    def _replace(self, version: TableVersion) -> None:
        if version.loaded_ms > self._loaded_ms:
            self._index = self._indexed(version)
            self._loaded_ms = version.loaded_ms
            self._state.put(_CURRENT, (version.loaded_ms, version.data))

    def _indexed(self, version: TableVersion) -> dict[Any, list[Any]]:
        index: dict[Any, list[Any]] = {}
        for row in version.rows():
            index.setdefault(self._row_key(row), []).append(row)
        return index

    def _meet(self, value: Any, ctx: Any) -> list[Any]:
        results: list[Any] = []
        own = self.ctx.own
        for row in self._index.get(self._record_key(value), self._nobody):
            made = self._pair(own(value), own(row))
            if made is not None:
                results.extend(as_results(made))
        return results
