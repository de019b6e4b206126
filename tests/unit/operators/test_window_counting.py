"""Count windows: PyFlink's results, and no state left behind."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import OperatorHarness
from window_samples import ShowProcess, showing, summing

from penstock.core.ids import MAX_TIME, MIN_TIME
from penstock.operators.window.counting import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.triggers import CountTrigger
from penstock.operators.window.window_state import ListContents


def test_tumbling_counts_fire_when_full_and_carry_the_end_of_time() -> None:
    harness = OperatorHarness(showing(CountTumblingWindowAssigner.of(3)))
    harness.send(*[(("a", n), MIN_TIME) for n in range(7)], (("b", 9), 5))
    assert harness.take() == [(("a", (0,), [0, 1, 2]), MAX_TIME), (("a", (1,), [3, 4, 5]), MAX_TIME)]
    harness.watermark(MAX_TIME)
    assert harness.take() == [], "a window that is not full never fires"


def test_sliding_counts_fire_full_windows_only() -> None:
    harness = OperatorHarness(showing(CountSlidingWindowAssigner.of(3, 2)))
    harness.send(*[(("a", n), 0) for n in range(8)])
    assert harness.take_values() == [("a", (0,), [0, 1, 2]), ("a", (1,), [2, 3, 4]), ("a", (2,), [4, 5, 6])]


def test_sliding_counts_with_gaps_skip_elements() -> None:
    harness = OperatorHarness(showing(CountSlidingWindowAssigner.of(2, 3)))
    harness.send(*[(("a", n), 0) for n in range(8)])
    assert harness.take_values() == [("a", (0,), [0, 1]), ("a", (1,), [3, 4]), ("a", (2,), [6, 7])]


def test_a_full_window_leaves_only_the_count_of_its_key() -> None:
    function = ShowProcess()
    for assigner, open_windows in (
        (CountTumblingWindowAssigner.of(4), 0),
        (CountSlidingWindowAssigner.of(4, 2), 1),
    ):
        harness = OperatorHarness(WindowOperator(assigner, ListContents(), function))
        for n in range(400):
            harness.send((("a", n), 0), (("b", n), 0))
        sizes = harness.table_sizes()
        assert sizes.get("_window/contents", 0) == 2 * open_windows
        assert sizes.get("_trigger/count", 0) == 2 * open_windows
        assert sum(sizes.values()) == 2 * open_windows * 2 + 2, "and one number per key"
    assert len(function.cleared) == 2 * 100 + 2 * 199


def test_another_trigger_keeps_the_contents_as_it_wishes() -> None:
    harness = OperatorHarness(showing(CountTumblingWindowAssigner.of(4), trigger=CountTrigger.of(2)))
    harness.send(*[(("a", n), 0) for n in range(5)])
    assert harness.take_values() == [("a", (0,), [0, 1]), ("a", (0,), [0, 1, 2, 3])]


def plain_count_windows(numbers: list[int], size: int, slide: int) -> list[list[int]]:
    starts = range(0, len(numbers) - size + 1, slide)
    return [numbers[start : start + size] for start in starts]


@settings(max_examples=60, deadline=None)
@given(total=st.integers(0, 40), size=st.integers(1, 6), slide=st.integers(1, 6), cut=st.integers(0, 40))
def test_count_windows_are_slices_of_the_stream_also_across_a_restore(
    total: int, size: int, slide: int, cut: int
) -> None:
    def build() -> WindowOperator:
        return showing(CountSlidingWindowAssigner.of(size, slide))

    numbers = list(range(total))
    harness = OperatorHarness(build())
    got: list[Any] = []
    for number in numbers:
        if number == cut:
            got += harness.take_values()
            harness = OperatorHarness(build(), restored=harness.snapshot())
        harness.send((("a", number), 0))
    got += harness.take_values()
    assert [values for _, _, values in got] == plain_count_windows(numbers, size, slide)


def test_incremental_count_windows() -> None:
    harness = OperatorHarness(summing(CountTumblingWindowAssigner.of(2)))
    harness.send(*[(("a", n), 0) for n in range(4)])
    assert harness.take_values() == [("a", 1), ("a", 5)]
