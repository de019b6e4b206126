"""Timers of one operator, and a queue of them for any table.

The table is what snapshots see; the queue is an index over it in memory, rebuilt on restore, and may hold
entries whose timer was deleted since.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from penstock.core.ids import MIN_TIME, EventTime
from penstock.state.backend import Timer, TimerQueue


class IndexedTimerQueue(TimerQueue):
    """The order of a table's timers as a heap in memory."""

    def rebuild(self) -> None:
        entries = self.table.entries()
        self._heap = [(time, n, key, namespace) for n, (time, key, namespace) in enumerate(entries)]
        self._serial = len(entries)
        self._deleted = 0
        heapq.heapify(self._heap)

    def register(self, time: int, key: Any, namespace: Any) -> None:
        entry = (time, key, namespace)
        if entry in self.table:
            return
        self.table.put(entry, True)
        self._serial += 1
        heapq.heappush(self._heap, (time, self._serial, key, namespace))

    def delete(self, time: int, key: Any, namespace: Any) -> None:
        entry = (time, key, namespace)
        if entry not in self.table:
            return
        self.table.remove(entry)
        self._deleted += 1
        if self._deleted > 1024 and 4 * self._deleted > 3 * len(self._heap):
            self.rebuild()

    def next_time(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def due(self, time: int) -> Iterator[Timer]:
        while self._heap and self._heap[0][0] <= time:
            at, _, key, namespace = heapq.heappop(self._heap)
            entry = (EventTime(at), key, namespace)
            if entry in self.table:
                self.table.remove(entry)
                self.firing = at
                yield entry
            elif self._deleted:
                self._deleted -= 1
        self.firing = None


class Timers:
    """Both queues of an operator and its view of time."""

    def __init__(self, event: TimerQueue, processing: TimerQueue) -> None:
        self.event = event
        self.processing = processing
        self.watermark: EventTime = MIN_TIME

    def clear(self) -> None:
        """Index the tables, which were emptied, and begin event time anew."""
        self.event.rebuild()
        self.processing.rebuild()
        self.watermark = MIN_TIME

    @property
    def now(self) -> int:
        """Event time as a function sees it: that of the timer being fired, else the watermark."""
        firing = self.event.firing
        return self.watermark if firing is None else firing
