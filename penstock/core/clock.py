"""The only module that asks the operating system for the time.

Everything else is handed a :class:`Clock`, so that windows, timers, timeouts and restarts run in
virtual time under the simulator exactly as they run in production.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from penstock.core.ids import MonoMs, WallMs


class Clock(Protocol):
    """Source of time. ``now_ms`` is the calendar, ``monotonic`` measures durations."""

    def now_ms(self) -> WallMs:
        """Milliseconds since the epoch: the processing time that users see."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards, from an arbitrary origin."""
        ...


@dataclass(frozen=True, slots=True)
class Now:
    """One moment, by both clocks of a process."""

    mono: MonoMs
    wall: WallMs

    @classmethod
    def of(cls, clock: Clock) -> Now:
        """The moment of the call."""
        return cls(mono_ms(clock), clock.now_ms())


def mono_ms(clock: Clock) -> MonoMs:
    """Whole milliseconds of the clock that measures durations."""
    return MonoMs(int(clock.monotonic() * 1000))


def later(moment: MonoMs, ms: int) -> MonoMs:
    """The moment ``ms`` behind another."""
    return MonoMs(moment + ms)


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> WallMs:
        return WallMs(time.time_ns() // 1_000_000)

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told to: for tests and the simulator."""

    def __init__(self, start_ms: int = 0) -> None:
        self._ms = float(start_ms)

    def now_ms(self) -> WallMs:
        return WallMs(int(self._ms))

    def monotonic(self) -> float:
        return self._ms / 1000.0

    def advance(self, ms: float) -> None:
        """Move forward by ``ms`` milliseconds."""
        if ms < 0:
            raise ValueError("time does not go backwards")
        self._ms += ms


def computed_s() -> float:
    """Seconds of a processor that the calling thread has used."""
    return time.thread_time()
