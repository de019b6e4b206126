"""Interval join that shows each left row once, when it meets its first partner, and no right row.

Which rows have been shown is what outer joins note of rows that have met; here rows that meet nobody go away.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.core.batch import Indices, Times
from penstock.core.ids import EventTime
from penstock.operators.join.close_pairs import close_pairs
from penstock.operators.join.columnar import ColumnarIntervalJoinOperator
from penstock.operators.join.columns import ROW, TIME
from penstock.operators.join.interval import Side
from penstock.operators.join.met_rows import Mask, MetChunks
from penstock.state.chunks import PANE


class ColumnarSemiIntervalJoinOperator(ColumnarIntervalJoinOperator):
    """Emits left rows as a left join does that found no partner: with nulls on the right."""

    def _meet(self, side: Side, mine: pa.Table, times: Times, met: Mask) -> Iterator[None]:
        lower, upper = self._interval.seen_from(side)
        others = self._reached(Side(1 - side), int(times.min()) + lower, int(times.max()) + upper)
        if others is None:
            return
        left, right = (mine, others) if side is Side.LEFT else (others, mine)
        both_times = left.column(TIME).to_numpy(), right.column(TIME).to_numpy()
        shown = met if side is Side.LEFT else self._shown(left)
        keys = self._join.codes_of_both(left, right)
        for rows in close_pairs(keys, both_times, self._interval.lower, self._interval.upper):
            fresh, first = np.unique(rows[0], return_index=True)
            first, fresh = first[~shown[fresh]], fresh[~shown[fresh]]
            if len(fresh):
                shown[fresh] = True
                if side is Side.RIGHT:
                    self._note(Side.LEFT, left, fresh)
                when = np.maximum(both_times[0][fresh], both_times[1][rows[1][first]])
                yield from self._emit(self._beside_nothing(Side.LEFT, left, fresh), when)

    def _shown(self, stored: pa.Table) -> Mask:
        """Which stored left rows have been shown already."""
        store = self._stores[Side.LEFT]
        assert isinstance(store, MetChunks)
        shown: Mask = np.zeros(stored.num_rows, np.bool_)
        panes, numbers = (stored.column(name).to_numpy() for name in (PANE, ROW))
        for pane in np.unique(panes).tolist():
            here: Indices = np.flatnonzero(panes == pane)
            shown[here] = ~store.unmet(pane, numbers[here])
        return shown

    def _alone(self, side: Side, store: MetChunks, time: EventTime) -> Iterator[None]:
        yield from ()
