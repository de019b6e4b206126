"""Joins without bounds of time: each row meets all rows of the other side, those to come, too.

A batch of one side meets the stored rows of the other, which do not change meanwhile; so all its rows are
joined at once.  Where rows without a partner are results, too, these come and go with the first and the
last row of the other side's key: for each key it is enough to know how many rows each side has.

A null in a key is equal to nothing: such rows are not kept, and leave at once where they have a place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.changes import CHANGE, CHANGE_FIELD, DELETE, INSERT, weights_of
from penstock.core.codes import Codes, Mask, validity
from penstock.operators.changes.join_side import JoinSide
from penstock.operators.changes.matching import folded
from penstock.operators.columnar.calc import conform
from penstock.operators.columnar.plan import columns_of
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.outflow import pieces
from penstock.state.column_state import ColumnState
from penstock.state.group_keys import GroupKeys
from penstock.state.key_index import Rows

_PAIRS = 65536
_SWEEPS = 16
"""Expired rows are looked for so many times while a row lives."""
_WORTH_FORGETTING = 65536
KINDS = ("inner", "left", "right", "full", "semi", "anti")


@dataclass(frozen=True)
class RegularJoin:
    """What is joined.  Schemas have ``$key``, and ``$change`` if rows of the side change."""

    how: str
    schemas: tuple[pa.Schema, pa.Schema]
    keys: tuple[tuple[str, ...], tuple[str, ...]]
    key_schema: pa.Schema
    columns: tuple[tuple[str, int, str], ...]
    """The result: a name, which side it is of, and the name there; a key of either side is of side -1."""
    changes: bool
    """Whether the result has ``$change``."""
    ttl_ms: int | None = None

    def alone(self, side: int) -> bool:
        """Whether rows of a side without a partner are results."""
        return self.how == "full" or self.how == ("left", "right")[side] or (self.how == "anti" and side == 0)

    @property
    def pairs(self) -> bool:
        """Whether pairs are results."""
        return self.how not in ("semi", "anti")


class RegularJoinOperator(Operator):
    """Joins two streams of columns."""

    def __init__(self, join: RegularJoin) -> None:
        self._join = join
        self._stored = [_without(schema, CHANGE) for schema in join.schemas]
        self._swept_ms = 0

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        join, keys = self._join, GroupKeys(self._join.key_schema)
        self._keys = keys
        self._sides = [
            JoinSide(self._stored[side], keys, join.keys[side], CHANGE in join.schemas[side].names)
            for side in (0, 1)
        ]
        for name, side in zip(("join-left", "join-right"), self._sides, strict=True):
            store = ColumnState(name, side, side.stored, ctx.info.max_parallelism)
            ctx.keyed.register_chunks(name, store)
        self._grow()

    def _grow(self) -> None:
        for side in self._sides:
            side.lists.grow(len(self._keys))

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Join a batch with what is stored of the other side, and store it."""
        if not len(batch):
            return
        schema = self._join.schemas[input_index]
        columns = conform(columns_of(batch, schema.names), schema)
        weights = weights_of(columns)
        rows = columns.select(self._stored[input_index].names)
        if weights is not None:
            added, taken = folded(self._sides[input_index].hashes(rows), weights)
            chosen = np.concatenate([taken, added])
            rows, weights = rows.take(pa.array(chosen)), weights[chosen]
        self._sweep()
        self.work(self._steps(input_index, rows, weights))

    def _steps(self, side: int, rows: pa.RecordBatch, weights: Codes | None) -> Iterator[None]:
        signs = np.ones(rows.num_rows, np.int64) if weights is None else weights
        whole = self._whole(side, rows)
        if whole is not None:
            lonely = np.flatnonzero(~whole)
            if self._join.alone(side):
                yield from self._emit_alone(side, rows.take(pa.array(lonely)), signs[lonely])
            kept = np.flatnonzero(whole)
            rows, signs = rows.take(pa.array(kept)), signs[kept]
        if not rows.num_rows:
            return
        groups = self._sides[side].locate(rows)
        self._grow()
        if self._join.pairs:
            yield from self._emit_pairs(side, rows, groups, signs)
        yield from self._emit_unmatched(side, rows, groups, signs)
        yield from self._store(side, rows, groups, signs)
        self._tidy()

    def _whole(self, side: int, rows: pa.RecordBatch) -> Mask | None:
        """The rows that have no null in their key; ``None``: all."""
        found: Mask | None = None
        for name in self._join.keys[side]:
            valid = validity(rows.column(name))
            if valid is not None:
                found = valid if found is None else found & valid
        return found

    # --- results -------------------------------------------------------------------------------------

    def _emit_pairs(self, side: int, rows: pa.RecordBatch, groups: Rows, signs: Codes) -> Iterator[None]:
        other = self._sides[1 - side]
        lengths = np.cumsum(other.lists.lengths(groups))
        start = 0
        while start < len(groups):
            done = int(lengths[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(lengths, done + _PAIRS, side="right")))
            which, positions = other.lists.of(groups[start:stop])
            for low in range(0, len(which), _PAIRS):
                mine = which[low : low + _PAIRS] + start
                found = rows.take(pa.array(mine)), other.log.take(positions[low : low + _PAIRS])
                both = found if side == 0 else (found[1], found[0])
                yield from self._emit(both, signs[mine])
            start = stop

    def _emit_unmatched(self, side: int, rows: pa.RecordBatch, groups: Rows, signs: Codes) -> Iterator[None]:
        """New rows that have no partner; for a semi-join of the left side, those that have one."""
        if not self._join.alone(side) and not (self._join.how == "semi" and side == 0):
            return
        met = self._sides[1 - side].lists.lengths(groups) > 0
        chosen = np.flatnonzero(met if self._join.how == "semi" else ~met)
        yield from self._emit_alone(side, rows.take(pa.array(chosen)), signs[chosen])

    def _store(self, side: int, rows: pa.RecordBatch, groups: Rows, signs: Codes) -> Iterator[None]:
        """Keep what is new; rows of the other side whose first partner comes, or last one goes, change."""
        mine = self._sides[side]
        touched = np.unique(groups)
        before = mine.lists.lengths(touched) > 0
        taken = signs < 0
        if taken.any():
            gone = rows.filter(pa.array(taken))
            mine.take_back(touched, mine.hashes(gone))
            rows, groups = rows.filter(pa.array(~taken)), groups[~taken]
        mine.add(rows, groups, self.ctx.clock.now_ms())
        after = mine.lists.lengths(touched) > 0
        other = 1 - side
        semi = self._join.how == "semi" and other == 0
        if self._join.alone(other) or semi:
            change = (after.astype(np.int64) - before) * (1 if semi else -1)
            turned = np.flatnonzero(change)
            which, positions = self._sides[other].lists.of(touched[turned])
            weights = change[turned][which]
            for low in range(0, len(which), _PAIRS):
                some = self._sides[other].log.take(positions[low : low + _PAIRS])
                yield from self._emit_alone(other, some, weights[low : low + _PAIRS])

    def _emit_alone(self, side: int, rows: pa.RecordBatch, weights: Codes) -> Iterator[None]:
        yield from self._emit((rows, None) if side == 0 else (None, rows), weights)

    def _emit(
        self, rows: tuple[pa.RecordBatch | None, pa.RecordBatch | None], weights: Codes
    ) -> Iterator[None]:
        if not len(weights):
            return
        arrays: list[Any] = []
        fields = []
        for name, side, source in self._join.columns:
            kind = self._join.schemas[max(side, 0)].field(source).type
            there = rows[max(side, 0)]
            if side < 0 and there is None:
                there, source = rows[1], self._join.keys[1][self._join.keys[0].index(source)]
            arrays.append(pa.nulls(len(weights), kind) if there is None else there.column(source).cast(kind))
            fields.append(pa.field(name, kind))
        if self._join.changes:
            arrays.append(pa.array(np.where(weights > 0, INSERT, DELETE).astype(np.int8)))
            fields.append(CHANGE_FIELD)
        batch = Batch.of_columns(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))
        for piece in pieces(batch, self.ctx):
            self.ctx.out.emit(piece)
            yield

    # --- age -----------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        ttl, now = self._join.ttl_ms, self.ctx.clock.now_ms()
        if ttl is None or now < self._swept_ms + max(1, ttl // _SWEEPS):
            return
        self._swept_ms = now
        for side in self._sides:
            side.expire(now - ttl)

    def _tidy(self) -> None:
        for side in self._sides:
            side.tidy()
        count = len(self._keys)
        if count < _WORTH_FORGETTING or count < 2 * sum(
            side.log.count - side.log.dead for side in self._sides
        ):
            return
        everybody = np.arange(count)
        first, second = (side.lists.lengths(everybody) for side in self._sides)
        there = (first + second) > 0
        if 2 * np.count_nonzero(there) > count:
            return
        moved = self._keys.keep(there)
        for side in self._sides:
            side.renumber(np.flatnonzero(there), moved)


def _without(schema: pa.Schema, name: str) -> pa.Schema:
    return pa.schema([field for field in schema if field.name != name])
