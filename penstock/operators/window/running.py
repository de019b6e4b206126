"""The merge of the panes of a window that moves on, without merging all of them each time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock.core.copying import copied
from penstock.core.ids import MIN_TIME

NOTHING: Any = object()
"""Stands for "no pane holds anything", since ``None`` is a legal accumulator."""


class Running:
    """The merge of the panes of one key's window, kept up to date while the window moves on.

    The panes lie on two sides of a boundary.  Before it, the merge of *each* suffix is at hand: when the
    oldest pane leaves, the next shorter suffix is the answer.  Behind it there is one merge, into which new
    panes go.  When the window has left the boundary behind, all its panes are put before a new one.  So a
    pane is read and merged twice, however many windows it is part of.

    Everything here is derived from stored panes and can be dropped at any time; it is not state.
    ``join`` may change its first argument and keep its second.
    """

    __slots__ = ("_boundary", "_join", "_rest", "_starts", "_suffixes", "newest", "until")

    def __init__(self, join: Callable[[Any, Any], Any]) -> None:
        self._join = join
        # Two lists and not one of pairs: there are many, and each pair would be the collector's business.
        self._starts: list[int] = []
        self._suffixes: list[Any] = []
        self._rest: Any = NOTHING
        self._boundary: int = MIN_TIME
        self.until: int = MIN_TIME
        """End of the last pane that was looked at."""
        self.newest: int = MIN_TIME
        """Start of the latest pane that holds anything."""

    def __len__(self) -> int:
        return len(self._suffixes)

    def reaches(self, start: int, end: int) -> bool:
        """Whether the window from ``start`` to ``end`` is got by adding panes and leaving some behind."""
        return start <= self._boundary and self.until <= end

    def start_over(self, end: int, panes: Iterable[tuple[int, Any]]) -> None:
        """Begin with these panes, start and contents, the latest first."""
        self._starts, self._suffixes = [], []
        self.newest = MIN_TIME
        merged: Any = NOTHING
        for pane, stored in panes:
            self.newest = max(self.newest, pane)
            merged = copied(stored) if merged is NOTHING else self._join(copied(stored), copied(merged))
            self._starts.append(pane)
            self._suffixes.append(merged)
        self._rest = NOTHING
        self._boundary = self.until = end

    def add(self, pane: int, stored: Any) -> None:
        """The next later pane."""
        fresh = copied(stored)
        self._rest = fresh if self._rest is NOTHING else self._join(self._rest, fresh)
        self.newest = pane

    def leave(self, start: int) -> None:
        """Leave the panes before ``start`` behind."""
        while self._starts and self._starts[-1] < start:
            self._starts.pop()
            self._suffixes.pop()

    def total(self) -> Any:
        """All panes of the current window as one; not to be changed. ``NOTHING`` if they are empty."""
        if not self._suffixes:
            return self._rest
        suffix = self._suffixes[-1]
        return suffix if self._rest is NOTHING else self._join(copied(suffix), copied(self._rest))
