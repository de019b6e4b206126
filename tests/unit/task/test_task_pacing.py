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


def test_the_first_row_is_tried_alone_and_then_a_few_times_more() -> None:
    assert settle(lambda rows: rows * 1e-6, calls=8) == [1, 4, 16, 64, 256, 1024, 4096, MOST]


def test_rows_of_a_slow_function_stay_alone_but_for_a_try_now_and_then() -> None:
    sizes = settle(lambda rows: rows * 0.5, calls=200)
    assert sizes[:3] == [1, 2, 1] and set(sizes) == {1, 2} and 2 * sizes.count(2) < 20


@pytest.mark.parametrize("afar_s", [0.03, 0.2, 2.0])
def test_a_fetch_from_afar_gets_going(afar_s: float) -> None:
    sizes = settle(lambda rows: afar_s + rows * 1e-6)
    assert sizes[0] == 1 and sizes[7:] == [MOST] * 13


@pytest.mark.parametrize("bad", range(4))
def test_a_fetch_from_afar_gets_going_although_one_takes_very_long(bad: int) -> None:
    waits = [0.2] * 20
    waits[bad] = 1.5
    sizes = settle(lambda rows: waits.pop(0) + rows * 1e-6)
    assert sizes[-1] == MOST, sizes


def test_a_slow_first_row_does_not_make_the_others_slow() -> None:
    waits = [3.0]
    sizes = settle(lambda rows: (waits.pop() if waits else 0) + rows * 1e-6)
    assert sizes[:2] == [1, 2] and sizes[-1] == MOST


def test_one_row_at_most_stays_one() -> None:
    assert set(settle(lambda rows: 0.2, Pace(1))) == {1}


def test_huge_rows_are_not_tried_in_company() -> None:
    pace = Pace(MOST, 1 << 20)
    for _ in range(20):
        assert pace.rows == 1
        pace.took(1, 0.2, 100 << 20)


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
