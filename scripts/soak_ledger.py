"""The records of a soak, ticked off one by one while they come: what is lost, doubled or wrong.  Pure.

Every line that the job writes has a number in a series without gaps, so that memory for what has been seen
is small: a series remembers how far it is complete, and the few that came early.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

KEYS = 50
WINDOW_MS = 1000
TIMER_EVERY = 50


def described(number: int, seen: int) -> str:
    """Line for a record, with how many its key had before it."""
    return f"r {number} {seen}"


@dataclass
class Series:
    """Numbers from 0 on, each once."""

    complete: int = 0
    early: set[int] = field(default_factory=set)

    def tick(self, number: int) -> bool:
        """False if it was there before."""
        if number < self.complete or number in self.early:
            return False
        self.early.add(number)
        while self.complete in self.early:
            self.early.remove(self.complete)
            self.complete += 1
        return True

    @property
    def missing(self) -> int:
        """How many are not there although a later one is."""
        return max(self.early) + 1 - self.complete - len(self.early) if self.early else 0


class Ledger:
    """Lines of the job: ``r`` for records, ``w`` for windows, ``t`` for timers."""

    def __init__(self, splits: int) -> None:
        self.lines = self.duplicated = self.wrong = 0
        self._splits = splits
        self._series: dict[tuple[str, int], Series] = defaultdict(Series)

    def add(self, line: str) -> None:
        """Tick a line off."""
        self.lines += 1
        kind, first, second, *rest = line.split()
        if kind == "r":
            number, seen = int(first), int(second)
            self._tick("r", number % self._splits, number // self._splits)
            self.wrong += seen != number // KEYS
        elif kind == "w":
            self._tick("w", int(first), int(second) // WINDOW_MS)
            self.wrong += int(rest[0]) != WINDOW_MS // KEYS
        else:
            self._tick("t", int(first), int(second) // TIMER_EVERY)

    def _tick(self, kind: str, series: int, number: int) -> None:
        self.duplicated += not self._series[kind, series].tick(number)

    @property
    def lost(self) -> int:
        """Numbers that are missing although later ones are there."""
        return sum(series.missing for series in self._series.values())
