"""Event-time sessions with a fixed gap, columnar aggregates and the default trigger.

The records of a batch are sorted by key and time, those that are one session become one row of partials, and
these rows are kept (see :mod:`penstock.state.span_chunks`).  Rows that a watermark passes are looked at: all
rows of their keys are merged, what has ended is emitted, the rest goes back.  So state is read once a session
and watermark, not once a record, and there are no timers.

Same results as the row window operator, with the difference in form that all vectorised windows have: records
that are late but allowed fire their sessions again at the end of their batch, not once per record.

Whether a record is too late depends on what came before it: one whose own window is over is saved by a
session that it touches.  In a batch with such records, and only there, their keys are looked up at once.

Invariant between two calls: a stored row that the watermark has passed is a whole session and has fired.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch, Times
from penstock.core.errors import ConfigError
from penstock.core.ids import MAX_TIME, MIN_TIME, EventTime
from penstock.core.metrics import LATE_COUNTER, Counter
from penstock.operators.columnar.aggregates import Aggregate
from penstock.operators.columnar.plan import WINDOW_END, WINDOW_START, AggregatePlan, columns_of
from penstock.operators.columnar.row_sessions import taken_over
from penstock.operators.columnar.spans import find_runs, key_codes, rescued, span_ends
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.outflow import pieces
from penstock.state.span_chunks import DUE, END, START, Mask, SpanChunks

STATE_NAME = "session-partials"
_RUN = "__run"
_BATCH_ROWS = 65536
_WORTH_FOLDING = 64


class ColumnarSessionOperator(Operator):
    """Aggregates named columns per key and session; emits key columns, the session's bounds, results.

    ``late_tag`` sends records that come too late to that side output; without it they are dropped and counted
    in ``numLateRecordsDropped``.
    """

    _store: SpanChunks
    _late: Counter

    def __init__(
        self,
        keys: Sequence[str],
        gap: int,
        aggregates: Sequence[Aggregate],
        *,
        allowed_lateness: int = 0,
        late_tag: str | None = None,
        null_is_key: bool = False,
    ) -> None:
        if allowed_lateness < 0:
            raise ConfigError(f"the allowed lateness must not be negative, but is {allowed_lateness} ms")
        self._plan = AggregatePlan(keys, aggregates, null_is_key)
        self._gap = gap
        self._lateness = allowed_lateness
        self._late_tag = late_tag

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        plan = self._plan
        self._late = ctx.metrics.counter(LATE_COUNTER)
        self._store = SpanChunks(STATE_NAME, plan.keys, plan.columns, self._merge, ctx.info.max_parallelism)
        ctx.keyed.register_chunks(STATE_NAME, self._store)
        older = taken_over(ctx.keyed, plan)
        if older is not None:
            self._store.add(self._store.conform(older))

    # -- records --------------------------------------------------------------------------------

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Store the records; those whose time is over are dropped, or fire their sessions again."""
        if not len(batch):
            return
        times = np.full(len(batch), MIN_TIME) if batch.times is None else batch.times
        rows = self._rows(batch, times)
        if int(times.min()) + self._gap - 1 > self._store.watermark:
            self._store.add(rows if rows.num_rows < _WORTH_FOLDING else self._merge([rows]))
        else:
            self.work(self._process_passed(batch, rows))

    def _rows(self, batch: Batch, times: Times) -> pa.Table:
        """A row of partials per record, with the window that it would have by itself."""
        named = self._plan.raw_partials(columns_of(batch, self._plan.inputs))
        named[START] = pa.array(times, pa.int64())
        named[END] = pa.array(span_ends(times, self._gap), pa.int64())
        named[DUE] = pa.array(np.ones(len(times), np.int8))
        return self._store.conform(pa.table(named))

    def _process_passed(self, batch: Batch, rows: pa.Table) -> Iterator[None]:
        """A batch with records whose own windows have ended already."""
        passed = _column(rows, END) - 1 <= self._store.watermark
        known = self._store.take(_none, also=rows.filter(pa.array(passed)))
        late = self._too_late(rows, known)
        if late.any():
            self._divert(batch, late)
            rows = rows.filter(pa.array(~late))
        parts = [rows] if known is None else [known, rows]
        yield from self._settle(self._merge(parts))

    def _too_late(self, rows: pa.Table, known: pa.Table | None) -> Mask:
        """Which records no session takes, in the order in which they came."""
        count = rows.num_rows
        horizon = self._horizon()
        late = np.zeros(count, np.bool_)
        if horizon is None or not (over := _column(rows, END) - 1 <= horizon).any():
            return late
        whole = rows if known is None else pa.concat_tables([rows, known])
        codes = key_codes([whole.column(name) for name in self._plan.keys])
        starts, ends = _column(whole, START), _column(whole, END)
        runs = find_runs(codes, starts, ends)
        late[:] = (runs.ends - 1 <= horizon)[runs.of_row[:count]]
        # What is left may have been saved by a record that came later: that does not count.
        unsure = np.unique(runs.of_row[:count][over & ~late])
        by_run = np.argsort(runs.of_row, kind="stable")
        bounds = np.searchsorted(runs.of_row[by_run], [unsure, unsure + 1]).T.tolist()
        for begin, end in bounds:
            members = by_run[begin:end]
            mine, there = members[members < count], members[members >= count]
            spans = zip(starts[mine].tolist(), ends[mine].tolist(), strict=True)
            stored = zip(starts[there].tolist(), ends[there].tolist(), strict=True)
            late[mine] = ~np.array(rescued(stored, spans, horizon))
        return late

    def _divert(self, batch: Batch, late: Mask) -> None:
        if self._late_tag is None:
            self._late.inc(int(late.sum()))
        else:
            self.ctx.out.side(self._late_tag, batch.take(np.flatnonzero(late)))

    # -- time -----------------------------------------------------------------------------------

    def on_watermark(self, time: EventTime) -> None:
        """Emit the sessions that end, forget those that nothing can join any more, pass the watermark on."""
        self.work(self._advance(time))

    def _advance(self, time: EventTime) -> Iterator[None]:
        store = self._store
        store.advance(time)
        horizon = self._horizon()

        def passed(table: pa.Table) -> Mask:
            last = _column(table, END) - 1
            wanted: Mask = (last <= time) & (_column(table, DUE) == 1)
            return wanted if horizon is None else wanted | (last <= horizon)

        taken = store.take(passed)
        if taken is not None:
            yield from self._settle(taken)
        self.ctx.out.watermark(time)

    def _horizon(self) -> int | None:
        """Sessions whose last time is not behind it are closed; ``None`` if no time is before it."""
        watermark = self._store.watermark
        if watermark == MAX_TIME:
            return watermark
        horizon = watermark - self._lateness
        return None if horizon < MIN_TIME else horizon

    def _settle(self, sessions: pa.Table) -> Iterator[None]:
        """Store whole sessions again that are still open, and emit those whose end has come."""
        horizon, last = self._horizon(), _column(sessions, END) - 1
        due = (_column(sessions, DUE) == 1) & (last <= self._store.watermark)
        left = pa.array(np.where(due, 0, _column(sessions, DUE)), pa.int8())
        kept = sessions.set_column(sessions.schema.get_field_index(DUE), DUE, left)
        self._store.add(kept if horizon is None else kept.filter(pa.array(last > horizon)))
        if due.any():
            found = np.flatnonzero(due)
            order = found[np.argsort(last[found], kind="stable")]
            yield from self._emit(sessions.take(pa.array(order)))

    def _emit(self, sessions: pa.Table) -> Iterator[None]:
        columns: dict[str, Any] = {name: sessions.column(name) for name in self._plan.keys}
        columns[WINDOW_START] = sessions.column(START)
        columns[WINDOW_END] = sessions.column(END)
        for aggregate in self._plan.aggregates:
            columns[aggregate.name] = aggregate.finish(sessions)
        ends = _column(sessions, END)
        start = 0
        for result in pa.table(columns).combine_chunks().to_batches(_BATCH_ROWS):
            times = ends[start : start + result.num_rows] - 1
            start += result.num_rows
            for piece in pieces(Batch.of_columns(result, times), self.ctx):
                self.ctx.out.emit(piece)
                yield

    def _merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """One row for all rows of a key that overlap or touch."""
        whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        if not whole.num_rows:
            return whole
        codes = key_codes([whole.column(name) for name in self._plan.keys])
        runs = find_runs(codes, _column(whole, START), _column(whole, END))
        if len(runs.first) == whole.num_rows:
            return whole.combine_chunks()
        folded = self._plan.merge([whole.append_column(_RUN, pa.array(runs.of_row))], by=[_RUN], latest=DUE)
        run = folded.column(_RUN).to_numpy()
        named: dict[str, Any] = {}
        for name in self._plan.keys:
            named[name] = whole.column(name).combine_chunks().take(pa.array(runs.first[run]))
        for name in self._plan.columns[len(self._plan.keys) :]:
            named[name] = folded.column(name)
        named[START], named[END] = pa.array(runs.starts[run]), pa.array(runs.ends[run])
        named[DUE] = folded.column(DUE)
        return pa.table(named)


def _column(table: pa.Table, name: str) -> Any:
    return table.column(name).to_numpy()


def _none(table: pa.Table) -> Mask:
    return np.zeros(table.num_rows, np.bool_)
