"""Lists of positions, one for each group: all in one array, each in a stretch of it with room to grow.

Adding, reading and shortening works on many groups at once, and costs as much as there is to add or to read.
"""

from __future__ import annotations

import numpy as np

from penstock.core.codes import Mask
from penstock.state.key_index import Rows, grown

_WORTH_TIDYING = 65536


class Buckets:
    """Groups are numbered from zero; a new one has an empty list."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all lists."""
        self._items: Rows = np.zeros(0, np.int64)
        self._starts: Rows = np.zeros(0, np.int64)
        self._lengths: Rows = np.zeros(0, np.int64)
        self._room: Rows = np.zeros(0, np.int64)
        self._used = 0
        self._wasted = 0

    def grow(self, count: int) -> None:
        """Make room for so many groups."""
        self._starts, self._room = grown(self._starts, count), grown(self._room, count)
        self._lengths = grown(self._lengths, count)

    def lengths(self, groups: Rows) -> Rows:
        """How many there are in each list."""
        return self._lengths[groups]

    def last(self, groups: Rows) -> Rows:
        """The last item of each of these groups, none of which is empty."""
        items: Rows = self._items[self._starts[groups] + self._lengths[groups] - 1]
        return items

    def of(self, groups: Rows) -> tuple[Rows, Rows]:
        """All items of these groups, in order: for each, which of ``groups`` it belongs to, and the item."""
        lengths = self._lengths[groups]
        which = np.repeat(np.arange(len(groups)), lengths)
        return which, self._items[self._starts[groups][which] + _within(lengths)]

    def add(self, groups: Rows, items: Rows) -> None:
        """Add items at the ends of lists; a group may occur several times."""
        if not len(groups):
            return
        order = np.argsort(groups, kind="stable")
        groups, items = groups[order], items[order]
        firsts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
        counts = np.diff(np.concatenate([firsts, [len(groups)]]))
        different = groups[firsts]
        needed = self._lengths[different] + counts
        short = needed > self._room[different]
        if short.any():
            self._move(different[short], needed[short])
        self._items[self._starts[groups] + self._lengths[groups] + _within(counts)] = items
        self._lengths[different] = needed

    def _move(self, groups: Rows, needed: Rows) -> None:
        """Give lists a longer stretch."""
        which, items = self.of(groups)
        lengths, old = self._lengths[groups], self._room[groups]
        self._wasted += int(old.sum())
        room = np.maximum(needed, 2 * old)
        ends = np.cumsum(room)
        self._starts[groups] = self._used + ends - room
        self._room[groups] = room
        self._used += int(ends[-1])
        self._items = grown(self._items, self._used)
        self._items[self._starts[groups][which] + _within(lengths)] = items

    def put(self, groups: Rows, which: Rows, items: Rows) -> None:
        """Other lists for some groups, each once: items in order, and which of ``groups`` each belongs to."""
        lengths = np.bincount(which, minlength=len(groups))
        short = lengths > self._room[groups]
        if short.any():
            self._move(groups[short], lengths[short])
        self._items[self._starts[groups][which] + _within(lengths)] = items
        self._lengths[groups] = lengths

    def keep(self, groups: Rows, mask: Mask) -> None:
        """Leave in the lists of some groups, each once, what the mask over :meth:`of` says."""
        which, items = self.of(groups)
        self.put(groups, which[mask], items[mask])

    @property
    def is_sparse(self) -> bool:
        """Whether it is worth to :meth:`tidy`."""
        return self._wasted > _WORTH_TIDYING and 2 * self._wasted > self._used

    def tidy(self, kept: Rows, moved: Rows | None = None) -> None:
        """Let all groups but these go, which are numbered anew; ``moved`` says what items are called now."""
        which, items = self.of(kept)
        self.clear()
        self.grow(len(kept))
        self.add(which, items if moved is None else moved[items])


def _within(lengths: Rows) -> Rows:
    """0, 1, 2... for each length, one behind the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) - np.repeat(ends - lengths, lengths)
