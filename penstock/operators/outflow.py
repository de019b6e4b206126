"""How many results a step gathers before it sends them on.

One record, or one timer, may make any number of results of any size.  So a step sends them in pieces, and
between two pieces it may be told to wait (``Operator.work``).  How many results a piece has is learned: from
their own size, and from how much the steps behind make of them before they leave the task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.core.sizing import sampled_bytes

PIECE_BYTES = 1 << 20
MOST_ROWS = 8192
_FIRST_ROWS = 256
_GROWTH = 4


class Outflow:
    """The size of the next piece, in ``rows``. ``emitted`` counts the bytes that have left the task."""

    __slots__ = ("_emitted", "rows")

    def __init__(self, emitted: Callable[[], int]) -> None:
        self._emitted = emitted
        self.rows = _FIRST_ROWS

    def send(self, items: list[Any], emit: Callable[[], None]) -> None:
        """Send a piece, these ``items``, by calling ``emit``, and learn from it."""
        before = self._emitted()
        emit()
        size = max(sampled_bytes(items), self._emitted() - before, 1)
        fitting = PIECE_BYTES * len(items) // size
        self.rows = max(1, min(fitting, MOST_ROWS, _GROWTH * self.rows))
