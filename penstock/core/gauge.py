"""What batches of one stream occupy, without looking at each row of each of them.

To look at all rows of a batch (``sizing.py``) costs about as much as to route them.  So of the large batches
of a stream only some are scanned, one in eight or nine, at irregular distances, lest they keep in step with
something in the data.  The others are judged by their own sample, and by what the scanned ones had beyond
theirs: rare giants count by their mean.  A scan that finds much more than the sample said has every batch
scanned for a while.  Small batches are always scanned: there it costs little more than the sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.core.sizing import rows_bytes, sampled_bytes

SMALL_ROWS = 64
"""Batches up to this length are always scanned."""
LONGEST_GAP = 15
"""So many large batches are at most judged by their samples between two that are scanned."""
WATCHED = 32
"""So many large batches are scanned at first, and behind one that the sample was wrong about."""
_WRONG = 1.5
"""How much more than the sample says is wrong."""
_MEMORY = 256
"""Scans that the mean is made of, about."""


class Gauge:
    """Measures the batches of one stream. What it scans depends on ``seed`` and what it was given before."""

    __slots__ = ("_beyond", "_gap", "_number", "_scans", "_watched")

    def __init__(self, seed: int) -> None:
        self._number = seed
        self._watched = WATCHED
        self._gap = self._scans = 0
        self._beyond = 0.0
        """Bytes of a row that samples did not show, on average."""

    def rows_bytes(self, rows: Sequence[Any]) -> int:
        """The bytes of all rows, and of the list that holds them."""
        if len(rows) <= SMALL_ROWS:
            return rows_bytes(rows)
        sampled = sampled_bytes(rows)
        if self._watched:
            self._watched -= 1
        elif self._gap:
            self._gap -= 1
            return sampled + max(0, int(self._beyond * len(rows)))
        else:
            self._gap = self._next_gap()
        found = rows_bytes(rows)
        self._scans = min(self._scans + 1, _MEMORY)
        self._beyond += ((found - sampled) / len(rows) - self._beyond) / self._scans
        if found > _WRONG * sampled:
            self._watched = WATCHED
        return found

    def _next_gap(self) -> int:
        self._number = (self._number * 1103515245 + 12345) & 0x7FFFFFFF
        return (self._number >> 16) % (LONGEST_GAP + 1)
