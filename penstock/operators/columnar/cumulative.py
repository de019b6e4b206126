"""Cumulative windows: one begins every ``size`` and shows what it has after each ``step``, until it is full.

They are made of panes as wide as the step, like overlapping ones; but many windows begin at the same time, so
here a window is named by its end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.core.errors import ConfigError
from penstock.operators.columnar.panes import Panes


@dataclass(frozen=True)
class CumulativePanes(Panes):
    """Windows ``[base, base + n * step)``, where ``slide`` is the step and ``size`` the longest of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size % self.slide:
            raise ConfigError(
                f"the step of {self.slide} ms does not divide the window size of {self.size} ms"
            )

    def bounds(self, window: int) -> tuple[int, int]:
        return self._base(window - 1), window

    def of_window(self, start: int) -> range:
        return range(*self.bounds(start), self.width)

    def windows_of(self, pane: int) -> range:
        return range(pane + self.width, self._base(pane) + self.size + 1, self.width)

    def max_time(self, start: int) -> int:
        return start - 1

    def due(self, panes: Sequence[int], after: int, until: int) -> Iterator[int]:
        at = 0
        while at < len(panes):
            base = self._base(panes[at])
            first = max(panes[at], base + (after + 1 - base) // self.width * self.width)
            for end in range(first + self.width, base + self.size + 1, self.width):
                if end - 1 > until:
                    return
                yield end
            at = bisect_left(panes, base + self.size, at)

    def _base(self, time: int) -> int:
        return time - (time - self.offset) % self.size
