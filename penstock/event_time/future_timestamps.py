"""Timestamps from the future: which records may move event time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.core.batch import Times

BELIEVED_AFTER = 32
"""So many records in a row that are all ahead are no mistake."""


class AheadGuard:
    """Tells, for one split, the records whose timestamps are too good to be true.

    A record is *ahead* if it lies more than ``max_ahead`` beyond the largest timestamp believed so far,
    plus the time that has passed on the clock since; before the first one, beyond the clock itself.  So a
    live stream may be silent all night, and a broken clock does not end the day.  Where stored data has
    a gap longer than that, :data:`BELIEVED_AFTER` records in a row are ahead, and then the gap is
    believed: event time goes on from the earliest of them.
    """

    __slots__ = ("_earliest", "_latest", "_max_ahead", "_moved_ms", "_run")

    def __init__(self, max_ahead_ms: int) -> None:
        self._max_ahead = max_ahead_ms
        self._latest: int | None = None
        self._moved_ms = 0
        self._run = 0
        self._earliest = 0

    def believed(self, times: Times, now_ms: int) -> npt.NDArray[np.bool_] | None:
        """Which of these records may move event time; ``None`` means all."""
        largest = int(times.max())
        if largest > self._limit(now_ms):
            return np.array([self._believe(time, now_ms) for time in times.tolist()])
        self._accept(largest, now_ms)
        return None

    def _limit(self, now_ms: int) -> int:
        if self._latest is None:
            return now_ms + self._max_ahead
        return self._latest + self._max_ahead + max(0, now_ms - self._moved_ms)

    def _believe(self, time: int, now_ms: int) -> bool:
        if time > self._limit(now_ms):
            self._earliest = time if self._run == 0 else min(self._earliest, time)
            self._run += 1
            if self._run < BELIEVED_AFTER:
                return False
            self._accept(self._earliest, now_ms)
            if time > self._limit(now_ms):
                return False
        self._accept(time, now_ms)
        return True

    def _accept(self, time: int, now_ms: int) -> None:
        self._run = 0
        if self._latest is None or time > self._latest:
            self._latest, self._moved_ms = time, now_ms
