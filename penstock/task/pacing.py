"""How much a task takes on at a time, and how often it asks its source for more.

While user code works through a batch nothing else happens in the slot, and every barrier waits.  So a
task serves no more rows at once than take about :data:`BUDGET_S`, and than make about as many bytes as a
channel may hold; where a row costs microseconds and is small that is more than any batch has, and nothing is
cut.  The first row is tried alone: if it takes long, its result waits for no other.

A source is polled once at a time, and rarer while there is nothing.
"""

from __future__ import annotations

from penstock.operators.chain import OperatorInput
from penstock.operators.source_operator import SourceOperator

BUDGET_S = 0.05
"""Longest time that one piece of work should take."""
FIRST_ROWS = 1
"""What is tried while nothing is known."""
GROWTH = 4
"""How many times more rows than before are tried at most: one wrong guess must not cost minutes."""
_ALONE = frozenset((1, 4, 16))
_ALONE_AT_MOST = 64
"""After so many rows alone two are tried: only different numbers of rows tell what a call itself costs."""


class Pace:
    """Learns what a row costs. ``rows`` is how many to take on next, at most ``most``."""

    __slots__ = ("_alone", "_fixed_s", "_last", "_most", "_most_bytes", "rows")

    def __init__(self, most: int, most_bytes: int | None = None) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._last = (0, 0.0)
        self._fixed_s = 0.0
        """What a call costs however few rows it has, as a fetch from afar does: fewer rows do not help."""
        self._alone = 0
        """How many rows were served alone."""
        self.rows = min(FIRST_ROWS, most)

    def took(self, rows: int, seconds: float, moved: int = 0) -> None:
        """``rows`` rows took this long, and so many bytes were read for them or made of them."""
        self._tell_apart(rows, seconds)
        self.rows = min(self._fitting(rows, seconds - self._fixed_s), GROWTH * max(rows, self.rows))
        if self.rows == rows == 1:
            self._alone += 1
            if self._alone in _ALONE or not self._alone % _ALONE_AT_MOST:
                self.rows = min(2, self._most)
        if self._most_bytes is not None and moved * self.rows > self._most_bytes * rows:
            self.rows = max(1, self._most_bytes * rows // moved)

    def _tell_apart(self, rows: int, seconds: float) -> None:
        """What of the costs is the call's own: seen where calls have different numbers of rows."""
        before, took_before = self._last
        if rows < before or rows >= 2 * before > 0:
            per_row = max(0.0, (took_before - seconds) / (before - rows))
            has_changed = rows < before and seconds > 1.5 * took_before
            self._fixed_s = 0.0 if has_changed else max(0.0, seconds - per_row * rows)
        self._fixed_s = min(self._fixed_s, seconds)
        self._last = (rows, seconds)

    def _fitting(self, rows: int, seconds: float) -> int:
        if seconds * self._most <= BUDGET_S * rows:
            return self._most
        return max(1, int(rows * BUDGET_S / seconds))


_LONGEST_MS = 16


class SourcePolls:
    """Polls a source, and knows when it makes sense to do so again."""

    def __init__(self, head: OperatorInput, source: SourceOperator) -> None:
        self._head = head
        self.source = source
        self._pause_ms = 1
        self._retry_at: int | None = None

    def due(self, now_ms: int) -> bool:
        """Whether it makes sense to poll now."""
        return self._retry_at is None or now_ms >= self._retry_at

    def now(self) -> None:
        """Something has changed: look again."""
        self._retry_at = None

    def next_deadline_ms(self) -> int | None:
        """Processing time before which it is not polled; ``None`` if it may be at once."""
        return self._retry_at

    def poll(self, most: int, now_ms: int) -> int:
        """Emit the next records, ``most`` at most; how many there were."""
        emitted = 0

        def poll() -> None:
            nonlocal emitted
            emitted = self.source.poll(most)

        self._head.run(poll)
        if emitted:
            self._pause_ms, self._retry_at = 1, None
        elif not self.source.finished:
            wanted = self.source.next_poll_ms()
            self._retry_at = now_ms + self._pause_ms if wanted is None else max(wanted, now_ms + 1)
            self._pause_ms = min(2 * self._pause_ms, _LONGEST_MS)
        return emitted
