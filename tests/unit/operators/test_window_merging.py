"""The set of merging windows of one key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from penstock.operators.window.assigners import MergingWindowAssigner
from penstock.operators.window.merging import MergingWindowSet
from penstock.operators.window.sessions import EventTimeSessionWindows
from penstock.operators.window.windows import TimeWindow, merge_spans


def w(start: int, end: int) -> TimeWindow:
    return TimeWindow(start, end)


class Calls(list[Any]):
    """Notes what the set wants merged."""

    def __call__(self, merged: Any, replaced: Any, state_window: Any, moved: Any) -> None:
        self.append((merged, set(replaced), state_window, set(moved)))


class OnlyThreeAtOnce(EventTimeSessionWindows[Any]):
    """Puts merging off until at least three windows can be joined."""

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        def merge(group: list[TimeWindow], cover: TimeWindow) -> None:
            if len(group) >= 3:
                callback.merge(group, cover)

        merge_spans(windows, merge)


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def windows() -> MergingWindowSet[Any]:
    return MergingWindowSet(EventTimeSessionWindows(3), {})


def test_windows_that_do_not_touch_stay_apart(windows: Any, calls: Calls) -> None:
    assert windows.add(w(0, 4), calls) == w(0, 4)
    assert windows.add(w(6, 8), calls) == w(6, 8)
    assert windows.add(w(10, 12), calls) == w(10, 12)
    assert not calls
    assert all(windows.state_window(x) == x for x in (w(0, 4), w(6, 8), w(10, 12)))


def test_growing_keeps_the_state_window_of_the_first(windows: Any, calls: Calls) -> None:
    windows.add(w(0, 4), calls)
    assert windows.add(w(4, 5), calls) == w(0, 5)
    assert calls == [(w(0, 5), {w(0, 4)}, w(0, 4), set())], "contents lie where they should already"
    calls.clear()
    assert windows.add(w(1, 8), calls) == w(0, 8)
    assert windows.state_window(w(0, 8)) == w(0, 4)
    assert windows.state_window(w(0, 5)) is None
    assert calls == [(w(0, 8), {w(0, 5)}, w(0, 4), set())]


def test_a_bridge_moves_the_contents_of_all_but_one(windows: Any, calls: Calls) -> None:
    windows.add(w(0, 3), calls)
    windows.add(w(5, 8), calls)
    assert windows.add(w(3, 5), calls) == w(0, 8)
    [(merged, replaced, state_window, moved)] = calls
    assert merged == w(0, 8)
    assert replaced == {w(0, 3), w(5, 8)}
    assert {state_window} | moved == replaced
    assert state_window not in moved
    assert windows.mapping == {w(0, 8): state_window}


def test_a_window_inside_an_existing_one_merges_nothing(windows: Any, calls: Calls) -> None:
    windows.add(w(1, 4), calls)
    assert windows.add(w(2, 3), calls) == w(1, 4)
    assert not calls
    assert windows.mapping == {w(1, 4): w(1, 4)}


def test_a_window_around_an_existing_one_replaces_it(windows: Any, calls: Calls) -> None:
    windows.add(w(1, 2), calls)
    assert windows.add(w(0, 10), calls) == w(0, 10)
    assert calls == [(w(0, 10), {w(1, 2)}, w(1, 2), set())]


def test_a_window_around_several_replaces_them_all(windows: Any, calls: Calls) -> None:
    for each in (w(1, 3), w(5, 6), w(8, 9)):
        windows.add(each, calls)
    assert windows.add(w(0, 10), calls) == w(0, 10)
    [(merged, replaced, state_window, moved)] = calls
    assert merged == w(0, 10)
    assert replaced == {w(1, 3), w(5, 6), w(8, 9)}
    assert moved == replaced - {state_window}
    assert windows.mapping == {w(0, 10): state_window}


def test_the_same_window_again_keeps_its_state_window(windows: Any, calls: Calls) -> None:
    windows.add(w(1, 2), calls)
    assert windows.add(w(1, 2), calls) == w(1, 2)
    windows.add(w(2, 4), calls)
    calls.clear()
    assert windows.add(w(1, 4), calls) == w(1, 4)
    assert windows.state_window(w(1, 4)) == w(1, 2), "contents must not be orphaned"
    assert not calls


def test_an_assigner_may_put_merging_off(calls: Calls) -> None:
    windows: MergingWindowSet[Any] = MergingWindowSet(OnlyThreeAtOnce(3), {})
    assert windows.add(w(0, 2), calls) == w(0, 2)
    assert windows.add(w(2, 5), calls) == w(2, 5)
    assert not calls
    assert windows.state_window(w(2, 5)) == w(2, 5)
    assert windows.add(w(5, 6), calls) == w(0, 6)
    [(merged, replaced, _, _)] = calls
    assert (merged, replaced) == (w(0, 6), {w(0, 2), w(2, 5)})


def test_retired_windows_are_gone_and_the_rest_can_be_carried_over(windows: Any, calls: Calls) -> None:
    windows.add(w(0, 3), calls)
    windows.add(w(3, 4), calls)
    windows.add(w(10, 12), calls)
    again: MergingWindowSet[Any] = MergingWindowSet(EventTimeSessionWindows(3), dict(windows.mapping))
    assert again.state_window(w(0, 4)) == w(0, 3)
    again.retire(w(0, 4))
    assert again.mapping == {w(10, 12): w(10, 12)}
    with pytest.raises(LookupError):
        again.retire(w(0, 4))
