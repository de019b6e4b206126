"""The rows of each group in an order: the first ``n`` of them, or all if rows may be taken back.

Rows are compared by the codes of the columns they are ordered by, and then by their arrival.  Codes,
arrival and, if rows may be taken back, a hash of all values are kept beside the rows, by position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.core.codes import Codes, plain_column, row_hashes, validity
from penstock.operators.changes.matching import folded, matched
from penstock.state.buckets import Buckets
from penstock.state.column_state import MakeTable
from penstock.state.group_keys import GroupKeys
from penstock.state.interning import Coder, coder_of
from penstock.state.key_index import Rows, grown, last_of_each
from penstock.state.row_log import RowLog

SEQUENCE = "$sequence"
_WORTH_FORGETTING = 4096


@dataclass(frozen=True)
class Ranking:
    """How rows are ordered, and how many of a group are wanted."""

    n: int
    by: tuple[tuple[str, bool], ...]
    """Columns, and whether the largest comes first.  Null is smaller than every value."""
    latest_first: bool = False
    """Whether of equal rows the one that came last is first."""


class Ranks(NamedTuple):
    """The first rows of some groups: which group, rank from 0, position in the log; by group and rank."""

    which: Rows
    ranks: Rows
    positions: Rows


class Arrived(NamedTuple):
    """Rows of a batch: their groups, each of these once, what is kept beside them, and their weights."""

    rows: pa.RecordBatch
    groups: Rows
    touched: Rows
    beside: list[Codes]
    weights: Codes | None


class RankState:
    """All groups of a subtask.  ``schema`` is that of the rows, with ``$key`` and without ``$change``."""

    def __init__(self, schema: pa.Schema, keys: pa.Schema, ranking: Ranking, retracts: bool) -> None:
        self.keys = GroupKeys(keys)
        self.log = RowLog(schema)
        self._ranking = ranking
        self._retracts = retracts
        self._lists = Buckets()
        self._coders = [coder_of(key_type(schema.field(name).type)) for name, _ in ranking.by]
        self._parts = 2 * len(self._coders) + 2
        self._beside: list[Codes] = [np.zeros(0, np.int64) for _ in range(self._parts)]
        """By position: flag and code of each column, the hash of the row, its number."""
        self._scratch: Rows = np.zeros(0, np.int64)
        self._next = 0
        self._many_keys = _WORTH_FORGETTING
        """With how many keys it is worth to look for those without rows."""

    def arrive(self, rows: pa.RecordBatch, weights: Codes | None) -> Arrived:
        """Rows of a batch, without those that would change nothing."""
        groups, beside = self._locate(rows), self._described(rows)
        if self._retracts:
            return Arrived(rows, groups, self._once(groups), beside, weights)
        kept = self._promising(groups, beside)
        if kept is not None:
            rows, groups, beside = rows.take(pa.array(kept)), groups[kept], [part[kept] for part in beside]
        return Arrived(rows, groups, self._once(groups), beside, None)

    def _locate(self, rows: pa.RecordBatch) -> Rows:
        groups = self.keys.locate(rows)
        self._lists.grow(len(self.keys))
        self._scratch = grown(self._scratch, len(self.keys))
        return groups

    def _once(self, groups: Rows) -> Rows:
        return groups[last_of_each(groups, self._scratch)]

    def _promising(self, groups: Rows, beside: list[Codes]) -> Rows | None:
        """The rows that may be among the first of their groups, by the first column; ``None``: all."""
        by, n = self._ranking.by, self._ranking.n
        if not by:
            newest = n == 1 and self._ranking.latest_first
            return last_of_each(groups, self._scratch) if newest else None
        if type(self._coders[0]) is not Coder:
            return None
        full = np.flatnonzero(self._lists.lengths(groups) >= n)
        if not len(full):
            return None
        worst = self._lists.last(groups[full])
        flags, codes = beside[0][full], beside[1][full]
        last_flags, last_codes = self._beside[0][worst], self._beside[1][worst]
        further = codes < last_codes if by[0][1] else codes > last_codes
        if len(by) == 1 and not self._ranking.latest_first:
            further |= codes == last_codes
        hopeless = (flags > last_flags) | ((flags == last_flags) & further)
        kept = np.ones(len(groups), np.bool_)
        kept[full[hopeless]] = False
        return np.flatnonzero(kept)

    def first(self, groups: Rows) -> Ranks:
        """The rows that are wanted of some groups."""
        which, positions = self._lists.of(groups)
        ranks = _numbered(which)
        wanted = ranks < self._ranking.n
        return Ranks(which[wanted], ranks[wanted], positions[wanted])

    def change(self, arrived: Arrived) -> Rows:
        """Add rows and take rows back; the positions that nobody has any more, which the caller kills."""
        rows, groups, touched, beside, weights = arrived
        removed: Rows = np.zeros(0, np.int64)
        if weights is not None:
            added, taken = folded(beside[-2], weights)
            removed = self._take_back(touched, beside[-2][taken])
            rows, groups = rows.take(pa.array(added)), groups[added]
            beside = [part[added] for part in beside]
        return np.concatenate([removed, self._rank(rows, groups, touched, beside)])

    def _described(self, rows: pa.RecordBatch, numbers: Codes | None = None) -> list[Codes]:
        found: list[Codes] = []
        for (name, descending), coder in zip(self._ranking.by, self._coders, strict=True):
            column = plain_column(rows.column(name))
            valid = validity(column)
            flags = np.ones(len(column), np.int64) if valid is None else valid.astype(np.int64)
            codes = coder.codes(column)
            codes = codes if valid is None else np.where(valid, codes, 0)
            found += [~flags if descending else flags, codes]
        if self._retracts:
            found.append(row_hashes([plain_column(it) for it in rows.columns]))
        else:
            found.append(np.zeros(rows.num_rows, np.int64))
        if numbers is None:
            numbers = np.arange(self._next, self._next + rows.num_rows)
            self._next += rows.num_rows
        return [*found, numbers]

    def _take_back(self, touched: Rows, hashes: Codes) -> Rows:
        which, positions = self._lists.of(touched)
        gone = matched(self._beside[-2][positions], hashes)
        self._lists.put(touched, which[~gone], positions[~gone])
        return positions[gone]

    def _rank(self, rows: pa.RecordBatch, groups: Rows, touched: Rows, beside: list[Codes]) -> Rows:
        """Put new rows among those of their groups; the positions of stored rows that are needed no more."""
        self._scratch[touched] = np.arange(len(touched))
        which, stored = self._lists.of(touched)
        both = np.concatenate([which, self._scratch[groups]])
        parts = [np.concatenate([kept[stored], new]) for kept, new in zip(self._beside, beside, strict=True)]
        order = np.lexsort((*self._order(parts), both))
        both = both[order]
        wanted = order if self._retracts else order[_numbered(both) < self._ranking.n]
        old = len(stored)
        fresh = np.sort(wanted[wanted >= old]) - old
        places = np.full(old + len(groups), -1, np.int64)
        places[:old] = stored
        places[old + fresh] = self._append(rows, fresh, beside)
        owners = np.concatenate([which, self._scratch[groups]])[wanted]
        self._lists.put(touched, owners, places[wanted])
        dropped = np.ones(old, np.bool_)
        dropped[wanted[wanted < old]] = False
        return stored[dropped]

    def _order(self, parts: list[Codes]) -> list[Codes]:
        """Sort keys, the least important first."""
        numbers = parts[-1]
        found = [~numbers if self._ranking.latest_first else numbers]
        for place in reversed(range(len(self._coders))):
            codes = self._coders[place].ranks(parts[2 * place + 1])
            found += [~codes if self._ranking.by[place][1] else codes, parts[2 * place]]
        return found

    def _append(self, rows: pa.RecordBatch, chosen: Rows, beside: list[Codes]) -> Rows:
        positions = self.log.append(rows if len(chosen) == rows.num_rows else rows.take(pa.array(chosen)))
        self._beside = [grown(kept, self.log.count) for kept in self._beside]
        for kept, new in zip(self._beside, beside, strict=True):
            kept[positions] = new[chosen]
        return positions

    def forget(self) -> None:
        """Let go what is not needed any more, if it is much."""
        if self.log.is_sparse:
            kept, moved = self.log.tidy()
            self._beside = [part[kept] for part in self._beside]
            self._forget_keys(moved)
        elif self._lists.is_sparse or len(self.keys) > self._many_keys:
            self._forget_keys(None)
        for place, coder in enumerate(self._coders):
            if coder.is_large:
                column = 2 * place + 1
                self._beside[column] = coder.shrink([self._beside[column]])[0]

    def _forget_keys(self, moved: Rows | None) -> None:
        """Let keys go that have no rows; ``moved`` says where rows are now."""
        there = self._lists.lengths(np.arange(len(self.keys))) > 0
        self.keys.keep(there)
        self._lists.tidy(np.flatnonzero(there), moved)
        self._many_keys = max(_WORTH_FORGETTING, 2 * len(self.keys))

    def everything(self) -> Rows:
        """All groups."""
        return np.arange(len(self.keys))

    # --- state ---------------------------------------------------------------------------------------

    @property
    def stored(self) -> list[str]:
        """The columns of a snapshot."""
        return [*(name for name in self.log.schema.names if name != "$key"), SEQUENCE]

    def freeze(self) -> MakeTable:
        """All rows, with the order in which they came."""
        rows, numbers = self.log.freeze(), self._beside[-1][self.log.alive()]

        def made() -> pa.Table:
            return rows().append_column(SEQUENCE, pa.array(numbers))

        return made

    def restore(self, batch: pa.RecordBatch) -> None:
        """Take rows of a snapshot."""
        numbers = batch.column(SEQUENCE).to_numpy()
        self._next = max(self._next, int(numbers.max()) + 1)
        rows = batch.select(self.log.schema.names)
        groups = self._locate(rows)
        self.log.kill(self._rank(rows, groups, self._once(groups), self._described(rows, numbers)))

    def clear(self) -> None:
        """Forget all rows."""
        self.keys.clear()
        self.log.clear()
        self._lists.clear()
        self._next = 0
        for coder in self._coders:
            coder.clear()


def key_type(kind: pa.DataType) -> pa.DataType:
    """The type of values, without a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _numbered(which: Rows) -> Rows:
    """0, 1, 2... within each run of equal numbers."""
    if not len(which):
        return which
    firsts = np.flatnonzero(np.concatenate([[True], which[1:] != which[:-1]]))
    return np.arange(len(which)) - np.repeat(firsts, np.diff(np.concatenate([firsts, [len(which)]])))


def changes_of(old: Ranks, new: Ranks, n: int) -> tuple[Any, Any]:
    """Indices into ``old`` and ``new`` of the places that have another row now, or none."""
    old_places, new_places = old.which * n + old.ranks, new.which * n + new.ranks
    return _other(old_places, old.positions, new_places, new.positions), _other(
        new_places, new.positions, old_places, old.positions
    )


def _other(places: Rows, rows: Rows, others: Rows, other_rows: Rows) -> Rows:
    if not len(others):
        return np.arange(len(places))
    at = np.minimum(np.searchsorted(others, places), len(others) - 1)
    same = (others[at] == places) & (other_rows[at] == rows)
    return np.flatnonzero(~same)
