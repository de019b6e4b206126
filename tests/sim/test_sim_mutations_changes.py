"""Planted bugs of results that change: each must be found within a number of seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sim_planted import Patch, Planted, by_name, must_be_found

from penstock.operators.changes import group_agg, last_rows, regular_join, top_rows
from penstock.operators.changes.decimal_sums import DecimalSum
from penstock.operators.changes.first_rows import SeenKeys
from penstock.operators.changes.group_agg import GroupAggOperator
from penstock.operators.changes.group_state import GroupState
from penstock.operators.changes.join_side import JoinSide
from penstock.operators.changes.last_rows import LastRows
from penstock.operators.changes.rank_state import RankState
from penstock.operators.changes.regular_join import RegularJoinOperator
from penstock.operators.changes.value_sets import ValueSets


def forget_a_retraction(patch: Patch) -> None:
    """A group does not take back rows: it counts them as new ones."""
    patch.setattr(group_agg, "weights_of", lambda columns: None)


def drop_the_old_row(patch: Patch) -> None:
    """An update leaves without the row that it replaces."""
    original = GroupAggOperator.__init__

    def init(self: Any, schema: Any, keys: Any, aggregates: Any, before: bool) -> None:
        original(self, schema, keys, aggregates, False)

    patch.setattr(GroupAggOperator, "__init__", init)


def forget_values(patch: Patch) -> None:
    """The different values of groups are not in the snapshot."""
    patch.setattr(ValueSets, "restore", lambda self, batch: None)


def forget_counts(patch: Patch) -> None:
    """A restored group begins with no rows."""
    original = GroupState.restore

    def restore(self: GroupState, batch: Any) -> None:
        original(self, batch)
        self._rows[:] = 0

    patch.setattr(GroupState, "restore", restore)


def forget_a_retraction_of_ranks(patch: Patch) -> None:
    """The best rows do not give way to others when they are taken back."""
    patch.setattr(top_rows, "weights_of", lambda columns: None)


def keep_too_few(patch: Patch) -> None:
    """Of rows that may be taken back only the best are kept."""
    original = RankState._rank

    def rank(self: RankState, *args: Any) -> Any:
        retracts, self._retracts = self._retracts, False
        try:
            return original(self, *args)
        finally:
            self._retracts = retracts

    patch.setattr(RankState, "_rank", rank)


def forget_a_retraction_of_a_join(patch: Patch) -> None:
    """A joined row stays when its side takes it back."""
    patch.setattr(regular_join, "weights_of", lambda columns: None)


def lose_the_lonely(patch: Patch) -> None:
    """Who is alone no more stays in the result of an outer join."""
    original = RegularJoinOperator._store

    def store(self: Any, *args: Any) -> Any:
        self._emit_alone = lambda *args: iter(())
        yield from original(self, *args)
        del self._emit_alone

    patch.setattr(RegularJoinOperator, "_store", store)


def restore_one_side(patch: Patch) -> None:
    """Rows of a join are restored without their place in the lists."""
    original = JoinSide.restore

    def restore(self: JoinSide, batch: Any) -> None:
        original(self, batch)
        self.lists.clear()
        self.lists.grow(len(self._keys))

    patch.setattr(JoinSide, "restore", restore)


def keep_what_is_taken_back(patch: Patch) -> None:
    """Rows that are taken back stay partners of the other side."""
    patch.setattr(JoinSide, "take_back", lambda self, groups, hashes: None)


def see_keys_again(patch: Patch) -> None:
    """Keys that were there are not in the snapshot."""
    patch.setattr(SeenKeys, "restore", lambda self, batch: None)


def see_the_last(patch: Patch) -> None:
    """Every row of a new key in a batch is taken for the first."""
    original = SeenKeys.new

    def new(self: SeenKeys, columns: Any) -> Any:
        known = len(self._keys)
        original(self, columns)
        return np.flatnonzero(self._keys.locate(columns) >= known)

    patch.setattr(SeenKeys, "new", new)


def forget_last_rows(patch: Patch) -> None:
    """What keys had is not in the snapshot."""
    patch.setattr(LastRows, "restore", lambda self, batch: None)


def pass_deletions_over(patch: Patch) -> None:
    """A key that is gone keeps its row."""
    original = LastRows.replace

    def replace(self: LastRows, keys: Any, rows: Any, stays: Any) -> Any:
        return original(self, keys[stays], rows.filter(pa.array(stays)), stays[stays])

    patch.setattr(LastRows, "replace", replace)
    patch.setattr(last_rows, "DELETE", -1)


def forget_the_sum(patch: Patch) -> None:
    """A restored sum of decimals begins with nothing."""
    original = DecimalSum.restore

    def restore(self: DecimalSum, groups: Any, columns: Any) -> None:
        original(self, groups, columns)
        self.arrays["part0"][groups] = 0

    patch.setattr(DecimalSum, "restore", restore)


def add_up_duplicates(patch: Patch) -> None:
    """A sum of different values counts a value again that is there already."""
    original = ValueSets.changes

    def changes(self: ValueSets, view: Any) -> Any:
        pairs, before, after = view.changed
        view.changed = pairs, before & ~after, after
        return original(self, view)

    patch.setattr(ValueSets, "changes", changes)


MUTATIONS = by_name(
    Planted(forget_a_retraction, "changing_groups"),
    Planted(drop_the_old_row, "changing_groups"),
    Planted(forget_values, "changing_groups", 3),
    Planted(forget_counts, "changing_groups", 3),
    Planted(forget_a_retraction_of_ranks, "changing_top"),
    Planted(keep_too_few, "changing_latest"),
    Planted(forget_a_retraction_of_a_join, "changing_join"),
    Planted(lose_the_lonely, "changing_join"),
    Planted(restore_one_side, "changing_join", 3),
    Planted(lose_the_lonely, "changing_semi"),
    Planted(keep_what_is_taken_back, "changing_semi"),
    Planted(restore_one_side, "changing_pairs", 1),
    Planted(see_keys_again, "changing_first", 1),
    Planted(see_the_last, "changing_first", 13),
    Planted(forget_last_rows, "changing_upserts", 1),
    Planted(pass_deletions_over, "changing_upserts"),
    Planted(forget_the_sum, "changing_upserts", 1),
    Planted(add_up_duplicates, "changing_upserts", 34),
)


@pytest.mark.parametrize("name", MUTATIONS)
def test_planted_bugs_are_found(name: str, monkeypatch: Patch) -> None:
    must_be_found(MUTATIONS[name], monkeypatch)
