"""Between which times the records of a subtask lay from one barrier to the next: Spark's ``eventTime``.

Only where watermarks are made of them.  Told by the metrics that go with every snapshot.
"""

from __future__ import annotations

import numpy as np

from penstock.core.batch import Times
from penstock.core.ids import MAX_TIME, MIN_TIME
from penstock.core.metrics import (
    EVENT_TIME_COUNT,
    EVENT_TIME_MAX,
    EVENT_TIME_MIN,
    EVENT_TIME_SUM,
    MetricGroup,
)

_MOST, _FAR = 1 << 20, 1 << 42


class EventTimes:
    """Of one step. Used by the task's own thread alone."""

    def __init__(self, metrics: MetricGroup) -> None:
        self._told: dict[str, float] = {}
        self._begin()
        for name in (EVENT_TIME_MIN, EVENT_TIME_MAX, EVENT_TIME_SUM, EVENT_TIME_COUNT):
            metrics.gauge(name, lambda name=name: self._told.get(name))  # type: ignore[misc]

    def _begin(self) -> None:
        self._lowest, self._highest = int(MAX_TIME), int(MIN_TIME)
        self._sum = 0.0
        self._count = 0

    def saw(self, times: Times | None) -> None:
        """Records pass. Where one of them has no time, nothing is said of them."""
        if times is None or not len(times):
            return
        lowest = int(times.min())
        if lowest <= MIN_TIME:
            return
        highest = int(times.max())
        self._lowest = min(self._lowest, lowest)
        self._highest = max(self._highest, highest)
        # Whole numbers are added four times as fast, but must not overflow.
        whole = len(times) <= _MOST and lowest > -_FAR and highest < _FAR
        self._sum += float(times.sum() if whole else np.add.reduce(times, dtype=np.float64))
        self._count += len(times)

    def barrier(self) -> None:
        """A snapshot is taken: what it tells is what came since the one before."""
        names = (EVENT_TIME_MIN, EVENT_TIME_MAX, EVENT_TIME_SUM, EVENT_TIME_COUNT)
        values = (self._lowest, self._highest, self._sum, self._count)
        self._told = dict(zip(names, values, strict=True)) if self._count else {}
        self._begin()
