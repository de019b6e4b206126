"""Merged panes of overlapping windows, kept while the window moves on, for all keys at once.

The same idea as in ``penstock.operators.window.running``, with tables in place of accumulators: before a
boundary the merge of each suffix of panes is at hand, behind it one merge that new panes go into.  It is
derived from the store and no state; whoever changes a pane that is part of it calls :meth:`touch`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock.core.ids import MIN_TIME
from penstock.operators.columnar.panes import Panes

Merge = Callable[[Sequence[pa.Table]], pa.Table]
ReadPane = Callable[[int], Sequence[pa.Table]]


class RunningMerge:
    """The merge of the panes of one window after the other."""

    def __init__(self, panes: Panes, merge: Merge, read: ReadPane) -> None:
        self._panes = panes
        self._merge = merge
        self._read = read
        self.reset()

    def reset(self) -> None:
        """Forget everything: begin with the stored panes at the next window."""
        self._suffixes: list[tuple[int, pa.Table]] = []
        self._rest: list[pa.Table] = []
        self._boundary: int = MIN_TIME
        self._until: int = MIN_TIME

    def touch(self, pane: int) -> None:
        """A pane is about to change."""
        if pane < self._until:
            self.reset()

    def at(self, start: int) -> pa.Table:
        """All panes of the window at ``start``, merged; at least one of them holds rows."""
        end = start + self._panes.size
        if start > self._boundary or end < self._until:
            self._start_over(start, end)
        else:
            fresh = self._tables(self._until, end)
            if fresh:
                self._rest = [self._merge([*self._rest, *fresh])]
            self._until = end
            while self._suffixes and self._suffixes[-1][0] < start:
                self._suffixes.pop()
        parts = [table for _, table in self._suffixes[-1:]] + self._rest
        return parts[0] if len(parts) == 1 else self._merge(parts)

    def _start_over(self, start: int, end: int) -> None:
        self.reset()
        width = self._panes.width
        for pane in range(end - width, start - 1, -width):
            tables = list(self._read(pane))
            if tables:
                later = [table for _, table in self._suffixes[-1:]]
                self._suffixes.append((pane, self._merge([*tables, *later])))
        self._boundary = self._until = end

    def _tables(self, low: int, high: int) -> list[pa.Table]:
        return [table for pane in range(low, high, self._panes.width) for table in self._read(pane)]
