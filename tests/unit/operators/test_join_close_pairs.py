"""Pairs found by sorting are those found by looking at all of them, however few are made at a time."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.core.ids import MAX_TIME, MIN_TIME
from penstock.operators.join import close_pairs as module
from penstock.operators.join.close_pairs import close_pairs


@pytest.mark.parametrize("most", [1, 3, 1 << 18])
@pytest.mark.parametrize(("lower", "upper"), [(-3, 3), (0, 0), (2, 9), (-9, -2), (-1000, 1000)])
def test_all_pairs_are_found_once(most: int, lower: int, upper: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_PAIRS", most)
    random = np.random.default_rng(7)
    keys = random.integers(0, 4, 60), random.integers(0, 5, 40)
    times = random.integers(-20, 20, 60), random.integers(-20, 20, 40)
    pieces = list(close_pairs(keys, times, lower, upper))
    found = [pair for piece in pieces for pair in zip(piece[0].tolist(), piece[1].tolist(), strict=True)]
    wanted = [
        (left, right)
        for left in range(60)
        for right in range(40)
        if keys[0][left] == keys[1][right] and lower <= times[1][right] - times[0][left] <= upper
    ]
    assert sorted(found) == wanted and wanted
    assert len(pieces) > 1 or most > 3


def test_no_rows_have_no_pairs() -> None:
    none, some = np.zeros(0, np.int64), np.arange(3)
    assert list(close_pairs((none, some), (none, some), -5, 5)) == []
    assert list(close_pairs((some, none), (some, none), -5, 5)) == []


@pytest.mark.parametrize(("lower", "upper"), [(-3, 3), (2, 9), (-9, -2), (0, 2**62), (-(2**62), 0)])
def test_times_at_both_ends_of_64_bits_have_the_pairs_that_they_have(lower: int, upper: int) -> None:
    ends = [MIN_TIME + n for n in range(1, 5)] + [0] + [MAX_TIME - n for n in range(5)]
    keys, times = np.zeros(len(ends), np.int64), np.array(ends, np.int64)
    pieces = list(close_pairs((keys, keys), (times, times), lower, upper))
    found = [pair for piece in pieces for pair in zip(piece[0].tolist(), piece[1].tolist(), strict=True)]
    wanted = [
        (left, right)
        for left, time in enumerate(ends)
        for right, other in enumerate(ends)
        if lower <= other - time <= upper
    ]
    assert sorted(found) == wanted
