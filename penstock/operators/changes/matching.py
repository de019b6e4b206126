"""Rows that are taken back find the rows that they take back: by a hash of all their values."""

from __future__ import annotations

import numpy as np

from penstock.core.codes import Codes, Mask
from penstock.state.key_index import Rows


def folded(hashes: Codes, weights: Codes) -> tuple[Rows, Rows]:
    """What is left of rows that come and go within a batch: the rows to add, and those to take back.

    Equal rows stand for each other.
    """
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    firsts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    sums = np.add.reduceat(weights[order], firsts)
    which = np.repeat(np.arange(len(firsts)), np.diff(np.concatenate([firsts, [len(order)]])))
    left = np.empty(len(hashes), np.int64)
    left[order] = sums[which]
    signs = np.sign(left)
    # Of each, so many as the sum says, of those with its sign; the last ones, whose times are the latest.
    rank = np.empty(len(hashes), np.int64)
    right = weights[order] == np.sign(sums)[which]
    running = np.cumsum(right)
    ends = np.concatenate([firsts[1:], [len(order)]]) - 1
    rank[order] = running[ends][which] - running
    chosen = (weights == signs) & (rank < np.abs(left))
    return np.flatnonzero(chosen & (weights > 0)), np.flatnonzero(chosen & (weights < 0))


def occurrences(hashes: Codes) -> Rows:
    """0 for the first of each value, 1 for the second, and so on."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    new = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(order) else np.zeros(0, bool)
    firsts = np.flatnonzero(new)
    within = np.arange(len(order)) - np.repeat(firsts, np.diff(np.concatenate([firsts, [len(order)]])))
    found = np.empty(len(order), np.int64)
    found[order] = within
    return found


def matched(stored: Codes, wanted: Codes) -> Mask:
    """Which of the stored values are taken by the wanted ones, each of which takes one."""
    if not len(stored) or not len(wanted):
        return np.zeros(len(stored), np.bool_)
    different, counts = np.unique(wanted, return_counts=True)
    place = np.minimum(np.searchsorted(different, stored), len(different) - 1)
    taken: Mask = (different[place] == stored) & (occurrences(stored) < counts[place])
    return taken
