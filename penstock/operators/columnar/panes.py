"""Event time cut into panes: the slices that tumbling and sliding windows are made of.

A pane is as wide as the greatest common divisor of size and slide, so it lies wholly inside or wholly
outside each window; a tumbling window is one pane.  Records are stored once, in their pane, however
many windows overlap.  Panes and windows are named by their start; both floor for negative times.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.core.batch import Times
from penstock.core.errors import ConfigError
from penstock.core.ids import MAX_TIME


@dataclass(frozen=True)
class Panes:
    """Windows ``[start, start + size)`` for every ``start`` with ``(start - offset) % slide == 0``.

    All in milliseconds.  With ``slide > size`` there are gaps, and a record in one has no window.
    """

    size: int
    slide: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.size <= 0 or self.slide <= 0:
            raise ConfigError(f"window size and slide must be positive, not {self.size} and {self.slide} ms")
        if abs(self.offset) >= self.slide:
            raise ConfigError(
                f"the window offset of {self.offset} ms must be smaller than the slide of {self.slide} ms"
            )

    @classmethod
    def tumbling(cls, size: int, offset: int = 0) -> Panes:
        """Windows that touch and do not overlap."""
        return cls(size, size, offset)

    @property
    def width(self) -> int:
        """Length of a pane."""
        return math.gcd(self.size, self.slide)

    @property
    def per_window(self) -> int:
        """How many panes make a window."""
        return self.size // self.width

    def floor(self, times: Times) -> Times:
        """Pane of each time."""
        width = self.width
        return (times - self.offset) // width * width + self.offset

    def pane_of(self, time: int) -> int:
        """Pane of one time."""
        return time - (time - self.offset) % self.width

    def of_window(self, start: int) -> range:
        """Panes of the window at ``start``."""
        return range(start, start + self.size, self.width)

    def windows_of(self, pane: int) -> range:
        """Starts of the windows that contain ``pane``, ascending; empty in a gap."""
        return range(self._align_up(pane - self.size + 1), pane + 1, self.slide)

    def max_time(self, start: int) -> int:
        """Last time inside the window: it fires when the watermark gets there."""
        return start + self.size - 1

    def cleanup_time(self, start: int, lateness: int) -> int:
        """The window takes records until the watermark gets here."""
        return min(self.max_time(start) + lateness, MAX_TIME)

    def last_cleanup(self, pane: int, lateness: int) -> int | None:
        """When the last window of ``pane`` closes; ``None`` for a pane in a gap."""
        windows = self.windows_of(pane)
        return self.cleanup_time(windows[-1], lateness) if windows else None

    def due(self, panes: Sequence[int], after: int, until: int) -> Iterator[int]:
        """Windows with ``after < max_time <= until`` that hold at least one of the sorted ``panes``.

        In order of their end.  Stretches of time without panes are jumped over, so the first watermark
        (from the beginning of time) and the last one (to its end) cost no more than any other.
        """
        if not panes:
            return
        start = max(self._align_up(panes[0] - self.size + 1), self._align_up(after - self.size + 2))
        at = 0
        while True:
            at = bisect_left(panes, start, at)
            if at == len(panes):
                return
            if panes[at] >= start + self.size:
                start = self._align_up(panes[at] - self.size + 1)
            if self.max_time(start) > until:
                return
            yield start
            start += self.slide

    def _align_up(self, time: int) -> int:
        """The first window start at or after ``time``."""
        return time + (self.offset - time) % self.slide
