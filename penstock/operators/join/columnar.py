"""Joins of columns: a whole batch, or all keys of a window, at once.

Records of each side lie in panes of event time.  Interval joins have panes at least as wide as the interval,
so a batch looks into few of them.  Window joins (tumbling and sliding event-time windows) have those of
columnar aggregation; a window that the watermark passes joins the panes it is made of.

Same pairs, times, lonely and late records as the row operators, in every kind of join.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch, Indices, Times
from penstock.core.errors import ConfigError
from penstock.core.ids import MIN_TIME, EventTime
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.plan import WINDOW_END, WINDOW_START, event_times
from penstock.operators.columnar.spans import span_ends
from penstock.operators.join.close_pairs import close_pairs
from penstock.operators.join.columns import (
    MET,
    ROW,
    TIME,
    ColumnJoin,
    RowChunks,
    batches_of,
    columns_for,
)
from penstock.operators.join.interval import Interval, Side
from penstock.operators.join.met_rows import Mask, MetChunks
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.outflow import LateRecords, LateTags, pieces
from penstock.state.chunks import PANE, split

_NARROWEST_MS = 1000
"""Panes are not narrower than this, or a short interval would make very many of them."""
_MANY_TIMES = 4
"""If so many times more rows are stored than are new, those with other keys are left out first."""
_MOST_PAIRS, _FEW_PAIRS = 65536, 256
"""Of how many pairs columns are made at a time; in between, as many as may leave together."""


class ColumnarJoin(Operator):
    """Joins two streams of columns, keyed by field names."""

    def __init__(self, join: ColumnJoin, late_tags: LateTags) -> None:
        self._join = join
        self._late_tags = late_tags

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._late = LateRecords(ctx, self._late_tags)
        self._stores = [self._store(ctx, side) for side in Side]
        for store in self._stores:
            ctx.keyed.register_chunks(store.name, store)

    @abstractmethod
    def _store(self, ctx: OperatorContext, side: Side) -> RowChunks:
        """Where the records of a side are."""

    def _keep(self, side: int, table: pa.Table, width: int) -> None:
        """Store rows that have a column ``PANE``."""
        store = self._stores[side]
        for pane, rows in split(table, PANE, width):
            store.append(pane, store.conform(rows.drop_columns([PANE])))

    def _emit(self, columns: dict[str, Any], times: Times) -> Iterator[None]:
        for batch in batches_of(columns, times):
            for piece in pieces(batch, self.ctx):
                self.ctx.out.emit(piece)
                yield

    def _pairs(
        self, left: pa.Table, right: pa.Table, rows: tuple[Indices, Indices]
    ) -> Iterator[tuple[slice, dict[str, Any]]]:
        """The columns of pairs, given by positions: of some at a time, as they may be many, and large."""
        each = sum(table.nbytes / max(1, table.num_rows) for table in (left, right))
        many = max(_FEW_PAIRS, min(_MOST_PAIRS, int(4 * self.ctx.piece_bytes / max(1.0, each))))
        for low in range(0, len(rows[0]), many):
            some = slice(low, low + many)
            yield some, self._join.pick(left, right, (pa.array(rows[0][some]), pa.array(rows[1][some])))

    def _beside_nothing(self, side: Side, table: pa.Table, lonely: Indices) -> dict[str, Any]:
        """The columns of records that have no partner."""
        rows, nothing = pa.array(lonely), self._stores[1 - side].nothing()
        if side is Side.LEFT:
            return self._join.pick(table, nothing, (rows, None))
        return self._join.pick(nothing, table, (None, rows))


class ColumnarIntervalJoinOperator(ColumnarJoin):
    """Interval join: emits the columns of both sides."""

    def __init__(self, join: ColumnJoin, interval: Interval, late_tags: LateTags = (None, None)) -> None:
        super().__init__(join, late_tags)
        self._interval = interval
        self._width = max(interval.upper - interval.lower + 1, _NARROWEST_MS)

    def _store(self, ctx: OperatorContext, side: Side) -> RowChunks:
        join, name, schema = self._join, f"join-{side.name.lower()}", self._join.schemas[side]
        timed = None if schema is None else schema.append(pa.field(TIME, pa.int64()))
        kind = MetChunks if join.keeps[side] else RowChunks
        store = kind(name, join.keys[side], ctx.info.max_parallelism, timed)
        store.width = self._width
        return store

    def process(self, batch: Batch, input_index: int = 0) -> None:
        side = Side(input_index)
        if not len(batch):
            return
        times = event_times(batch)
        late = times < self._stores[side].watermark
        if late.any():
            self._late.send(side, batch.take(np.flatnonzero(late)))
            batch = batch.take(np.flatnonzero(~late))
            times = times[~late]
            if not len(batch):
                return
        table = columns_for(batch, self._join.keys[side]).append_column(TIME, pa.array(times))
        table = self._stores[side].conform(table)
        self.work(self._meet_and_store(side, table, times))

    def _meet_and_store(self, side: Side, table: pa.Table, times: Times) -> Iterator[None]:
        met: Mask = np.zeros(len(times), np.bool_)
        yield from self._meet(side, table, times, met)
        if self._join.keeps[side]:
            table = table.append_column(MET, pa.array(met))
        paned = table.append_column(PANE, pa.array(times // self._width * self._width))
        self._keep(side, paned, self._width)

    def _meet(self, side: Side, mine: pa.Table, times: Times, met: Mask) -> Iterator[None]:
        """Emit the pairs of a new batch with what is stored of the other side, and note who met."""
        lower, upper = self._interval.seen_from(side)
        others = self._reached(Side(1 - side), int(times.min()) + lower, int(times.max()) + upper)
        if others is None:
            return
        if others.num_rows > _MANY_TIMES * len(times):
            others = self._join.near(mine, others, side)
        left, right = (mine, others) if side is Side.LEFT else (others, mine)
        both_times = left.column(TIME).to_numpy(), right.column(TIME).to_numpy()
        keys = self._join.codes_of_both(left, right)
        for rows in close_pairs(keys, both_times, self._interval.lower, self._interval.upper):
            met[rows[side]] = True
            self._note(Side(1 - side), others, rows[1 - side])
            later = np.maximum(both_times[0][rows[0]], both_times[1][rows[1]])
            for some, columns in self._pairs(left, right, rows):
                yield from self._emit(columns, later[some])

    def _note(self, side: Side, table: pa.Table, rows: Indices) -> None:
        store = self._stores[side]
        if isinstance(store, MetChunks):
            panes, numbers = (table.column(name).to_numpy()[rows] for name in (PANE, ROW))
            for pane in np.unique(panes).tolist():
                store.mark(pane, numbers[panes == pane])

    def _reached(self, side: Side, first: int, last: int) -> pa.Table | None:
        """The stored rows of the panes from ``first`` to ``last``, with a column that says which."""
        found = []
        for pane in self._stores[side].panes():
            if first - self._width < pane <= last and (table := self._alive(side, pane)) is not None:
                found.append(table.append_column(PANE, pa.array(np.full(table.num_rows, pane, np.int64))))
        return pa.concat_tables(found).combine_chunks() if found else None

    def _alive(self, side: Side, pane: int) -> pa.Table | None:
        """The stored rows of a pane that have not expired, also not before a restore.

        A row at the watermark is not late, and stays until the next one: what is stored of a side whose rows
        expire at their own time has come since the watermark did.
        """
        store, stay = self._stores[side], self._interval.stay(side)
        found = []
        for chunk in store.chunks(pane):
            expired = max(chunk.fired_to, store.watermark) - max(stay, 1)
            table = chunk.table
            if expired > MIN_TIME and pane <= expired:
                alive = table.column(TIME).to_numpy() > expired
                table = table.filter(pa.array(alive))
            if table.num_rows:
                found.append(table)
        return pa.concat_tables(found) if found else None

    def on_watermark(self, time: EventTime) -> None:
        """Show who expires alone, forget the panes that nothing new can meet, pass the watermark on."""
        self.work(self._advance(time))

    def _advance(self, time: EventTime) -> Iterator[None]:
        for side, store in zip(Side, self._stores, strict=True):
            if isinstance(store, MetChunks):
                yield from self._alone(side, store, time)
        for side, store in zip(Side, self._stores, strict=True):
            store.advance(time)
            for pane in store.panes():
                if pane + self._width - 1 + self._interval.stay(side) > time:
                    if pane <= time and not self._interval.stay(side):
                        store.keep(pane, lambda table: table.column(TIME).to_numpy() > time)
                    break
                store.drop(pane)
        self.ctx.out.watermark(time)

    def _alone(self, side: Side, store: MetChunks, time: EventTime) -> Iterator[None]:
        """Emit the records that expire and have met nobody, each at the time of its expiry."""
        stay = self._interval.stay(side)
        for pane in store.panes():
            if pane + stay > time:
                break
            for chunk in store.chunks(pane):
                numbers = chunk.table.column(ROW).to_numpy()
                until = span_ends(chunk.table.column(TIME).to_numpy(), stay)
                lonely = np.flatnonzero((until <= time) & store.unmet(pane, numbers))
                if len(lonely):
                    store.mark(pane, numbers[lonely])
                    yield from self._emit(self._beside_nothing(side, chunk.table, lonely), until[lonely])


class ColumnarWindowJoinOperator(ColumnarJoin):
    """Window join: emits the columns of both sides and the window, all keys of it at once."""

    def __init__(self, join: ColumnJoin, panes: Panes, late_tags: LateTags = (None, None)) -> None:
        super().__init__(join, late_tags)
        self._panes = panes

    def _store(self, ctx: OperatorContext, side: Side) -> RowChunks:
        join, name, most = self._join, f"join-{side.name.lower()}", ctx.info.max_parallelism
        return RowChunks(name, join.keys[side], most, join.schemas[side], self._panes.described)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        if not len(batch):
            return
        panes = self._panes
        times = event_times(batch)
        table = columns_for(batch, self._join.keys[input_index])
        table = table.append_column(PANE, pa.array(panes.floor(times)))
        verdict = panes.judge(times, 0, self._stores[input_index].watermark)
        if verdict is not None:
            late, keep = verdict
            table = table.filter(pa.array(keep))
            if late.any():
                self._late.send(input_index, batch.take(np.flatnonzero(late)))
        self._keep(input_index, table, panes.width)

    def on_watermark(self, time: EventTime) -> None:
        """Join the windows that end, forget the panes that no window needs, pass the watermark on."""
        self.work(self._advance(time))

    def _advance(self, time: EventTime) -> Iterator[None]:
        panes = self._panes
        for start in panes.due(self._wanted(), self._stores[Side.LEFT].watermark, time):
            yield from self._fire(start)
        for store in self._stores:
            store.advance(time)
            for pane in store.panes():
                if not panes.is_late(pane, 0, time):
                    break
                store.drop(pane)
        self.ctx.out.watermark(time)

    def _wanted(self) -> list[int]:
        """The panes whose windows may give results: with records of a side that none comes without."""
        left, right = (set(store.panes()) for store in self._stores)
        keeps_left, keeps_right = self._join.keeps
        if keeps_left and keeps_right:
            return sorted(left | right)
        return sorted(right if keeps_right else left)

    def _fire(self, start: int) -> Iterator[None]:
        contents = [self._contents(store, start) for store in self._stores]
        left, right = contents
        rows: list[Indices] = [np.zeros(0, np.int64)] * 2
        if left is not None and right is not None:
            rows = [each.to_numpy() for each in self._join.match(left, right)]
            for _, columns in self._pairs(left, right, (rows[0], rows[1])):
                yield from self._emit_window(start, columns)
        for side, table in zip(Side, contents, strict=True):
            if table is not None and self._join.keeps[side]:
                alone = np.ones(table.num_rows, np.bool_)
                alone[rows[side]] = False
                lonely = np.flatnonzero(alone)
                if len(lonely):
                    yield from self._emit_window(start, self._beside_nothing(side, table, lonely))

    def _emit_window(self, start: int, columns: dict[str, Any]) -> Iterator[None]:
        count = len(next(iter(columns.values())))
        for name in (WINDOW_START, WINDOW_END):
            if name in columns:
                raise ConfigError(
                    f"the joined stream would have two columns {name!r}: one of a stream, and the window's "
                    "own; rename that of the stream before the join"
                )
        columns[WINDOW_START] = np.full(count, start, np.int64)
        columns[WINDOW_END] = np.full(count, start + self._panes.size, np.int64)
        yield from self._emit(columns, np.full(count, self._panes.max_time(start), np.int64))

    def _contents(self, store: RowChunks, start: int) -> pa.Table | None:
        """The rows of one side of a window, without those that it was joined with before a restore."""
        chunks = (chunk for pane in self._panes.of_window(start) for chunk in store.chunks(pane))
        found = [chunk.table for chunk in chunks if chunk.fired_to < self._panes.max_time(start)]
        return pa.concat_tables(found) if found else None
