"""Event time cut into panes: the slices that tumbling and sliding windows are made of.

A pane is as wide as the greatest common divisor of size and slide, so it lies wholly inside or wholly
outside each window; a tumbling window is one pane.  Records are stored once, in their pane, however
many windows overlap.  Panes and windows are named by their start; both floor for negative times.

Between windows (slide larger than size) each time is a pane of its own: such a record is in no window, but
whether it is late depends on its own time alone.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.core.batch import Times
from penstock.core.errors import ConfigError
from penstock.core.ids import MAX_TIME

Mask = npt.NDArray[np.bool_]


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
    def described(self) -> str:
        """What state is made for; other windows of the same panes can go on with it."""
        return f"panes of {self.width} ms from {self.offset % self.width} ms"

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
        panes: Times = (times - self.offset) // width * width + self.offset
        if self.slide > self.size:
            panes = np.where((times - self.offset) % self.slide < self.size, panes, times)
        return panes

    def pane_of(self, time: int) -> int:
        """Pane of one time."""
        if self.slide > self.size and (time - self.offset) % self.slide >= self.size:
            return time
        return time - (time - self.offset) % self.width

    def of_window(self, start: int) -> range:
        """Panes of the window at ``start``."""
        return range(start, start + self.size, self.width)

    def windows_of(self, pane: int) -> range:
        """Starts of the windows that contain ``pane``, ascending; empty in a gap."""
        return range(self._align_up(pane - self.size + 1), pane + 1, self.slide)

    def bounds(self, window: int) -> tuple[int, int]:
        """Start and end of a window."""
        return window, window + self.size

    def is_start(self, time: int) -> bool:
        """Whether a window begins there."""
        return (time - self.offset) % self.slide == 0

    def max_time(self, start: int) -> int:
        """Last time inside the window: it fires when the watermark gets there."""
        return start + self.size - 1

    def cleanup_time(self, start: int, lateness: int) -> int:
        """The window takes records until the watermark gets here."""
        return min(self.max_time(start) + lateness, MAX_TIME)

    def is_late(self, pane: int, lateness: int, watermark: int) -> bool:
        """Whether its last window is closed, or without one, whether its own time is over."""
        windows = self.windows_of(pane)
        closes = self.cleanup_time(windows[-1], lateness) if windows else min(pane + lateness, MAX_TIME)
        return closes <= watermark

    def judge(self, times: Times, lateness: int, watermark: int) -> tuple[Mask, Mask] | None:
        """Which records are late and which are to be kept; ``None`` means that all are kept.

        A record between windows is never kept, and late only once its time is over.
        """
        if self.slide <= self.size and not self.is_late(self.pane_of(int(times.min())), lateness, watermark):
            return None
        found, position = np.unique(self.floor(times), return_inverse=True)
        late = np.array([self.is_late(pane, lateness, watermark) for pane in found.tolist()])
        inside = np.array([bool(self.windows_of(pane)) for pane in found.tolist()])
        return late[position], (inside & ~late)[position]

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
