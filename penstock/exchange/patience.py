"""How long a greeting may take in all, however many small steps it has."""

from __future__ import annotations

from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import TransportError


class Patience:
    """Runs out once, for everything that is done with it."""

    def __init__(self, seconds: float, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._end = self._clock.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left; raises :class:`TransportError` if there are none."""
        left = self._end - self._clock.monotonic()
        if left <= 0:
            raise TransportError("the peer takes too long to say who it is")
        return left
