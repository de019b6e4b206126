"""Pairs of rows with equal keys and close times, found by sorting: no pair is looked at that is none.

Rows of the right side are sorted by key and time; for each left row bisection gives the stretch of its
partners.  What a pair costs does not depend on how often its key occurs.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from penstock.core.batch import Indices, Times

_MOST_PAIRS = 1 << 18
"""How many pairs are made at a time; one row has at least its own."""


def close_pairs(
    keys: tuple[Indices, Indices], times: tuple[Times, Times], lower: int, upper: int
) -> Iterator[tuple[Indices, Indices]]:
    """Positions of left and right rows whose numbers ``keys`` are equal and whose times are close.

    Right rows are from ``lower`` to ``upper`` after their left ones, both included.
    """
    (left_keys, right_keys), (left_times, right_times) = keys, times
    moments, ranks = np.unique(right_times, return_inverse=True)
    width = len(moments) + 1
    known = right_keys * width + ranks
    order = np.argsort(known, kind="stable")
    known = known[order]
    first = left_keys * width + _ranks(moments, left_times, lower, "left")
    behind = left_keys * width + _ranks(moments, left_times, upper, "right")
    starts = np.searchsorted(known, first)
    counts = np.searchsorted(known, behind) - starts
    rows = np.flatnonzero(counts)
    made = np.cumsum(counts[rows])
    at = 0
    while at < len(rows):
        before = int(made[at - 1]) if at else 0
        stop = max(at + 1, int(np.searchsorted(made, before + _MOST_PAIRS, "right")))
        some = rows[at:stop]
        yield np.repeat(some, counts[some]), order[_stretches(starts[some], counts[some])]
        at = stop


def _ranks(moments: Times, times: Times, after: int, side: Literal["left", "right"]) -> Indices:
    """Where among moments those so much after ``times`` are, also where 64 bits do not hold them."""
    moved = times + after
    found: Indices = np.searchsorted(moments, moved, side)
    if after > 0:
        return np.where(moved < times, len(moments), found)
    return np.where(moved > times, 0, found)


def _stretches(starts: Indices, counts: Indices) -> Indices:
    """``starts[i], starts[i] + 1, ...``, ``counts[i]`` numbers, for each ``i``."""
    ends = np.cumsum(counts)
    positions: Indices = np.arange(ends[-1]) + np.repeat(starts - (ends - counts), counts)
    return positions
