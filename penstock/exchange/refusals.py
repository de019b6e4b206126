"""Who was not let in, for the log: each cause at once, a flood of them as a count."""

from __future__ import annotations

import logging
import threading

from penstock.core.clock import Clock, SystemClock

_log = logging.getLogger("penstock")
_QUIET_S = 10.0
"""How long further refusals are only counted."""


class Refusals:
    """What a door says of those it sent away; from any thread."""

    def __init__(self, name: str, clock: Clock | None = None) -> None:
        self._name = name
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._next = float("-inf")
        self._untold = 0

    def note(self, peer: str, error: Exception) -> None:
        """Log a refusal, and how many were not logged before it."""
        with self._lock:
            now = self._clock.monotonic()
            if now < self._next:
                self._untold += 1
                return
            self._next = now + _QUIET_S
            untold, self._untold = self._untold, 0
        more = f" ({untold} more since the last such line)" if untold else ""
        _log.warning("%s: a caller from %s was not let in: %s%s", self._name, peer, error, more)
