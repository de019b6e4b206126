"""How many rows a task takes on at a time.

While user code works through a batch nothing else happens in the slot, and every barrier waits.  So a
task serves no more rows at once than take about :data:`BUDGET_S`, and than make about as many bytes as a
channel may hold; where a row costs microseconds and is small that is more than any batch has, and nothing is
cut.
"""

from __future__ import annotations

BUDGET_S = 0.05
"""Longest time that one piece of work should take."""
FIRST_ROWS = 16
"""What is tried while nothing is known."""
GROWTH = 4
"""How many times more rows than before are tried at most: one wrong guess must not cost minutes."""


class Pace:
    """Learns what a row costs. ``rows`` is how many to take on next, at most ``most``."""

    __slots__ = ("_fixed_s", "_last", "_most", "_most_bytes", "rows")

    def __init__(self, most: int, most_bytes: int | None = None) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._last = (0, 0.0)
        self._fixed_s = 0.0
        """What a call costs however few rows it has, as a fetch from afar does: fewer rows do not help."""
        self.rows = min(FIRST_ROWS, most)

    def took(self, rows: int, seconds: float, moved: int = 0) -> None:
        """``rows`` rows took this long, and so many bytes were read for them or made of them."""
        before, took_before = self._last
        if rows < before:
            per_row = max(0.0, (took_before - seconds) / (before - rows))
            has_changed = seconds > 1.5 * took_before
            self._fixed_s = 0.0 if has_changed else max(0.0, seconds - per_row * rows)
        self._fixed_s = min(self._fixed_s, seconds)
        self._last = (rows, seconds)
        certain = self._fitting(rows, seconds)
        guessed = min(self._fitting(rows, seconds - self._fixed_s), GROWTH * self.rows)
        self.rows = max(certain, guessed)
        if self._most_bytes is not None and moved * self.rows > self._most_bytes * rows:
            self.rows = max(1, self._most_bytes * rows // moved)

    def _fitting(self, rows: int, seconds: float) -> int:
        if seconds * self._most <= BUDGET_S * rows:
            return self._most
        return max(1, int(rows * BUDGET_S / seconds))
