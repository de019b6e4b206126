"""Virtual time: a heap of actions, a clock that stands still between them, and one source of chance.

Everything of a simulated job runs as an action of one scheduler in one thread, so a run is a function
of its seed.  Nothing here may ask the operating system for time or randomness.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from penstock.core.ids import WallMs

START_MS = 1_000_000
"""Calendar time at which every simulation begins."""

_AFTER = 0.01
"""A deadline in whole milliseconds has passed for certain this much later."""

Action = Callable[[], None]


class Scheduler:
    """Runs actions in order of time; ties are broken by the seeded generator."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        """Virtual milliseconds since the simulation began."""
        self.steps = 0
        self._heap: list[tuple[float, float, int, Action]] = []
        self._serial = 0
        self._stop: Callable[[], bool] = lambda: False

    def after(self, delay: float, action: Action) -> None:
        """Run ``action`` in ``delay`` milliseconds."""
        self.at(self.now + delay, action)

    def at(self, time: float, action: Action) -> None:
        """Run ``action`` at ``time``, or now if that is over."""
        self._serial += 1
        due = time if time > self.now else self.now
        heapq.heappush(self._heap, (due, self.rng.random(), self._serial, action))

    def between(self, low: float, high: float) -> float:
        """A random duration."""
        return low + (high - low) * self.rng.random()

    def run(self, done: Callable[[], bool], limit_ms: float, limit_steps: int) -> bool:
        """Run until ``done``; false if nothing is left to do or a limit was reached first."""
        self._stop = lambda: self.now > limit_ms or self.steps >= limit_steps or done()
        heap = self._heap
        while heap and self.now <= limit_ms and self.steps < limit_steps and not done():
            self.now, _, _, action = heapq.heappop(heap)
            self.steps += 1
            action()
        return done()

    def stand_still(self, until: float) -> None:
        """Let everybody else go on until then, in the middle of the action that calls this."""
        heap = self._heap
        while heap and heap[0][0] < until and not self._stop():
            self.now, _, _, action = heapq.heappop(heap)
            self.steps += 1
            action()
        self.now = max(self.now, until)


class VirtualClock:
    """The time as one process sees it: its calendar may jump, its durations are true."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.offset = 0.0
        """By how many milliseconds the calendar of this process is ahead."""

    def now_ms(self) -> WallMs:
        return WallMs(int(START_MS + self._scheduler.now + self.offset))

    def monotonic(self) -> float:
        return self._scheduler.now / 1000.0

    def when(self, time_ms: int) -> float:
        """The scheduler's time at which this clock has reached ``time_ms``."""
        return time_ms - START_MS - self.offset + _AFTER
