"""Folds records before the exchange, so that fewer rows travel.

Stateless and exact: what it emits are partial rows that the window operator merges as if each record had
come by itself.  Lateness is judged there too, by pane, with ``__rows`` saying how many records a row is.
Leave it out when late records themselves are wanted as a side output, since it folds them away.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.batch import Batch
from penstock.operators.columnar.aggregates import Aggregate
from penstock.operators.columnar.fold import Folder
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.plan import AggregatePlan, columns_of, event_times
from penstock.operators.operator import Operator


class PreAggregateOperator(Operator):
    """Last of the chain in front of the keyed exchange of a columnar window aggregation.

    Its output has the key columns, ``__pane``, ``__rows`` and the partial columns, is keyed by the key
    columns, and is understood only by a ``ColumnarWindowOperator`` made with the same arguments and
    ``ColumnarInput.PARTIALS``.
    """

    def __init__(self, keys: Sequence[str], panes: Panes, aggregates: Sequence[Aggregate]) -> None:
        self._plan = AggregatePlan(keys, aggregates)
        self._folder = Folder(self._plan, panes)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Emit the batch as partial rows."""
        if not len(batch):
            return
        folded, times = self._folder.fold(columns_of(batch, self._plan.inputs), event_times(batch))
        columns = folded.combine_chunks().to_batches()[0]
        self.ctx.out.emit(Batch.of_columns(columns, times, self._plan.keys))
