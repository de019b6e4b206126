"""How many rows a task takes on: as many as fit, and no fewer than help."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.task.pacing import BUDGET_S, Pace

MOST = 8192


def settle(cost: Callable[[int], float], pace: Pace | None = None, calls: int = 20) -> list[int]:
    """Sizes that are taken on one after the other if calls cost so much."""
    pace = pace or Pace(MOST)
    sizes = []
    for _ in range(calls):
        sizes.append(pace.rows)
        pace.took(pace.rows, cost(pace.rows))
    return sizes


def test_cheap_rows_are_not_cut() -> None:
    assert settle(lambda rows: rows * 1e-6)[-1] == MOST


@pytest.mark.parametrize("row_s", [1e-4, 1e-3, 0.01, 0.5])
def test_costly_rows_are_taken_in_pieces_of_the_budget(row_s: float) -> None:
    assert settle(lambda rows: rows * row_s)[-1] == pytest.approx(max(1, BUDGET_S / row_s), rel=0.02)


def test_a_call_that_costs_the_same_with_fewer_rows_gets_more_again() -> None:
    """A reader that waits 0.2 s for its server, whatever it is asked for, must not be asked for one row."""
    sizes = settle(lambda rows: 0.2 + rows * 1e-6)
    assert sizes[-5:] == [MOST] * 5, sizes


def test_both_prices_are_told_apart() -> None:
    sizes = settle(lambda rows: 0.2 + rows * 1e-3)
    assert sizes[-1] == pytest.approx(BUDGET_S / 1e-3, rel=0.05)


def test_a_hiccup_is_forgotten() -> None:
    pace = Pace(MOST)
    settle(lambda rows: rows * 1e-3, pace)
    pace.took(20, 0.3)
    sizes = settle(lambda rows: rows * 1e-3, pace)
    assert max(sizes) < 1000 and sizes[-1] == pytest.approx(50, rel=0.1)
