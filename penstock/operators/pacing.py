"""How many rows to take on at a time.

While user code works through a batch nothing else happens in the slot: its results wait, and every barrier
does.  So a task serves no more rows at once than take about :data:`BUDGET_S`, and than make about as many
bytes as a channel may hold, and a step gives its results on as often; where a row costs microseconds and is
small that is more than any batch has, and nothing is cut.  The first row is tried alone, so that the first
result of a function that takes its time comes after that time and no later.
"""

from __future__ import annotations

BUDGET_S = 0.05
"""Longest time that one piece of work should take."""
FIRST_ROWS = 1
"""What is tried at first where somebody waits for results."""
GROWTH = 4
"""How many times more rows than before are tried at most: one wrong guess must not cost minutes."""


class Pace:
    """Learns what a row costs. ``rows`` is how many to take on next, at most ``most``.

    ``first`` is what is tried while nothing is known.  ``has_calls``: a call may cost something however few
    rows it has, as a fetch from afar does, and fewer rows do not help then.  One row cannot tell, so two are
    tried next.
    """

    __slots__ = ("_fixed_s", "_has_calls", "_last", "_most", "_most_bytes", "rows")

    def __init__(
        self, most: int, most_bytes: int | None = None, first: int = FIRST_ROWS, has_calls: bool = True
    ) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._has_calls = has_calls
        self._last = (0, 0.0)
        self._fixed_s = 0.0
        """What a call costs however few rows it has."""
        self.rows = min(first, most)

    def took(self, rows: int, seconds: float, moved: int = 0) -> None:
        """``rows`` rows took this long, and so many bytes were read for them or made of them."""
        if self._has_calls:
            self._tell_apart(rows, seconds)
        before, self._last = self._last[0], (rows, seconds)
        tried = max(self.rows, GROWTH * rows)
        certain = min(self._fitting(rows, seconds), tried)
        guessed = min(self._fitting(rows, seconds - self._fixed_s), GROWTH * self.rows)
        self.rows = max(certain, guessed)
        if not before and self._has_calls:
            self.rows = max(self.rows, min(2 * rows, self._most))
        if self._most_bytes is not None and moved * self.rows > self._most_bytes * rows:
            self.rows = max(1, self._most_bytes * rows // moved)

    def _tell_apart(self, rows: int, seconds: float) -> None:
        """What of the costs is the call's own: seen where calls had different numbers of rows."""
        before, took_before = self._last
        if rows < before or rows >= 2 * before > 0:
            per_row = max(0.0, (took_before - seconds) / (before - rows))
            has_changed = rows < before and seconds > 1.5 * took_before
            self._fixed_s = 0.0 if has_changed else max(0.0, seconds - per_row * rows)
        self._fixed_s = min(self._fixed_s, seconds)

    def _fitting(self, rows: int, seconds: float) -> int:
        if seconds * self._most <= BUDGET_S * rows:
            return self._most
        return max(1, int(rows * BUDGET_S / seconds))
