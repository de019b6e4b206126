"""Planted bugs of joins and asynchronous I/O: each must be found within a number of seeds."""

from __future__ import annotations

from typing import Any

import pytest
from sim_planted import Patch, Planted, by_name, must_be_found

from penstock.operators.async_io.operator import AsyncWaitOperator
from penstock.operators.async_io.queues import Mark, UnorderedQueue
from penstock.operators.join.buffers import SideBuffer
from penstock.operators.join.columnar import ColumnarIntervalJoinOperator, ColumnarWindowJoinOperator
from penstock.operators.join.columnar_temporal import ColumnarTemporalJoinOperator
from penstock.operators.join.interval import IntervalJoinOperator
from penstock.operators.join.met_rows import _Marks


def forget_requests(patch: Patch) -> None:
    """Requests under way are not in the snapshot."""
    patch.setattr(AsyncWaitOperator, "prepare_barrier", lambda self, epoch: self._emit())


def keep_answered_requests(patch: Patch) -> None:
    """Records whose results were emitted stay in the snapshot."""
    original = AsyncWaitOperator._take

    def take(self: AsyncWaitOperator, requests: Any) -> None:
        known = list(requests)
        self._all = [*getattr(self, "_all", ()), *known]  # type: ignore[attr-defined]
        original(self, known)

    def prepare(self: AsyncWaitOperator, epoch: Any) -> None:
        self._emit()
        self._pending.update((request.value, request.time) for request in self._all[-3:])  # type: ignore[attr-defined]

    patch.setattr(AsyncWaitOperator, "_take", take)
    patch.setattr(AsyncWaitOperator, "prepare_barrier", prepare)


def end_before_the_answers(patch: Patch) -> None:
    """The end of input does not wait for requests under way."""
    patch.setattr(AsyncWaitOperator, "is_drained", lambda self: True)


def watermarks_overtake(patch: Patch) -> None:
    """A watermark does not wait for the records before it."""
    original = UnorderedQueue.add

    def add(self: UnorderedQueue, item: Any) -> None:
        if isinstance(item, Mark):
            self._items.appendleft(item)
        else:
            original(self, item)

    patch.setattr(UnorderedQueue, "add", add)


def drop_too_early(patch: Patch) -> None:
    """Records of a join are forgotten well before their time."""
    original = SideBuffer.drop
    patch.setattr(SideBuffer, "drop", lambda self, key, last: original(self, key, last + 200))


def forget_who_met(patch: Patch) -> None:
    """An outer join does not note that a stored record has met a partner."""
    patch.setattr(SideBuffer, "replace", lambda self, key, position, item: None)


def register_no_timer_again(patch: Patch) -> None:
    """Lonely records behind the first one of their key never expire."""
    original = SideBuffer.drop
    patch.setattr(SideBuffer, "drop", lambda self, key, last: (original(self, key, last)[0], None))


def fire_again_after_a_restore(patch: Patch) -> None:
    """A window that was joined before the snapshot is joined again with what it still shares."""
    original = ColumnarWindowJoinOperator._contents

    def contents(self: Any, store: Any, start: int) -> Any:
        chunks, shown = store.chunks, lambda pane: [c._replace(fired_to=-(2**63)) for c in chunks(pane)]
        store.chunks = shown
        try:
            return original(self, store, start)
        finally:
            del store.chunks

    patch.setattr(ColumnarWindowJoinOperator, "_contents", contents)


def state_in_the_object(patch: Patch) -> None:
    """One side of the join is an attribute of the operator, which no snapshot sees."""
    original = IntervalJoinOperator.open

    def open(self: Any, ctx: Any) -> None:
        original(self, ctx)
        self._buffers[0] = SideBuffer(type(ctx.keyed.table("_join/left"))("by heart"))

    patch.setattr(IntervalJoinOperator, "open", open)


def mark_no_columns(patch: Patch) -> None:
    """An outer join of columns does not note that stored rows have met a partner."""
    patch.setattr(ColumnarIntervalJoinOperator, "_note", lambda self, side, table, rows: None)


def lose_marks_of_columns(patch: Patch) -> None:
    """Snapshots of an outer join of columns say that no row has met a partner."""
    original = _Marks.copy
    patch.setattr(_Marks, "copy", lambda self: original(self) & False)


def join_before_all_versions_are_known(patch: Patch) -> None:
    """A temporal join of columns does not wait until the watermark has reached its records."""
    original = ColumnarTemporalJoinOperator._due
    patch.setattr(ColumnarTemporalJoinOperator, "_due", lambda self, time: original(self, time + 100))


MUTATIONS = by_name(
    Planted(forget_requests, "async_ordered"),
    Planted(keep_answered_requests, "async_ordered"),
    Planted(end_before_the_answers, "async_unordered"),
    Planted(watermarks_overtake, "async_unordered"),
    Planted(drop_too_early, "interval_join"),
    Planted(drop_too_early, "temporal_join"),
    Planted(forget_who_met, "interval_join_full"),
    Planted(register_no_timer_again, "interval_join_full"),
    Planted(fire_again_after_a_restore, "columns_window_join", 1),
    Planted(state_in_the_object, "interval_join"),
    Planted(mark_no_columns, "columns_interval_join_full"),
    Planted(lose_marks_of_columns, "columns_interval_join_full", 1),
    Planted(fire_again_after_a_restore, "columns_window_join_full", 1),
    Planted(join_before_all_versions_are_known, "columns_temporal_join"),
)


@pytest.mark.parametrize("name", MUTATIONS)
def test_planted_bugs_are_found(name: str, monkeypatch: Patch) -> None:
    must_be_found(MUTATIONS[name], monkeypatch)
