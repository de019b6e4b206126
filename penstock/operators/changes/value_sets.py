"""The different values of each group, and how often each is there.

For DISTINCT, and for smallest and largest values of rows that may be taken back.  One set serves all
aggregates of a column: each has its own counters, of the rows for which its condition is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.core.codes import KEY_HASH, Codes, Mask
from penstock.core.keygroups import hash_array
from penstock.operators.changes.accumulators import Accumulator, Arrivals, Extreme, Numbers, Result
from penstock.state.column_state import MakeTable
from penstock.state.group_keys import GroupKeys
from penstock.state.interning import coder_of
from penstock.state.key_index import KeyIndex, Rows, grown, last_of_each

VALUE = "$value"
IN_SET = "set"
"""The empty column that an aggregate has in snapshots, so that one that was not there is missed."""
_P = np.uint64(0x9E3779B97F4A7C15 | 1)
_WORTH_FORGETTING = 65536


class View:
    """How often each value is there in rows of one condition."""

    def __init__(self, condition: str | None, text: str) -> None:
        self.condition = condition
        self.stored = f"$count {text}"
        self.counts: Numbers = np.zeros(0, np.int64)
        self.distinct: Numbers = np.zeros(0, np.int64)
        """How many different values each group has."""
        self.changed: tuple[Rows, Mask, Mask] = (np.zeros(0, np.int64), np.zeros(0, bool), np.zeros(0, bool))
        """The pairs of the last batch, whether they were there before, and behind it."""


class ValueSets:
    """Pairs of a group and a value, with their counts; state of its own, named after the column."""

    def __init__(
        self, keys: GroupKeys, column: str, kind: pa.DataType, conditions: Mapping[str | None, str]
    ) -> None:
        self._keys = keys
        self._column = column
        self.coder = coder_of(kind)
        self.views = [View(condition, text) for condition, text in conditions.items()]
        self.extremes: list[ChangingExtreme] = []
        """Who keeps codes of its values."""
        self._index = KeyIndex(2)
        self._scratch: Rows = np.zeros(0, np.int64)
        self._most_gone = 0
        """How many pairs may have gone, at most: so many rows were taken back since they were counted."""

    @property
    def stored(self) -> list[str]:
        """The columns of a snapshot."""
        return [*self._keys.schema.names, VALUE, *(view.stored for view in self.views)]

    def codes(self, column: int) -> Codes:
        """Groups (0) or values (1) of all pairs."""
        return self._index.codes(column)

    def grow(self, count: int) -> None:
        """Make room for so many groups."""
        for view in self.views:
            view.distinct = grown(view.distinct, count)

    def add(self, rows: Arrivals) -> None:
        """Count the values of a batch."""
        wanted = self._wanted(rows)
        _, groups, weights = rows.chosen(self._column, None)
        self._most_gone += 0 if weights is None else len(weights)
        valid = rows.mask(self._column, None)
        codes = self.coder.codes(rows.column(self._column))
        codes = codes if valid is None else codes[valid]
        some = wanted if valid is None or wanted is None else wanted[valid]
        if some is not None:
            groups, codes = groups[some], codes[some]
            weights = None if weights is None else weights[some]
        pairs = self._locate(groups, codes)
        for view in self.views:
            mask = None
            if view.condition is not None:
                mask = rows.mask(self._column, view.condition)
                mask = mask if mask is None or valid is None else mask[valid]
                mask = mask if mask is None or some is None else mask[some]
            self._count(view, pairs if mask is None else pairs[mask], weights, mask)

    def _shrink(self) -> None:
        """Forget values that no pair has."""
        best = [extreme.arrays["best"] for extreme in self.extremes]
        codes, *others = self.coder.shrink([self._index.codes(1), *best])
        for extreme, renamed in zip(self.extremes, others, strict=True):
            extreme.arrays["best"] = renamed
        self._rebuild(self._index.codes(0), codes, np.arange(self._index.count))

    def _wanted(self, rows: Arrivals) -> Mask | None:
        """The rows that some view counts; ``None``: all."""
        wanted: Mask | None = None
        for view in self.views:
            mask = rows.mask(self._column, view.condition)
            if view.condition is None or mask is None:
                return None
            wanted = mask if wanted is None else wanted | mask
        return wanted

    def _locate(self, groups: Rows, codes: Codes) -> Rows:
        with np.errstate(over="ignore"):
            mixed = codes.view(np.uint64) * _P + groups.astype(np.uint64)
        hashes = hash_array(pa.array(mixed.view(np.int64))).view(np.int64)
        pairs = self._index.locate(hashes, [groups, codes])
        count = self._index.count
        self._scratch = grown(self._scratch, count)
        for view in self.views:
            view.counts = grown(view.counts, count)
        return pairs

    def _count(self, view: View, pairs: Rows, weights: Codes | None, mask: Mask | None) -> None:
        touched = pairs[last_of_each(pairs, self._scratch)]
        before = view.counts[touched] > 0
        if weights is None:
            np.add.at(view.counts, pairs, 1)
            after = np.ones(len(touched), np.bool_)
        else:
            np.add.at(view.counts, pairs, weights if mask is None else weights[mask])
            after = view.counts[touched] > 0
        change = after.astype(np.int64) - before
        np.add.at(view.distinct, self._index.codes(0)[touched], change)
        view.changed = touched, before, after

    def changes(self, view: View) -> Arrivals:
        """The different values that came with the last batch, or went, as rows of their groups."""
        pairs, before, after = view.changed
        some = pairs[before != after]
        values = self.coder.values(self._index.codes(1)[some])
        batch = pa.RecordBatch.from_arrays([values], [self._column])
        weights = (after.astype(np.int64) - before)[before != after]
        return Arrivals(batch, self._index.codes(0)[some], weights)

    def forget(self) -> None:
        """Let pairs and values go that are not there any more, if they are many."""
        if self.coder.is_large:
            self._shrink()
        count = self._index.count
        if count < _WORTH_FORGETTING or 2 * self._most_gone <= count:
            return
        alive = np.zeros(count, np.bool_)
        for view in self.views:
            alive |= view.counts[:count] > 0
        rows = np.flatnonzero(alive)
        self._most_gone = count - len(rows)
        if 2 * len(rows) < count:
            self._most_gone = 0
            self._rebuild(self._index.codes(0)[rows], self._index.codes(1)[rows], rows)

    def keep(self, moved: Rows) -> None:
        """Groups are numbered anew; those at -1 are gone."""
        groups = moved[self._index.codes(0)]
        rows = np.flatnonzero(groups >= 0)
        for view in self.views:
            old = view.distinct
            view.distinct = np.zeros(int(moved.max(initial=-1)) + 1, np.int64)
            there = np.flatnonzero(moved >= 0)
            view.distinct[moved[there]] = old[there]
        self._rebuild(groups[rows], self._index.codes(1)[rows], rows)

    def _rebuild(self, groups: Rows, codes: Codes, rows: Rows) -> None:
        groups, codes = groups.copy(), codes.copy()
        counts = [view.counts[rows] for view in self.views]
        self._index.clear()
        pairs = self._locate(groups, codes)
        for view, kept in zip(self.views, counts, strict=True):
            view.counts[: len(kept)][pairs] = kept
            view.counts[len(kept) :] = 0

    # --- state ---------------------------------------------------------------------------------------

    def freeze(self) -> MakeTable:
        """All pairs that are there, with the keys of their groups."""
        count = self._index.count
        counts = {view.stored: view.counts[:count].copy() for view in self.views}
        groups, codes = self._index.codes(0).copy(), self._index.codes(1).copy()
        hashes, keys = self._keys.hashes[groups], self._keys.later(groups)
        coder = self.coder.frozen()

        def made() -> pa.Table:
            columns: dict[str, Any] = {KEY_HASH: pa.array(hashes), **keys(), VALUE: coder.values(codes)}
            columns |= {name: pa.array(array) for name, array in counts.items()}
            return pa.table(columns)

        return made

    def restore(self, batch: pa.RecordBatch) -> None:
        """Take pairs of groups that are there already."""
        groups = self._keys.locate(batch)
        self.grow(len(self._keys))
        pairs = self._locate(groups, self.coder.codes(batch.column(VALUE)))
        self._most_gone += len(pairs)
        for view in self.views:
            counts = batch.column(view.stored).to_numpy()
            view.counts[pairs] = counts
            np.add.at(view.distinct, groups, (counts > 0).astype(np.int64))

    def clear(self) -> None:
        """Forget all pairs."""
        self._index.clear()
        self.coder.clear()
        for view in self.views:
            view.counts, view.distinct = view.counts[:0], view.distinct[:0]


class DistinctCount(Accumulator):
    """How many different values."""

    parts: ClassVar[Mapping[str, tuple[Any, Any]]] = {}

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view

    @property
    def stored(self) -> Iterable[str]:
        return (IN_SET,)

    def add(self, rows: Arrivals) -> None:
        """Nothing: the set gets the rows."""

    def result(self, groups: Rows) -> Result:
        return self._view.distinct[groups], None

    def freeze(self, count: int) -> Callable[[], dict[str, pa.Array]]:
        return lambda: {IN_SET: pa.nulls(count)}


class ChangingExtreme(Extreme):
    """The smallest or largest value of rows that may be taken back."""

    def __init__(self, sets: ValueSets, view: View, kind: pa.DataType, largest: bool) -> None:
        super().__init__("", None, kind, largest)
        self._sets = sets
        self._view = view
        self.coder = sets.coder
        sets.extremes.append(self)

    @property
    def stored(self) -> Iterable[str]:
        return (IN_SET,)

    def add(self, rows: Arrivals) -> None:
        """Of the set, which has the rows: values that came, and new ones where the best has gone."""
        pairs, before, after = self._view.changed
        groups, codes = self._sets.codes(0)[pairs], self._sets.codes(1)[pairs]
        gone = before & ~after
        lost = groups[gone & (codes == self.arrays["best"][groups])]
        came = after & ~before
        self.improve(groups[came], codes[came])
        if len(lost):
            self._look_again(lost)

    def forget(self) -> None:
        """Nothing: the set lets values go."""

    def _look_again(self, lost: Rows) -> None:
        asked = np.zeros(len(self.arrays["best"]), np.bool_)
        asked[lost] = True
        self.arrays["filled"][lost] = False
        groups = self._sets.codes(0)
        pairs = np.flatnonzero(asked[groups] & (self._view.counts[: len(groups)] > 0))
        self.improve(groups[pairs], self._sets.codes(1)[pairs])

    def freeze(self, count: int) -> Callable[[], dict[str, pa.Array]]:
        # Found again in the set.
        return lambda: {IN_SET: pa.nulls(count)}

    def restore(self, groups: Rows, columns: Mapping[str, pa.Array]) -> None:
        """The set is restored behind the groups: see :meth:`refill`."""

    def refill(self) -> None:
        """Find all values in the set, after a restore."""
        groups = self._sets.codes(0)
        pairs = np.flatnonzero(self._view.counts[: len(groups)] > 0)
        self.improve(groups[pairs], self._sets.codes(1)[pairs])
