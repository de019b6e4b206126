"""What a process says of itself: its number, processor time, threads, and what garbage collection took."""

from __future__ import annotations

import contextlib
import gc
import os
import threading

from penstock.core.clock import Clock

_SPAN_S = 0.9
"""Shares are over at least so long, however often somebody asks."""


class ProcessFacts:
    """Measures this process within a ``with`` block: it may serve another job behind it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gc_s = self._longest_s = 0.0
        self._collections = [0, 0, 0]
        self._since: float | None = None
        self._last = (clock.monotonic(), _cpu_s(), 0.0)
        self._shares = (0.0, 0.0)

    def __enter__(self) -> ProcessFacts:
        gc.callbacks.append(self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(ValueError):
            gc.callbacks.remove(self._note)

    def now(self) -> dict[str, float]:
        """``pid``, ``cpu_s``, ``cpu_load`` (1 is one processor), ``threads``, and of Python's collector
        ``gc_ms``, ``gc_ms_per_s``, ``gc_longest_ms`` and how often it ran: ``gc_count_0`` to ``gc_count_2``.
        """
        at, cpu, collected = self._clock.monotonic(), _cpu_s(), self._gc_s
        then, cpu_then, collected_then = self._last
        if at - then >= _SPAN_S:
            self._shares = (cpu - cpu_then) / (at - then), 1000 * (collected - collected_then) / (at - then)
            self._last = at, cpu, collected
        return {
            "pid": float(os.getpid()),
            "cpu_s": cpu,
            "cpu_load": self._shares[0],
            "gc_ms": collected * 1000,
            "gc_ms_per_s": self._shares[1],
            "threads": float(threading.active_count()),
            "gc_longest_ms": self._longest_s * 1000,
            **{f"gc_count_{number}": float(count) for number, count in enumerate(self._collections)},
        }

    def _note(self, phase: str, info: dict[str, int]) -> None:
        now = self._clock.monotonic()
        if phase == "start":
            self._since = now
        elif self._since is not None:
            took, self._since = now - self._since, None
            self._gc_s += took
            self._longest_s = max(self._longest_s, took)
            self._collections[info.get("generation", 0)] += 1


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system
