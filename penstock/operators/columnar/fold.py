"""Raw columns to partial columns, one batch at a time, folding records of one key and pane together.

Folding pays when keys repeat within a batch.  When they hardly do, each record becomes a partial row of
its own, which costs a few column casts; whether that still holds is probed again now and then.

Before the exchange (:class:`PreAggregateOperator`) it saves rows that travel.  That is stateless and exact:
what it emits are partial rows that the window operator merges as if each record had come by itself.  Lateness
is judged there too, by pane, with ``__rows`` saying how many records a row is.  It is left out when late
records themselves are wanted as a side output, since it folds them away.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch, Times
from penstock.operators.columnar.aggregates import Aggregate
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.plan import AggregatePlan, columns_of, event_times
from penstock.operators.operator import Operator
from penstock.state.chunks import PANE

_TIME = "__time"
_WORTH_FOLDING = 64
"""Smaller batches are passed through: the group-by call would cost more than it saves."""
_HARDLY_FOLDED = 0.5
"""Groups per record above which folding is given up for a while."""
_PROBE_EVERY = 32
"""How many times as many rows pass through unfolded before folding is tried again.

By rows, as the first batches of a source are small: a hundred rows of fifty keys hardly fold, and must not
speak for the millions behind them.
"""


class Folder:
    """Makes partial batches. Holds a hint about the data and no state that a snapshot would need."""

    def __init__(self, plan: AggregatePlan, panes: Panes) -> None:
        self._plan = plan
        self._panes = panes
        self._unfolded = 0
        """How many rows are still to pass through before folding is tried again."""

    def fold(self, columns: pa.RecordBatch, times: Times) -> tuple[pa.Table, Times]:
        """The plan's partial columns and ``__pane`` for a batch that is not empty, and a time per row.

        The time of a folded row is the latest one of the records in it.
        """
        table = pa.table(self._plan.raw_partials(columns))
        first = self._panes.pane_of(int(times.min()))
        one_pane = first == self._panes.pane_of(int(times.max()))
        if self._unfolded > 0 or len(times) < _WORTH_FOLDING:
            self._unfolded = max(0, self._unfolded - len(times))
            starts = np.full(len(times), first) if one_pane else self._panes.floor(times)
            return _with(table, PANE, starts), times
        table = _with(table, _TIME, times)
        if one_pane:
            folded = self._plan.merge([table], latest=_TIME)
            folded = _with(folded, PANE, np.full(folded.num_rows, first))
        else:
            table = _with(table, PANE, self._panes.floor(times))
            folded = self._plan.merge([table], by=[*self._plan.keys, PANE], latest=_TIME)
        if folded.num_rows > _HARDLY_FOLDED * len(times):
            self._unfolded = _PROBE_EVERY * len(times)
        latest = folded.column(_TIME).to_numpy()
        # In one order, whatever was grouped by: batches that look alike travel together.
        return folded.select([*self._plan.columns, PANE]), latest


def _with(table: pa.Table, name: str, values: Times) -> pa.Table:
    return table.append_column(name, pa.array(values, pa.int64()))


class PreAggregateOperator(Operator):
    """Last of the chain in front of the keyed exchange of a columnar window aggregation.

    Its output has the key columns, ``__pane``, ``__rows`` and the partial columns, is keyed by the key
    columns, and is understood only by a ``ColumnarWindowOperator`` made with the same arguments and
    ``ColumnarInput.PARTIALS``.
    """

    def __init__(
        self, keys: Sequence[str], panes: Panes, aggregates: Sequence[Aggregate], null_is_key: bool = False
    ) -> None:
        self._plan = AggregatePlan(keys, aggregates, null_is_key)
        self._folder = Folder(self._plan, panes)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Emit the batch as partial rows."""
        if not len(batch):
            return
        folded, times = self._folder.fold(columns_of(batch, self._plan.inputs), event_times(batch))
        columns = folded.combine_chunks().to_batches()[0]
        self.ctx.out.emit(Batch.of_columns(columns, times, self._plan.keys))
