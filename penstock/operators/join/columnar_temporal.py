"""Temporal join of columns: all records that the watermark has reached meet their versions at once.

Left records wait in panes of event time.  Versions too, until the watermark has passed their pane: then they
move to one pane for all that is past, of which each key needs the last version only.  That pane is thinned
out when it has doubled, so a version is handled a few times, however long the job runs.  Of versions with
equal times the one that came last is valid: they carry the order of their arrival.

Same pairs, times and late records as the row operator.  Versions here are never deleted: columns have no row
kinds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch, Indices
from penstock.core.ids import EventTime
from penstock.operators.columnar.plan import event_times
from penstock.operators.join.columnar import ColumnarJoin
from penstock.operators.join.columns import ORDER, TIME, ColumnJoin, RowChunks, columns_for
from penstock.operators.join.interval import Side
from penstock.operators.operator import OperatorContext
from penstock.state.chunks import PANE

_WIDTH_MS = 1000
_PAST = -(1 << 62)
"""The pane of all versions that only the next one of their key can end."""
_FEW_ROWS = 65536
"""The past is not thinned out before it has so many versions more than after the last time."""


class ColumnarTemporalJoinOperator(ColumnarJoin):
    """Joins a stream of columns with one of versions; emits the columns of both sides."""

    def __init__(self, join: ColumnJoin, late_tag: str | None = None) -> None:
        super().__init__(join, (late_tag, None))

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._needed = 0
        store = self._stores[Side.RIGHT]
        orders = [_whole(store, pane).column(ORDER).to_numpy() for pane in store.panes()]
        self._arrived = 1 + max((int(order.max()) for order in orders), default=-1)

    def _store(self, ctx: OperatorContext, side: Side) -> RowChunks:
        schema = self._join.schemas[side]
        if schema is not None:
            for name in (TIME,) if side is Side.LEFT else (TIME, ORDER):
                schema = schema.append(pa.field(name, pa.int64()))
        return RowChunks(f"join-{side.name.lower()}", self._join.keys[side], ctx.info.max_parallelism, schema)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        side, store = Side(input_index), self._stores[input_index]
        if not len(batch):
            return
        times = event_times(batch)
        if side is Side.LEFT and (late := times <= store.watermark).any():
            self._late.send(side, batch.take(np.flatnonzero(late)))
            batch, times = batch.take(np.flatnonzero(~late)), times[~late]
            if not len(batch):
                return
        table = columns_for(batch, self._join.keys[side]).append_column(TIME, pa.array(times))
        if side is Side.RIGHT:
            first, self._arrived = self._arrived, self._arrived + len(batch)
            table = table.append_column(ORDER, pa.array(np.arange(first, self._arrived)))
        paned = table.append_column(PANE, pa.array(times // _WIDTH_MS * _WIDTH_MS))
        self._keep(side, paned, _WIDTH_MS)

    def on_watermark(self, time: EventTime) -> None:
        """Join the records whose time has come, forget versions that nobody can ask for, pass it on."""
        self.work(self._advance(time))

    def _advance(self, time: EventTime) -> Iterator[None]:
        due = self._due(time)
        if due is not None:
            yield from self._meet(due)
        self._move_to_the_past(time)
        for store in self._stores:
            store.advance(time)
        self.ctx.out.watermark(time)

    def _due(self, time: EventTime) -> pa.Table | None:
        """Take the left records up to ``time`` out of the state."""
        store, found = self._stores[Side.LEFT], []
        for pane in store.panes():
            if pane > time:
                break
            table = _whole(store, pane)
            is_due = table.column(TIME).to_numpy() <= time
            if is_due.any():
                found.append(table.filter(pa.array(is_due)))
                store.drop(pane)
                if not is_due.all():
                    store.append(pane, table.filter(pa.array(~is_due)))
        return pa.concat_tables(found) if found else None

    def _meet(self, due: pa.Table) -> Iterator[None]:
        store, times = self._stores[Side.RIGHT], due.column(TIME).to_numpy()
        last = int(times.max())
        panes = [_whole(store, pane) for pane in store.panes() if pane <= last]
        valid: Indices = np.full(due.num_rows, -1)
        if panes:
            versions = self._join.near(due, pa.concat_tables(panes), Side.LEFT)
            valid = self._valid(due, versions)
            met = np.flatnonzero(valid >= 0)
            if len(met):
                columns = self._join.pick(due, versions, (pa.array(met), pa.array(valid[met])))
                yield from self._emit(columns, times[met])
        lonely = np.flatnonzero(valid < 0)
        if len(lonely) and self._join.keeps[Side.LEFT]:
            yield from self._emit(self._beside_nothing(Side.LEFT, due, lonely), times[lonely])

    def _valid(self, due: pa.Table, versions: pa.Table) -> Indices:
        """The position of the version of each record, -1 if it has none."""
        keys, version_keys = self._join.codes_of_both(due, versions)
        times, since = due.column(TIME).to_numpy(), versions.column(TIME).to_numpy()
        moments, ranks = np.unique(np.concatenate([times, since]), return_inverse=True)
        asked = keys * len(moments) + ranks[: len(times)]
        known = version_keys * len(moments) + ranks[len(times) :]
        order = np.lexsort((versions.column(ORDER).to_numpy(), known))
        at = np.searchsorted(known[order], asked, "right") - 1
        if not len(order):
            return at
        found = order[at]
        return np.where((at >= 0) & (version_keys[found] == keys), found, -1)

    def _move_to_the_past(self, time: EventTime) -> None:
        store = self._stores[Side.RIGHT]
        for pane in store.panes():
            if pane == _PAST:
                continue
            if pane + _WIDTH_MS - 1 > time:
                break
            store.append(_PAST, _whole(store, pane))
            store.drop(pane)
        if sum(chunk.table.num_rows for chunk in store.chunks(_PAST)) > 2 * self._needed + _FEW_ROWS:
            self._thin_out()

    def _thin_out(self) -> None:
        """Of each key keep the last version of the past."""
        store = self._stores[Side.RIGHT]
        past = _whole(store, _PAST)
        keys = self._join.codes(past, Side.RIGHT)
        order = np.lexsort((past.column(ORDER).to_numpy(), past.column(TIME).to_numpy(), keys))
        is_last = np.append(keys[order][1:] != keys[order][:-1], True)
        kept = np.sort(order[is_last])
        store.drop(_PAST)
        store.append(_PAST, past.take(pa.array(kept)))
        self._needed = len(kept)


def _whole(store: RowChunks, pane: int) -> pa.Table:
    return pa.concat_tables([chunk.table for chunk in store.chunks(pane)]).combine_chunks()
