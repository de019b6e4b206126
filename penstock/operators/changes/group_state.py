"""The state of groups: their keys, how many rows each has, and what its aggregates have gathered."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.codes import KEY_HASH, Codes
from penstock.operators.changes.accumulators import (
    Accumulator,
    Aggregated,
    Arrivals,
    Counted,
    Extreme,
    FloatSum,
    IntegerSum,
    Mean,
    Result,
)
from penstock.operators.changes.decimal_sums import DecimalMean, DecimalSum
from penstock.operators.changes.value_sets import ChangingExtreme, DistinctCount, ValueSets, View
from penstock.operators.operator import OperatorContext
from penstock.state.column_state import ColumnState, MakeTable
from penstock.state.group_keys import GroupKeys
from penstock.state.key_index import Rows, grown, last_of_each

STATE_NAME = "groups"
_ROWS = "$rows"
_WORTH_FORGETTING = 4096


class GroupState:
    """All groups of a subtask.  ``retracts``: rows may be taken back."""

    def __init__(
        self, schema: pa.Schema, keys: pa.Schema, aggregates: Sequence[Aggregated], retracts: bool
    ) -> None:
        self.keys = GroupKeys(keys)
        self._schema = schema
        self._retracts = retracts
        self._rows: Codes = np.zeros(0, np.int64)
        self._scratch: Rows = np.zeros(0, np.int64)
        self._most_gone = 0
        """How many groups may have gone, at most: so many rows came since they were counted."""
        self._sets: dict[str, ValueSets] = {}
        self._names: dict[str, str] = {}
        """What the sets are called in snapshots."""
        self._known: dict[Any, Accumulator] = {}
        self._labels: dict[str, Accumulator] = {}
        self._fed: dict[Accumulator, tuple[ValueSets, View]] = {}
        """Who gets no rows, but the different values that come and go."""
        for column in dict.fromkeys(it.column for it in aggregates if self._needs_set(it) and it.column):
            kind = schema.field(column).type
            needing = [it for it in aggregates if self._needs_set(it) and it.column == column]
            conditions = {it.condition: it.where or it.condition or "" for it in needing}
            self._sets[column] = ValueSets(self.keys, column, kind, conditions)
            self._names[column] = _free(f"values of {needing[0].argument or column}", self._names.values())
        self.aggregates = {it.name: self._made(it) for it in aggregates}

    def _needs_set(self, it: Aggregated) -> bool:
        return it.distinct or (self._retracts and it.function in ("min", "max"))

    def _made(self, it: Aggregated) -> Accumulator:
        key = it.function, it.column, it.condition, it.distinct
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._new(it)
            if found not in self._labels.values():
                self._labels[_free(it.label, self._labels)] = found
        return found

    def _new(self, it: Aggregated) -> Accumulator:
        if it.function == "avg":
            total = self._made(replace(it, function="sum", label=it.label.replace("AVG", "SUM", 1)))
            return DecimalMean(total) if isinstance(total, DecimalSum) else Mean(total)
        if it.column is None:
            return Counted(None, it.condition)
        kind = self._schema.field(it.column).type
        if self._needs_set(it):
            sets = self._sets[it.column]
            view = next(view for view in sets.views if view.condition == it.condition)
            return self._of_set(it, kind, sets, view)
        if it.function == "count":
            return Counted(it.column, it.condition)
        if it.function in ("min", "max"):
            return Extreme(it.column, it.condition, kind, it.function == "max")
        return _sum(it, kind, it.condition)

    def _of_set(self, it: Aggregated, kind: pa.DataType, sets: ValueSets, view: View) -> Accumulator:
        """An aggregate of the values of a set."""
        if it.function == "count":
            return DistinctCount(view)
        if it.function in ("min", "max"):
            return ChangingExtreme(sets, view, kind, it.function == "max")
        found = _sum(it, kind, None)
        self._fed[found] = sets, view
        return found

    def register(self, ctx: OperatorContext) -> None:
        """Make it part of snapshots, and take what was restored."""
        columns = [*self.keys.schema.names, _ROWS, *self._stored()]
        most = ctx.info.max_parallelism
        ctx.keyed.register_chunks(STATE_NAME, ColumnState(STATE_NAME, self, columns, most))
        for column, sets in self._sets.items():
            name = self._names[column]
            ctx.keyed.register_chunks(name, ColumnState(name, sets, sets.stored, most))
        self._grow()
        for sets in self._sets.values():
            for extreme in sets.extremes:
                extreme.refill()

    def _stored(self) -> list[str]:
        return [f"{label}/{part}" for label, it in self._labels.items() for part in it.stored]

    # --- rows ----------------------------------------------------------------------------------------

    def locate(self, columns: pa.RecordBatch) -> tuple[Rows, Rows]:
        """The group of each row, and the last position of each different one."""
        groups = self.keys.locate(columns)
        self._grow()
        return groups, last_of_each(groups, self._scratch)

    def _grow(self) -> None:
        count = len(self.keys)
        self._rows, self._scratch = grown(self._rows, count), grown(self._scratch, count)
        for it in self._known.values():
            it.grow(count)
        for sets in self._sets.values():
            sets.grow(count)

    def there(self, groups: Rows) -> Any:
        """Whether groups have rows."""
        return self._rows[groups] > 0

    def add(self, columns: pa.RecordBatch, groups: Rows, weights: Codes | None) -> None:
        """Take the rows of a batch."""
        np.add.at(self._rows, groups, 1 if weights is None else weights)
        self._most_gone += len(groups)
        rows = Arrivals(columns, groups, weights)
        for sets in self._sets.values():
            sets.add(rows)
        for it in self._known.values():
            fed = self._fed.get(it)
            it.add(rows if fed is None else fed[0].changes(fed[1]))

    def results(self, groups: Rows) -> dict[str, Result]:
        """What some groups have, by the names of the aggregates."""
        return {name: it.result(groups) for name, it in self.aggregates.items()}

    def forget(self) -> None:
        """Let values and groups go that no row has any more, if they are many."""
        for sets in self._sets.values():
            sets.forget()
        for it in self._known.values():
            it.forget()
        count = len(self.keys)
        if not self._retracts or count < _WORTH_FORGETTING or 2 * self._most_gone < count:
            return
        there = self._rows[:count] > 0
        rows = np.flatnonzero(there)
        self._most_gone = count - len(rows)
        if 2 * len(rows) > count:
            return
        self._most_gone, moved = 0, self.keys.keep(there)
        self._rows = self._rows[rows]
        for it in self._known.values():
            it.keep(rows)
        for sets in self._sets.values():
            sets.keep(moved)
        self._grow()

    def everything(self) -> Rows:
        """All groups that have rows."""
        return np.flatnonzero(self._rows[: len(self.keys)] > 0)

    # --- state ---------------------------------------------------------------------------------------

    def freeze(self) -> MakeTable:
        """All groups, also those that are empty: values wait for them."""
        count = len(self.keys)
        keys, hashes, rows = self.keys.later(), self.keys.hashes.copy(), self._rows[:count].copy()
        parts = {label: it.freeze(count) for label, it in self._labels.items()}

        def made() -> pa.Table:
            columns: dict[str, Any] = {KEY_HASH: pa.array(hashes), **keys(), _ROWS: pa.array(rows)}
            for label, frozen in parts.items():
                columns |= {f"{label}/{name}": column for name, column in frozen().items()}
            return pa.table(columns)

        return made

    def restore(self, batch: pa.RecordBatch) -> None:
        """Take groups of a snapshot."""
        groups = self.keys.locate(batch)
        self._grow()
        self._most_gone += len(groups)
        self._rows[groups] = batch.column(_ROWS).to_numpy()
        for label, it in self._labels.items():
            columns = {
                name.removeprefix(f"{label}/"): batch.column(name)
                for name in batch.schema.names
                if name.startswith(f"{label}/")
            }
            it.restore(groups, columns)

    def clear(self) -> None:
        """Forget all groups."""
        self.keys.clear()
        self._rows = self._rows[:0]
        for it in self._known.values():
            it.clear()


def _sum(it: Aggregated, kind: pa.DataType, condition: str | None) -> Accumulator:
    """A sum by the type of its values."""
    assert it.column is not None
    if pa.types.is_decimal(kind):
        return DecimalSum(it.column, condition, kind, it.label)
    if pa.types.is_floating(kind):
        return FloatSum(it.column, condition)
    return IntegerSum(it.column, condition, it.label)


def _free(name: str, taken: Collection[str]) -> str:
    """The name, or if it is taken, one with a number: texts of different functions may be equal."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name} #{number}"
    return found
