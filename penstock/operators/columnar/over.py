"""OVER aggregates in order of event time: each row with what was before it, in its group.

A row waits until the watermark has come to its time; then all rows up to it are known and its frame is final.
Rows that have been shown leave their partials behind (see :mod:`plan`), as long as a frame can reach them:
those of the last while, the last few of each group, or, without a lower bound, all of a group folded into
one.

Rows at or before the watermark are late: they are dropped and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.batch import Batch, Indices, Times
from penstock.core.errors import ConfigError
from penstock.core.ids import MIN_TIME, EventTime
from penstock.core.metrics import LATE_COUNTER, Counter
from penstock.operators.columnar.aggregates import ROWS, Aggregate, Fold
from penstock.operators.columnar.over_frames import fold_frames
from penstock.operators.columnar.plan import AggregatePlan, columns_of, event_times
from penstock.operators.columnar.ranking import first_of_each
from penstock.operators.columnar.spans import key_codes
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.outflow import pieces
from penstock.state.chunks import PANE, ChunkStore, split

TIME = "$time"
SEEN = "$seen"
_WAITING, _PAST_STATE = "over-waiting", "over-past"
_WIDTH_MS = 1000
_PAST = 0
"""The only pane of what has been shown."""
_FEW_CHUNKS = 4
"""What has been shown is read with each watermark: it is kept in few pieces."""
_BATCH_ROWS = 65536


@dataclass(frozen=True)
class Frame:
    """How far back a frame reaches: ``rows`` before the row, or ``range_ms`` of event time; else all the way.

    Frames by time contain all rows of the row's own time; those by rows end with the row.
    """

    by_rows: bool
    rows: int | None = None
    range_ms: int | None = None

    def __post_init__(self) -> None:
        for number in (self.rows, self.range_ms):
            if number is not None and number < 0:
                raise ConfigError(f"a frame reaches back from nothing on, not {number}")

    @property
    def is_unbounded(self) -> bool:
        """Whether it contains everything before the row."""
        return self.rows is None and self.range_ms is None


class OverOperator(Operator):
    """Emits the rows of ``schema`` with a column for each aggregate; its input is keyed by ``keys``."""

    _late: Counter

    def __init__(
        self, schema: pa.Schema, keys: Sequence[str], frame: Frame, aggregates: Sequence[Aggregate]
    ) -> None:
        self._plan = AggregatePlan(keys, aggregates, null_is_key=True)
        self._schema = schema
        self._frame = frame

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._late = ctx.metrics.counter(LATE_COUNTER)
        keys, most = self._plan.keys, ctx.info.max_parallelism
        self._waiting = ChunkStore(_WAITING, keys, [*self._schema.names, TIME], _joined, most)
        bounds = f"frames {'without' if self._frame.is_unbounded else 'with'} a lower bound"
        columns = [*self._plan.columns, TIME, SEEN]
        self._past = ChunkStore(_PAST_STATE, keys, columns, self._needed, most, bounds)
        for store in (self._waiting, self._past):
            ctx.keyed.register_chunks(store.name, store)
        found = [chunk.table.column(SEEN) for chunk in self._past.chunks(_PAST) if chunk.table.num_rows]
        self._seen = 1 + max((int(pc.max(column).as_py()) for column in found), default=-1)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Let the rows wait that are not late."""
        if not len(batch):
            return
        times = event_times(batch)
        table = pa.Table.from_batches([columns_of(batch, self._schema.names)])
        table = table.append_column(TIME, pa.array(times))
        late = times <= self._waiting.watermark
        if late.any():
            self._late.inc(int(late.sum()))
            table, times = table.filter(pa.array(~late)), times[~late]
        paned = table.append_column(PANE, pa.array(times // _WIDTH_MS * _WIDTH_MS))
        for pane, rows in split(paned, PANE, _WIDTH_MS):
            self._waiting.append(pane, self._waiting.conform(rows.drop_columns([PANE])))

    def on_watermark(self, time: EventTime) -> None:
        """Show the rows whose time has come, and pass the watermark on."""
        self.work(self._advance(time))

    def _advance(self, time: EventTime) -> Iterator[None]:
        due = self._take(time)
        if due is not None and due.num_rows:
            yield from self._show(due)
        for store in (self._waiting, self._past):
            store.advance(time)
        self.ctx.out.watermark(time)

    def _take(self, time: EventTime) -> pa.Table | None:
        """Take the rows up to ``time`` out of the state, in order of their times."""
        found = []
        for pane in self._waiting.panes():
            if pane > time:
                break
            whole = pa.concat_tables([chunk.table for chunk in self._waiting.chunks(pane)])
            is_due = whole.column(TIME).to_numpy() <= time
            found.append(whole.filter(pa.array(is_due)))
            self._waiting.drop(pane)
            if not is_due.all():
                self._waiting.append(pane, whole.filter(pa.array(~is_due)))
        if not found:
            return None
        due = pa.concat_tables(found).combine_chunks()
        return due.take(pa.array(np.argsort(due.column(TIME).to_numpy(), kind="stable")))

    def _show(self, due: pa.Table) -> Iterator[None]:
        times = due.column(TIME).to_numpy()
        named = self._plan.raw_partials(due.combine_chunks().to_batches()[0])
        named[TIME] = due.column(TIME)
        named[SEEN] = pa.array(np.arange(self._seen, self._seen + due.num_rows))
        self._seen += due.num_rows
        fresh = self._past.conform(pa.table(named))
        folded = self._folded(fresh, times)
        self._past.append(_PAST, fresh if self._frame.range_ms is not None else self._needed([fresh]))
        if len(self._past.chunks(_PAST)) > _FEW_CHUNKS:
            self._past.compact(_PAST)
        shown = due.drop_columns([TIME])
        for aggregate in self._plan.aggregates:
            shown = shown.append_column(aggregate.name, aggregate.finish(folded))
        start = 0
        for piece in shown.combine_chunks().to_batches(_BATCH_ROWS):
            batch = Batch.of_columns(piece, times[start : start + piece.num_rows])
            start += piece.num_rows
            for part in pieces(batch, self.ctx):
                self.ctx.out.emit(part)
                yield

    def _folded(self, fresh: pa.Table, times: Times) -> pa.Table:
        """The partials of the frame of each fresh row."""
        past = self._near(fresh, int(times[0]))
        whole = pa.concat_tables([past, fresh]).combine_chunks()
        codes = key_codes([whole.column(name) for name in self._plan.keys])
        moments = whole.column(TIME).to_numpy()
        order = np.lexsort((whole.column(SEEN).to_numpy(), moments, codes))
        codes, moments = codes[order], moments[order]
        begins = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        own = np.empty(len(order), np.int64)
        own[order] = np.arange(len(order))
        own = own[past.num_rows :]
        starts, ends = self._stretches(codes, moments, begins, own)
        named: dict[str, Any] = {}
        for name, fold in ((ROWS, Fold.SUM), *((it.name, it.fold) for it in self._plan.partials)):
            values = whole.column(name).combine_chunks().take(pa.array(order))
            named[name] = fold_frames(fold, values, starts, ends, begins)
        return pa.table(named)

    def _stretches(
        self, codes: Indices, moments: Times, begins: Indices, own: Indices
    ) -> tuple[Indices, Indices]:
        """Where the frame of each fresh row, whose places are ``own``, begins and ends."""
        group_begins = begins[np.searchsorted(begins, own, "right") - 1]
        frame = self._frame
        if frame.by_rows:
            starts = group_begins if frame.rows is None else np.maximum(group_begins, own - frame.rows)
            return starts, own + 1
        known, ranks = np.unique(moments, return_inverse=True)
        width = len(known) + 1
        places = codes * width + ranks
        ends = np.searchsorted(places, codes[own] * width + ranks[own], "right")
        if frame.range_ms is None:
            return group_begins, ends
        first = np.searchsorted(known, moments[own] - frame.range_ms, "left")
        return np.searchsorted(places, codes[own] * width + first, "left"), ends

    def _near(self, fresh: pa.Table, first: int) -> pa.Table:
        """What has been shown of the groups of fresh rows, as far as their frames can reach."""
        tables = [chunk.table for chunk in self._past.chunks(_PAST)]
        if not tables:
            return fresh.slice(0, 0)
        past = pa.concat_tables(tables)
        if self._frame.range_ms is not None:
            past = past.filter(pc.greater_equal(past.column(TIME), first - self._frame.range_ms))
        key = self._plan.keys[0]
        return past.filter(pc.is_in(past.column(key), fresh.column(key).combine_chunks()))

    def _needed(self, tables: Sequence[pa.Table]) -> pa.Table:
        """What frames of rows to come can still reach."""
        whole = pa.concat_tables(tables).combine_chunks()
        frame = self._frame
        if frame.range_ms is not None:
            if self._past.watermark < MIN_TIME + frame.range_ms:
                return whole
            horizon = self._past.watermark + 1 - frame.range_ms
            return whole.filter(pc.greater_equal(whole.column(TIME), horizon)).combine_chunks()
        if frame.rows is not None:
            last = ((TIME, True), (SEEN, True))
            return first_of_each(whole, self._plan.keys, last, max(1, frame.rows))
        folded = self._plan.merge([whole])
        for name, value in ((TIME, MIN_TIME), (SEEN, 0)):  # before every row, whatever its time
            folded = folded.append_column(name, pa.array(np.full(folded.num_rows, value, np.int64)))
        return folded


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks()
