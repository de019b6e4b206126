"""Planted bugs of DataFrames in time: each must be found within a number of seeds."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from sim_planted import Patch, Planted, by_name, must_be_found

from penstock.core.ids import MAX_TIME
from penstock.operators.columnar import grouped
from penstock.operators.columnar.over import OverOperator
from penstock.operators.columnar.session_agg import ColumnarSessionOperator
from penstock.operators.columnar.window_agg import ColumnarWindowOperator
from penstock.operators.columnar.window_ranks import WindowRanksOperator
from penstock.operators.join.columnar import ColumnarIntervalJoinOperator, ColumnarWindowJoinOperator
from penstock.operators.join.met_rows import _Marks

_EARLY_MS = 100
_BY_WATERMARK = (
    ColumnarWindowOperator,
    ColumnarWindowJoinOperator,
    ColumnarSessionOperator,
    ColumnarIntervalJoinOperator,
    WindowRanksOperator,
    OverOperator,
)


def emit_before_the_watermark(patch: Patch) -> None:
    """Windows are shown, and rows beside others, before the watermark has come to their end."""
    for kind in _BY_WATERMARK:
        original = kind.on_watermark

        def early(self: Any, time: int, original: Any = original) -> None:
            original(self, min(time + _EARLY_MS, MAX_TIME))

        patch.setattr(kind, "on_watermark", early)


def forget_what_was_shown(patch: Patch) -> None:
    """Rows beside others leave nothing behind for those that follow them."""
    original = OverOperator._near
    patch.setattr(OverOperator, "_near", lambda self, fresh, first: original(self, fresh, first).slice(0, 0))


def lose_marks(patch: Patch) -> None:
    """Snapshots say that no row has met a partner."""
    original = _Marks.copy
    patch.setattr(_Marks, "copy", lambda self: original(self) & False)


def show_again_after_a_restore(patch: Patch) -> None:
    """Windows that were shown before a snapshot are shown again."""
    original = WindowRanksOperator._fire

    def fire(self: Any, window: int) -> Any:
        store = self._store
        chunks, store.chunks = (
            store.chunks,
            lambda pane: [chunk._replace(fired_to=-(2**63)) for chunk in chunks(pane)],
        )
        try:
            yield from original(self, window)
        finally:
            del store.chunks

    patch.setattr(WindowRanksOperator, "_fire", fire)


def forget_earlier_values(patch: Patch) -> None:
    """Of lists of different values that become one, the last one stays."""

    def joined(lists: Any, groups: Any, shown: Any) -> Any:
        last = {group: place for place, group in enumerate(groups.tolist())}
        return lists.combine_chunks().take(pa.array([last[group] for group in shown.tolist()], pa.int64()))

    patch.setattr(grouped, "joined_lists", joined)


MUTATIONS = by_name(
    Planted(emit_before_the_watermark, "frames_windows_of_windows"),
    Planted(emit_before_the_watermark, "frames_growing_windows"),
    Planted(emit_before_the_watermark, "frames_first_of_windows"),
    Planted(emit_before_the_watermark, "frames_sums_so_far"),
    Planted(emit_before_the_watermark, "frames_sessions"),
    Planted(emit_before_the_watermark, "frames_anti_join"),
    Planted(emit_before_the_watermark, "frames_looked_up"),
    Planted(forget_what_was_shown, "frames_sums_of_a_while"),
    Planted(lose_marks, "frames_semi_join"),
    Planted(show_again_after_a_restore, "frames_first_of_windows"),
    Planted(forget_earlier_values, "frames_growing_windows"),
    Planted(forget_earlier_values, "frames_sessions"),
)


@pytest.mark.parametrize("name", MUTATIONS)
def test_planted_bugs_are_found(name: str, monkeypatch: Patch) -> None:
    must_be_found(MUTATIONS[name], monkeypatch)
