"""Which key groups get the most records, about: counted by the routers that know the groups anyway.

One batch in seventeen is looked at, a few hundred of its records, and old counts fade: so it costs next to
nothing, stays as small as there are key groups, and tells of the last while and not of last week.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.messages import HotGroups

_EVERY = 17
"""A prime, so that sources which take turns do not hide behind it."""
_RECORDS = 256
_FADE_AT = 1 << 16
_HOTTEST = 8


class GroupCounts:
    """Counts of one router.  Used by the task's own thread alone."""

    def __init__(self, groups: int) -> None:
        self._groups = groups
        self._batches = 0
        self._total = 0
        self._counts = np.zeros(0, np.int64)

    def saw(self, groups: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        """A batch was routed; these are the key groups of its records."""
        self._batches += 1
        if self._batches % _EVERY != 1:
            return
        if not len(self._counts):
            self._counts = np.zeros(self._groups, np.int64)
        picked = groups[:: -(-len(groups) // _RECORDS) or 1]
        np.add.at(self._counts, picked, 1)
        self._total += len(picked)
        if self._total >= _FADE_AT:
            self._counts >>= 1
            self._total = int(self._counts.sum())

    def hottest(self) -> HotGroups | None:
        """Those with more than twice an even share, at most eight; ``None`` before anything was looked at."""
        if not self._total:
            return None
        above = np.flatnonzero(self._counts > 2 * self._total / self._groups)
        first = above[np.argsort(-self._counts[above], kind="stable")][:_HOTTEST]
        counts = {int(group): int(self._counts[group]) for group in first}
        return HotGroups(self._total, counts)
