"""Sessions by event time with the default trigger: the open ones at hand, their windows stored when needed.

Almost every record falls into, or a little behind, the one open session of its key.  So open sessions are
kept beside the tables, a record only moves a bound, and contents are added to once a batch.  The tables learn
of moved bounds, and timers follow, when an old end is reached, when the general path takes over, and before
each snapshot: not with each record.  The timer of an old end that finds its session grown goes on to the new
one.

What is stored is what the general path stores, and so are contents and their order: either path can go on
from what the other left.  Taken only where no record fires a window, which is asked for each batch; late
records are set aside in order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
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


_MOST_OPEN = 1 << 16
"""Keys whose sessions are kept at hand; beyond it all are stored and read again."""


class _Session:
    """An open window of one key."""

    __slots__ = ("added", "armed", "end", "start", "state", "touched", "was")

    def __init__(self, start: int, end: int, state: TimeWindow, was: list[TimeWindow]) -> None:
        self.start = start
        self.end = end
        self.state = state
        """The window that its contents are under."""
        self.was = was
        """The windows that are stored for it: itself, or those it has grown from, or none yet."""
        self.touched = False
        """Whether a record has come since it was stored."""
        self.armed = False
        """Whether a timer is known to wait at the end of what is stored: one that was read may have fired."""
        self.added: list[Any] = []
        """Records of this batch that are not in the contents yet."""


_start = attrgetter("start")


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
        self._open: dict[Any, list[_Session]] = {}
        """The sessions of a key by their start; no two of them touch."""
        self._dirty: dict[Any, None] = {}
        """Keys with touched sessions."""
        ctx.keyed.before_freeze.append(self._store_all)

    # -- elements -------------------------------------------------------------------------------

    def accepts(self, batch: Batch) -> bool:
        """Whether no record can fire a window: its own one has not ended, or then it is too late."""
        if not self._lateness:
            return True
        first = MIN_TIME if batch.times is None else int(batch.times.min())
        if first + (self._gap or 1) - 1 > self._timers.watermark:
            return True
        self._store_all()
        self._open.clear()
        return False

    def process(self, batch: Batch, keys: Iterable[Any]) -> None:
        """Add the records; ``keys`` gives at least one key per record."""
        rows, times = batch.to_rows(), batch.time_list()
        ends = self._ends(rows, times)
        open_, horizon = self._open, self._horizon()
        grown: list[tuple[Any, _Session]] = []
        for value, key, start, end in zip(rows, keys, times, ends, strict=False):
            sessions = open_.get(key)
            if sessions is None:
                sessions = self._load(key)
            if sessions:
                # None of the others, which are all earlier, reaches up to this one.
                session = sessions[-1]
                if session.start <= start <= session.end and session.end - 1 > horizon:
                    if end > session.end:
                        session.end = end
                    if not session.added:
                        grown.append((key, session))
                    session.added.append(value)
                    continue
            found = self._place(key, value, start, end)
            if found is not None:
                grown.append((key, found))
        self._add(grown)
        if len(open_) > _MOST_OPEN:
            self._store_all()
            open_.clear()

    def _ends(self, rows: list[Any], times: list[int]) -> list[int]:
        """Where the window of each record would end if it were alone."""
        gap, gap_of = self._gap, self._assigner.gap_of
        if gap is not None:
            return [time + gap for time in times]
        ends = []
        for value, time in zip(rows, times, strict=True):
            try:
                ends.append(time + gap_of(value))
            except BaseException:
                self._contents.failed = value
                raise
        return ends

    def _horizon(self) -> int:
        """Windows whose last time is not behind it are late; behind the end of time there is nothing."""
        watermark = self._timers.watermark
        return 2 * MAX_TIME if watermark == MAX_TIME else watermark - self._lateness

    def _place(self, key: Any, value: Any, start: int, end: int) -> _Session | None:
        """A record that is late, opens a session or joins some; gives that, if this is its first record."""
        sessions, horizon = self._open[key], self._horizon()
        touched = [each for each in sessions if each.start <= end and each.end >= start]
        if any(each.end - 1 <= horizon for each in touched):
            self._leave(key)  # left by a job with more lateness: not worth a shorter way
            self._scope.key = key
            self._one_by_one(value, key, start)
            return None
        if not touched:
            if end - 1 <= horizon:
                self._gathered.late(value, start)
                return None
            session = _Session(start, end, TimeWindow(start, end), [])
            sessions.append(session)
            sessions.sort(key=_start)
        else:
            session = touched[0] if len(touched) == 1 else self._joined(key, sessions, touched)
            session.start = min(start, session.start)
            session.end = max(end, session.end)
        session.added.append(value)
        return session if len(session.added) == 1 else None

    def _joined(self, key: Any, sessions: list[_Session], touched: list[_Session]) -> _Session:
        """Several sessions as one: the contents of the later ones move to those of the first."""
        first, *others = touched
        for session in touched:
            self._add_contents(key, session)
        self._contents.merge((key, first.state), [(key, session.state) for session in others])
        for session in others:
            sessions.remove(session)
            first.was += session.was
            first.end = max(first.end, session.end)
        return first

    def _add(self, grown: Iterable[tuple[Any, _Session]]) -> None:
        """Bring records to the contents; a session for which maybe no timer waits is stored at once."""
        unarmed = []
        for key, session in grown:
            if session.added:
                self._add_contents(key, session)
                session.touched = True
                self._dirty[key] = None
                if not session.armed:
                    unarmed.append(key)
        for key in unarmed:
            self._store(key)

    def _add_contents(self, key: Any, session: _Session) -> None:
        if session.added:
            self._scope.key = key
            self._scope.namespace = session.state
            self._contents.add_all((key, session.state), session.added)
            session.added = []

    # -- what is stored -------------------------------------------------------------------------

    def _load(self, key: Any) -> list[_Session]:
        stored = self._windows.peek(key) or {}
        sessions = [_Session(w.start, w.end, state, [w]) for w, state in sorted(stored.items())]
        self._open[key] = sessions
        return sessions

    def _store_all(self) -> None:
        for key in list(self._dirty):
            self._store(key)

    def _leave(self, key: Any) -> None:
        """Have the tables say all that is known of a key: the general path goes on with it."""
        self._add((key, session) for session in self._open.get(key, ()))
        self._store(key)
        self._open.pop(key, None)

    def _store(self, key: Any) -> None:
        """Bring windows and timers of a key to what its records have made of them."""
        self._dirty.pop(key, None)
        touched = [session for session in self._open.get(key, ()) if session.touched]
        if not touched:
            return
        register, lateness = self._timers.event.register, self._lateness
        mapping: dict[TimeWindow, TimeWindow] = self._windows.own(key) or {}
        for session in touched:
            window, was = TimeWindow(session.start, session.end), session.was
            session.touched = False
            if session.armed and was == [window]:
                continue  # its timers wait, or are being fired
            session.armed = True
            if was != [window]:
                session.was = [window]
                for old in was:
                    del mapping[old]
                    if old != window:
                        self._delete_timers(key, old)
                mapping[window] = session.state
            end = window.max_timestamp()
            register(end, key, window)
            if lateness and end + lateness < MAX_TIME:
                register(end + lateness, key, window)
        self._windows.put(key, mapping)

    def _delete_timers(self, key: Any, window: TimeWindow) -> None:
        end = window.max_timestamp()
        self._timers.event.delete(end, key, window)
        if self._lateness:
            self._timers.event.delete(min(end + self._lateness, MAX_TIME), key, window)

    def forget(self) -> None:
        """All keys are complete and forgotten."""
        self._open.clear()
        self._dirty.clear()

    # -- timers ---------------------------------------------------------------------------------

    def takes(self, time: EventTime, key: Any, window: TimeWindow) -> bool:
        """Whether a timer is for :meth:`fire`: the end of a window that is then forgotten."""
        if not self._lateness and time == window.max_timestamp():
            return True
        self._leave(key)
        return False

    def fire(self, time: EventTime, key: Any, window: TimeWindow) -> None:
        """The session is over: evaluate it and forget it; unless it has grown, or joined another."""
        sessions = self._open.get(key) or self._load(key)
        session = next((each for each in sessions if window in each.was), None)
        if session is None or (session.start, session.end) != window:
            self._store(key)
            return
        scope = self._scope
        scope.key = key
        scope.namespace = window
        sessions.remove(session)
        if sessions:
            mapping = self._windows.own(key)
            del mapping[window]
            self._windows.put(key, mapping)
        else:
            del self._open[key]
            self._dirty.pop(key, None)
            self._windows.remove(key)
        values = self._contents.take((key, session.state), overlapping=False)
        if values is not None:
            self._body.emit(self._gathered, key, window, values)
        self._body.clear()
