"""What a slot's process says of itself with its signs of life, about once a second."""

from __future__ import annotations

import gc
import os
import threading

from penstock.core.clock import Clock
from penstock.spark.memory import Machine


class ProcessFacts:
    """Measures one process: ``pid``, ``cpu_s``, ``gc_ms``, ``threads``, ``limit_bytes``."""

    def __init__(self, clock: Clock, machine: Machine) -> None:
        self._clock = clock
        self._limit = machine.limit_bytes()
        self._gc_s = 0.0
        self._since: float | None = None

    def now(self) -> dict[str, float]:
        """The numbers of this moment."""
        times = os.times()
        return {
            "pid": float(os.getpid()),
            "cpu_s": times.user + times.system,
            "gc_ms": self._gc_s * 1000,
            "threads": float(threading.active_count()),
            "limit_bytes": float(self._limit),
        }

    def __enter__(self) -> ProcessFacts:
        gc.callbacks.append(self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        """Measure no more: the process may serve another job."""
        gc.callbacks.remove(self._note)

    def _note(self, phase: str, info: dict[str, int]) -> None:
        now = self._clock.monotonic()
        if phase == "start":
            self._since = now
        elif self._since is not None:
            self._gc_s += now - self._since
            self._since = None
