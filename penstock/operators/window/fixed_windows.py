"""The common case without ceremony: event-time windows of fixed size, default trigger, no lateness.

Here nothing fires while elements come in (an element whose window has ended is late), so a batch
only goes into the contents, and the first element of each key and window registers the one timer
that emits and forgets the window.  State and timers are exactly those of the general path: either
path can go on from the other's snapshot, and a test holds their outputs against each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.core.batch import Batch
from penstock.core.ids import MAX_TIME, MIN_TIME, EventTime
from penstock.operators.operator import OperatorContext
from penstock.operators.outflow import Gathered
from penstock.operators.window.assigners import (
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from penstock.operators.window.function_adapters import WindowBody
from penstock.operators.window.triggers import no_timestamp
from penstock.operators.window.window_state import WindowContents
from penstock.operators.window.windows import TimeWindow, Window

_CACHED_WINDOWS = 4096

FixedWindows = TumblingEventTimeWindows[Any] | SlidingEventTimeWindows[Any]


class WindowCache(dict[int, TimeWindow]):
    """One window object per start, shared by all keys."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def __missing__(self, start: int) -> TimeWindow:
        if len(self) >= _CACHED_WINDOWS:
            self.clear()
        window = self[start] = TimeWindow(start, start + self._size)
        return window


def fixed_assigner(assigner: WindowAssigner[Any, Any]) -> FixedWindows | None:
    """The assigner if the fast path may serve it; subclasses may differ and are left out."""
    if type(assigner) is TumblingEventTimeWindows:
        return assigner
    if type(assigner) is SlidingEventTimeWindows and assigner.size % assigner.slide == 0:
        return assigner
    return None


class FastPath:
    """Adds batches to windows and fires them; made by the operator in ``open``."""

    def __init__(
        self,
        ctx: OperatorContext,
        assigner: FixedWindows,
        contents: WindowContents,
        body: WindowBody,
        gathered: Gathered,
    ) -> None:
        self._size = assigner.size
        self._slide = assigner.slide
        self._offset = assigner.offset
        self._timers = ctx.timers
        self._scope = ctx.keyed.scope
        self._contents = contents
        self._body = body
        self._gathered = gathered
        self._windows = WindowCache(assigner.size)

    def accepts(self, batch: Batch) -> bool:
        """Whether no window of the batch would reach beyond 64 bits."""
        times = batch.times
        return times is None or int(times.max()) < MAX_TIME - self._size

    def process(self, batch: Batch, keys: Iterable[Any]) -> None:
        """Add the records; ``keys`` gives at least one key per record."""
        times = batch.times
        rows = batch.to_rows()
        if times is None or int(times.min()) == MIN_TIME:
            self._contents.failed = rows[0 if times is None else int(times.argmin())]
            raise no_timestamp()
        starts = times - (times - self._offset) % self._slide
        first, last = int(starts.min()), int(starts.max())
        if self._slide == self._size and first + self._size - 1 > self._timers.watermark:
            if first == last:
                self._add(rows, keys, self._windows[first], times.tolist())
            else:
                windows = self._windows
                self._add(rows, keys, [windows[start] for start in starts.tolist()], times.tolist())
        else:
            self._process_mixed(rows, keys, starts.tolist(), times.tolist())

    def _process_mixed(
        self, rows: list[Any], keys: Iterable[Any], starts: list[int], times: list[int]
    ) -> None:
        """Records that have several windows each, or none because they are late."""
        live: dict[int, list[TimeWindow]] = {}
        share, of_each = self._contents.share, self._size // self._slide
        flat_rows: list[Any] = []
        flat_keys: list[Any] = []
        flat_windows: list[Window] = []
        flat_times: list[int] = []
        for value, key, start, time in zip(rows, keys, starts, times, strict=False):
            windows = live.get(start)
            if windows is None:
                windows = live[start] = self._live_windows(start)
            if not windows:
                self._gathered.late(value, time)
            # One that is in windows that have ended, too, is theirs.
            last = windows[-1] if len(windows) == of_each else None
            for window in windows:
                flat_rows.append(value if window is last else share(value))
                flat_keys.append(key)
                flat_windows.append(window)
                flat_times.append(time)
        self._add(flat_rows, flat_keys, flat_windows, flat_times)

    def _add(
        self, rows: list[Any], keys: Iterable[Any], windows: Window | list[Window], times: list[int]
    ) -> None:
        """Add records to windows that have not ended: one for each record, or one for all."""
        self._contents.add_many(rows, keys, windows, self._on_new)

    def _live_windows(self, last_start: int) -> list[TimeWindow]:
        """The windows of records whose latest window starts there, without those that have ended."""
        starts = range(last_start, last_start - self._size, -self._slide)
        horizon = self._timers.watermark - self._size + 1
        return [self._windows[start] for start in starts if start > horizon]

    def _on_new(self, key: Any, window: Any) -> None:
        self._timers.event.register(window.end - 1, key, window)

    def takes(self, time: EventTime, key: Any, window: TimeWindow) -> bool:
        """Whether a timer is for :meth:`fire`: all are."""
        return True

    def fire(self, time: EventTime, key: Any, window: TimeWindow) -> None:
        """A timer is due.

        Timers at other times than the window's end come from a snapshot of a job that had another
        trigger or lateness; after the end they only clean up.
        """
        end = window.max_timestamp()
        if time < end:
            return
        values = self._contents.take((key, window), self._slide < self._size)
        scope = self._scope
        scope.key = key
        scope.namespace = window
        if values is not None and time == end:
            self._body.emit(self._gathered, key, window, values)
        self._body.clear()
