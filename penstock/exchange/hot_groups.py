"""Which key groups get the most records, about: counted by the routers that know the groups anyway.

One batch in seventeen is looked at, a few hundred of its records, and old counts fade: so it costs next to
nothing, stays as small as there are key groups, and tells of the last while and not of last week.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.ids import KeyGroup
from penstock.core.messages import HotGroups

Groups = np.ndarray[Any, np.dtype[np.int64]]

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

    def saw(self, groups: Groups) -> None:
        """A batch was routed; these are the key groups of its records."""
        if self._looks_at_next():
            picked = groups[:: -(-len(groups) // _RECORDS) or 1]
            self._add(picked, len(picked))

    def saw_one(self, group: KeyGroup) -> None:
        """A batch of one record was routed, of this key group."""
        if self._looks_at_next():
            self._add(group, 1)

    def _looks_at_next(self) -> bool:
        self._batches += 1
        return self._batches % _EVERY == 1

    def _add(self, picked: Groups | KeyGroup, records: int) -> None:
        if not len(self._counts):
            self._counts = np.zeros(self._groups, np.int64)
        np.add.at(self._counts, picked, 1)
        self._total += records
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
