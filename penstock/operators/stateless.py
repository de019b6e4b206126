"""Map, flat map, filter and project: row functions without memory of their own.

Behind a ``key_by`` a rich function may still ask for keyed state; then, and only then, the loop sets
the current key per record.  Otherwise results are gathered with ``out.extend(map(f, rows))``, which
runs at C speed and leaves in ``len(out)`` the position of the record that made ``f`` raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import compress
from operator import length_hint
from typing import Any

import numpy as np

from penstock.core.batch import Batch, Times
from penstock.core.errors import ConfigError
from penstock.core.row import Row
from penstock.operators.functions import FilterFunction, FlatMapFunction, Function, MapFunction
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.outflow import Outflow, spread_times
from penstock.operators.process import NO_KEYS
from penstock.operators.user_function import FunctionOperator, bind


class _RowOperator(FunctionOperator):
    """Calls a function of one value for each row."""

    def __init__(self, user: Any, kind: type[Function], method: str, keyed: bool) -> None:
        super().__init__(user, keyed)
        self._call = bind(user, kind, method)
        self._sets_key = keyed and isinstance(user, Function)

    def apply(self, batch: Batch) -> list[Any]:
        """The result for each record of ``batch``, in order."""
        rows = batch.to_rows()
        out: list[Any] = []
        try:
            if self._sets_key:
                out.extend(self._keyed_results(rows, batch.key_list()))
            else:
                out.extend(map(self._call, rows))
        except Exception:
            self.blame(rows[len(out)])
            raise
        if len(out) < len(rows):
            # extend() took a StopIteration out of user code for the end of the input
            self.blame(rows[len(out)])
            raise RuntimeError("the function raised StopIteration; give next() a default value")
        return out

    def _keyed_results(self, rows: list[Any], keys: list[Any]) -> Iterator[Any]:
        call: Callable[[Any], Any] = self._call
        scope = self.ctx.keyed.scope
        for scope.key, value in zip(keys, rows, strict=True):
            yield call(value)


class MapOperator(_RowOperator):
    """One result per record, at the record's time. Keys end here."""

    def __init__(self, user: MapFunction | Callable[[Any], Any], keyed: bool = False) -> None:
        super().__init__(user, MapFunction, "map", keyed)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        if len(batch):
            self.ctx.out.emit(Batch(rows=self.apply(batch), times=batch.times))


class FilterOperator(_RowOperator):
    """Keeps records for which the function is true, with layout, times and keys as they were."""

    def __init__(self, user: FilterFunction | Callable[[Any], Any], keyed: bool = False) -> None:
        super().__init__(user, FilterFunction, "filter", keyed)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        kept = list(compress(range(len(batch)), self.apply(batch)))
        if len(kept) == len(batch):
            if kept:
                self.ctx.out.emit(batch)
        elif kept:
            self.ctx.out.emit(batch.take(np.array(kept, dtype=np.int64)))


class FlatMapOperator(_RowOperator):
    """Any number of results per record, each at the record's time; ``None`` counts as no result."""

    def __init__(self, user: FlatMapFunction | Callable[[Any], Any], keyed: bool = False) -> None:
        super().__init__(user, FlatMapFunction, "flat_map", keyed)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        self.work(self._results(batch))

    def _results(self, batch: Batch) -> Iterator[None]:
        """Gather results and send them on, in pieces if they are many; as the loop of ``process.py``."""
        scope, call, rows = self.ctx.keyed.scope, self._call, batch.to_rows()
        keys = batch.key_list() if self._sets_key else NO_KEYS
        items: list[Any] = []
        ends: list[int] = []
        left = iter(rows)

        def results() -> Iterator[Iterable[Any]]:
            is_timed, mark = batch.times is not None, ends.append
            for scope.key, value in zip(keys, left, strict=False):
                result = call(value)
                if result is not None:
                    yield result
                if is_timed:
                    mark(len(items))

        try:
            start = yield from self._outflow.pour_all(results(), items, ends, batch.times)
        except Exception:
            self.blame(rows[-1 - length_hint(left)])
            raise
        if items:
            self._send(items, spread_times(batch.times, ends[start:], start))

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._outflow = Outflow(ctx, self._send)

    def _send(self, items: list[Any], times: Times | None) -> None:
        self.ctx.out.emit(Batch(rows=items, times=times))


class ProjectOperator(Operator):
    """Keeps the fields at the given positions, in the given order; columns stay columns."""

    def __init__(self, *indexes: int) -> None:
        if not indexes or any(not isinstance(i, int) or i < 0 for i in indexes):
            raise ConfigError(f"project needs one or more field positions from 0 on, got {indexes!r}")
        self._indexes = list(indexes)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        if batch.columns is not None:
            columns = batch.columns.select(self._indexes)
            self.ctx.out.emit(Batch(columns=columns, times=batch.times))
        else:
            self.ctx.out.emit(Batch(rows=[self._pick(row) for row in batch.to_rows()], times=batch.times))

    def _pick(self, row: Any) -> Any:
        values = [row[i] for i in self._indexes]
        if not isinstance(row, Row):
            return values if isinstance(row, list) else tuple(values)
        picked = Row(*values)
        names = row.field_names()
        if names is not None:
            picked.set_field_names([names[i] for i in self._indexes])
        return picked
