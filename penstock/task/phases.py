"""What a task is doing, and how it spends its time."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """Each ends in the next."""

    RUNNING = "reading input"
    FINISHED = "input has ended and all is flushed; answering snapshots until told to leave"
    CLOSED = "resources are released"


class TimeShares:
    """Told at the begin and at the end of each step; what is between two steps was waiting."""

    __slots__ = ("_blocked_s", "_busy_s", "_idle_s", "_measured_to", "was_blocked")

    def __init__(self, now: float) -> None:
        self._measured_to = now
        self._busy_s = self._blocked_s = self._idle_s = 0.0
        self.was_blocked = False
        """Whether the last step found the outputs full."""

    def begin(self, now: float) -> None:
        """A step begins."""
        if self.was_blocked:
            self._blocked_s += now - self._measured_to
        else:
            self._idle_s += now - self._measured_to
        self._measured_to = now

    def worked(self, now: float) -> None:
        """The step that began has done something, and ends."""
        self._busy_s += now - self._measured_to
        self._measured_to = now

    def blocked_ms(self) -> int:
        """How long the outputs were full, in all."""
        return int(self._blocked_s * 1000)

    def milliseconds(self) -> dict[str, float]:
        """All three, by the names of their metrics."""
        return {
            "busyTimeMs": self._busy_s * 1000,
            "backPressuredTimeMs": self._blocked_s * 1000,
            "idleTimeMs": self._idle_s * 1000,
        }
