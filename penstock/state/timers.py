"""Timers of one operator: keyed state with an order.

A timer is identified by (time, key, namespace) within its time domain; registering it twice fires
it once, deleting a missing one does nothing.  The table is what snapshots see; the heap is an
index over it, rebuilt on restore, and may hold entries whose timer was deleted since.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any

from penstock.core.ids import MIN_TIME, EventTime
from penstock.state.table import EntryShape, Table

FireTimer = Callable[[EventTime, Any, Any], None]
"""Called with the timer's time, key and namespace."""
Timer = tuple[EventTime, Any, Any]


class TimerQueue:
    """Timers of one time domain, served in order of time. Ties have no defined order."""

    def __init__(self, table: Table) -> None:
        assert table.shape is EntryShape.TIMER
        self._table = table
        self._heap: list[tuple[int, int, Any, Any]] = []
        self._serial = 0
        self._deleted = 0
        self.firing: int | None = None
        """The time of the timer that is being fired."""
        self.rebuild()

    def rebuild(self) -> None:
        """Index what the table holds: after a restore, or when deleted entries pile up."""
        entries = self._table.entries()
        self._heap = [(time, n, key, namespace) for n, (time, key, namespace) in enumerate(entries)]
        self._serial = len(entries)
        self._deleted = 0
        heapq.heapify(self._heap)

    def register(self, time: int, key: Any, namespace: Any) -> None:
        """Add a timer unless it is there."""
        entry = (time, key, namespace)
        if entry in self._table:
            return
        self._table.put(entry, True)
        self._serial += 1
        heapq.heappush(self._heap, (time, self._serial, key, namespace))

    def delete(self, time: int, key: Any, namespace: Any) -> None:
        """Remove a timer if it is there."""
        entry = (time, key, namespace)
        if entry not in self._table:
            return
        self._table.remove(entry)
        self._deleted += 1
        if self._deleted > 1024 and 4 * self._deleted > 3 * len(self._heap):
            self.rebuild()

    def next_time(self) -> int | None:
        """The earliest time a timer may be due at; an early bound if that one was deleted."""
        return self._heap[0][0] if self._heap else None

    def due(self, time: int) -> Iterator[Timer]:
        """All timers at or before ``time``, also those registered meanwhile; each is removed when given."""
        while self._heap and self._heap[0][0] <= time:
            at, _, key, namespace = heapq.heappop(self._heap)
            entry = (EventTime(at), key, namespace)
            if entry in self._table:
                self._table.remove(entry)
                self.firing = at
                yield entry
            elif self._deleted:
                self._deleted -= 1
        self.firing = None

    def fire_until(self, time: int, fire: FireTimer) -> None:
        """Fire all timers at or before ``time``, also those registered by ``fire`` itself."""
        for at, key, namespace in self.due(time):
            fire(at, key, namespace)

    def fire_each_once(self, fire: FireTimer) -> None:
        """Fire the timers that are there now, in order of time; those registered meanwhile stay."""
        for due, key, namespace in sorted(self._table.entries(), key=lambda entry: entry[0]):
            if (due, key, namespace) in self._table:
                self.delete(due, key, namespace)
                self.firing = due
                fire(EventTime(due), key, namespace)
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
