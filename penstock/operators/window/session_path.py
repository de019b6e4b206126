"""Sessions by event time with the default trigger, a batch at a time: one state access per key and session.

The records of a batch are taken key by key, each key's in order of arrival.  What a record does to the
windows of its key is noted; contents, windows and timers follow when the key's records are through, and
before windows merge.  Only windows that were or will be stored are ever seen by the tables: those that a batch
makes and outgrows again are not.

State and timers are those of the general path, and so are contents and their order: either path can go on
from what the other left.  Taken only where no record fires a window, which is asked for each batch; late
records are set aside in order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock.core.batch import Batch
from penstock.core.ids import MAX_TIME, MIN_TIME, EventTime
from penstock.operators.operator import OperatorContext
from penstock.operators.outflow import Gathered
from penstock.operators.window.assigners import WindowAssigner
from penstock.operators.window.function_adapters import WindowBody
from penstock.operators.window.sessions import DynamicEventTimeSessionWindows, EventTimeSessionWindows
from penstock.operators.window.triggers import EventTimeTrigger, Trigger
from penstock.operators.window.window_state import WindowContents
from penstock.operators.window.windows import TimeWindow
from penstock.state.backend import Table

EventTimeSessions = EventTimeSessionWindows[Any] | DynamicEventTimeSessionWindows[Any]
OneByOne = Callable[[Any, Any, int], None]
"""The general path: takes value, key and time."""


def session_assigner(
    assigner: WindowAssigner[Any, Any], trigger: Trigger[Any, Any]
) -> EventTimeSessions | None:
    """The assigner, if this path may serve it; subclasses may differ and are left out."""
    if type(trigger) is not EventTimeTrigger:
        return None
    if type(assigner) is EventTimeSessionWindows or type(assigner) is DynamicEventTimeSessionWindows:
        return assigner
    return None


class _Session:
    """A window of one key while a batch is added."""

    __slots__ = ("added", "end", "start", "state", "was")

    def __init__(self, start: int, end: int, state: TimeWindow, was: list[TimeWindow]) -> None:
        self.start = start
        self.end = end
        self.state = state
        self.was = was
        """The stored windows that it is made of."""
        self.added: list[Any] = []
        """Records that are not in the contents yet; none if it was not touched."""


class SessionPath:
    """Adds batches to sessions and fires them; made by the operator in ``open``."""

    def __init__(
        self,
        ctx: OperatorContext,
        assigner: EventTimeSessions,
        contents: WindowContents,
        body: WindowBody,
        gathered: Gathered,
        lateness: int,
        windows: Table,
        one_by_one: OneByOne,
    ) -> None:
        self._timers = ctx.timers
        self._scope = ctx.keyed.scope
        self._assigner = assigner
        self._gap = assigner.gap if isinstance(assigner, EventTimeSessionWindows) else None
        self._contents = contents
        self._body = body
        self._gathered = gathered
        self._lateness = lateness
        self._windows = windows
        self._one_by_one = one_by_one

    # -- elements -------------------------------------------------------------------------------

    def accepts(self, batch: Batch) -> bool:
        """Whether no record can fire a window: its own one has not ended, or then it is too late."""
        if not self._lateness:
            return True
        first = MIN_TIME if batch.times is None else int(batch.times.min())
        return first + (self._gap or 1) - 1 > self._timers.watermark

    def process(self, batch: Batch, keys: Iterable[Any]) -> None:
        """Add the records; ``keys`` gives at least one key per record."""
        rows, times = batch.to_rows(), batch.time_list()
        by_key: dict[Any, list[int]] = {}
        for at, key in zip(range(len(rows)), keys, strict=False):
            found = by_key.get(key)
            if found is None:
                by_key[key] = [at]
            else:
                found.append(at)
        late: list[int] = []
        for key, places in by_key.items():
            self._scope.key = key
            self._add(key, places, rows, times, late)
        for at in sorted(late):
            self._gathered.late(rows[at], times[at])

    def _add(self, key: Any, places: list[int], rows: list[Any], times: list[int], late: list[int]) -> None:
        """The records of one key, which are at ``places``."""
        horizon = self._horizon()
        mapping: dict[TimeWindow, TimeWindow] = self._windows.own(key) or {}
        sessions = [_Session(*window, state, [window]) for window, state in mapping.items()]
        for session in sessions:
            if session.end - 1 <= horizon:
                # Left by a job with more lateness: nothing that is worth a shorter way.
                for at in places:
                    self._one_by_one(rows[at], key, times[at])
                return
        gap, of_row = self._gap, self._assigner.gap_of
        for at in places:
            value, start = rows[at], times[at]
            try:
                end = start + (of_row(value) if gap is None else gap)
            except BaseException:
                self._contents.failed = value
                raise
            touched = [each for each in sessions if each.start <= end and each.end >= start]
            if touched:
                session = touched[0] if len(touched) == 1 else self._joined(key, sessions, touched)
                if start < session.start:
                    session.start = start
                if end > session.end:
                    session.end = end
            elif end - 1 <= horizon:
                late.append(at)
                continue
            else:
                session = _Session(start, end, TimeWindow(start, end), [])
                sessions.append(session)
            session.added.append(value)
        self._store(key, mapping, sessions)

    def _horizon(self) -> int:
        """Windows whose last time is not behind it are late; behind the end of time there is nothing."""
        watermark = self._timers.watermark
        return 2 * MAX_TIME if watermark == MAX_TIME else watermark - self._lateness

    def _joined(self, key: Any, sessions: list[_Session], touched: list[_Session]) -> _Session:
        """Several sessions as one: the contents of the later ones move to those of the first."""
        touched.sort(key=lambda session: session.start)
        first, *others = touched
        for session in touched:
            self._store_added(key, session)
        self._contents.merge((key, first.state), [(key, session.state) for session in others])
        for session in others:
            sessions.remove(session)
            first.was += session.was
            first.end = max(first.end, session.end)
        return first

    def _store(self, key: Any, mapping: dict[TimeWindow, TimeWindow], sessions: list[_Session]) -> None:
        """Bring contents, windows and timers to what the records have made of them."""
        timers, lateness, changed = self._timers.event, self._lateness, False
        for session in sessions:
            if not session.added:
                continue
            self._store_added(key, session)
            window, was = TimeWindow(session.start, session.end), session.was
            if was != [window]:
                changed = True
                for old in was:
                    del mapping[old]
                mapping[window] = session.state
                for old in was:
                    if old != window:
                        self._delete_timers(key, old)
            end = window.max_timestamp()
            timers.register(end, key, window)
            if lateness and end + lateness < MAX_TIME:
                timers.register(end + lateness, key, window)
        if changed:
            self._windows.put(key, mapping)

    def _store_added(self, key: Any, session: _Session) -> None:
        if session.added:
            self._scope.namespace = session.state
            self._contents.add_all((key, session.state), session.added)
            session.added = []

    def _delete_timers(self, key: Any, window: TimeWindow) -> None:
        end = window.max_timestamp()
        self._timers.event.delete(end, key, window)
        if self._lateness:
            self._timers.event.delete(min(end + self._lateness, MAX_TIME), key, window)

    # -- timers ---------------------------------------------------------------------------------

    def fires(self, time: EventTime, window: TimeWindow) -> bool:
        """Whether a timer is for :meth:`fire`: the end of a window that is then forgotten."""
        return not self._lateness and time == window.max_timestamp()

    def fire(self, time: EventTime, key: Any, window: TimeWindow) -> None:
        """The session is over: evaluate it and forget it."""
        mapping = self._windows.own(key)
        state_window = None if mapping is None else mapping.get(window)
        if state_window is None:
            return  # merged into another window since
        scope = self._scope
        scope.key = key
        scope.namespace = window
        values = self._contents.take((key, state_window), overlapping=False)
        if values is not None:
            self._body.emit(self._gathered, key, window, values)
        self._body.clear()
        if len(mapping) == 1:
            self._windows.remove(key)
        else:
            del mapping[window]
            self._windows.put(key, mapping)
