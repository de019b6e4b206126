"""Overlapping windows over shared panes: the row aggregate whose cost does not grow with size / slide.

Time is cut into panes (see ``penstock.operators.columnar.panes``), each as wide as the greatest common
divisor of size and slide.  An element is added to one accumulator, that of its key and pane; a window
that fires merges the accumulators of its panes.  ``Running`` makes that about two merges a firing.

Timers: each key has one, for its next window that holds a pane; firing it registers the next.  A new
pane registers the first of its windows that has not ended, in case the key had none.

Only for ``AggregateFunction``, whose ``merge`` says how accumulators join: panes are merged in the order
of time, not of arrival, which a plain reduce function might tell apart.  Windows found in a snapshot of
the general path are joined in when they fire.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from penstock.core.batch import Batch
from penstock.core.copying import copied
from penstock.core.error_codes import Code
from penstock.core.errors import SnapshotError
from penstock.core.ids import MAX_TIME, MIN_TIME, EventTime
from penstock.operators.columnar.panes import Panes
from penstock.operators.operator import OperatorContext
from penstock.operators.outflow import Gathered
from penstock.operators.window.assigners import SlidingEventTimeWindows, WindowAssigner
from penstock.operators.window.fixed_windows import WindowCache
from penstock.operators.window.function_adapters import WindowBody
from penstock.operators.window.running import NOTHING, Running
from penstock.operators.window.triggers import EventTimeTrigger, Trigger, no_timestamp
from penstock.operators.window.window_state import AggregateContents, WindowContents
from penstock.operators.window.windows import TimeWindow, Window
from penstock.state.backend import EntryShape, Table

PANES_TABLE = "_window/panes"
_SAMPLE = 100
"""Timers of a snapshot that are looked at for the windows they belong to: they are of one kind."""
_MOST_KEPT = 1 << 22
"""About how many merged accumulators are kept at hand; beyond it all are forgotten and made again."""


def shared_panes(
    assigner: WindowAssigner[Any, Any], trigger: Trigger[Any, Any], contents: WindowContents
) -> Panes | None:
    """The panes, if windows of this kind share them; subclasses may differ and are left out."""
    if type(assigner) is not SlidingEventTimeWindows or type(trigger) is not EventTimeTrigger:
        return None
    if type(contents) is not AggregateContents or assigner.slide >= assigner.size:
        return None
    return Panes(assigner.size, assigner.slide, assigner.offset)


def check_restored(ctx: OperatorContext, panes: Panes | None) -> None:
    """Refuse panes of a snapshot that the windows of now are not made of."""
    found = ctx.keyed.table(PANES_TABLE, EntryShape.NAMESPACED).any_entry()
    if found is not None and (panes is None or not _is_one_of(panes, found[1])):
        raise _refused()


def _refused() -> SnapshotError:
    return SnapshotError(
        "the snapshot holds sliding windows as shared panes, which windows with another size, slide, "
        "offset or trigger cannot be made of; restore with the windows of then, or give the step another "
        "uid to start it empty",
        code=Code.STATE_CHANGED,
    )


def _is_one_of(panes: Panes, found: Any) -> bool:
    width: int = found.end - found.start
    return width == panes.width and panes.pane_of(found.start) == found.start


def _ends(windows: list[TimeWindow], pane: TimeWindow) -> list[int]:
    """The last timestamps of those that hold the pane."""
    return [window.max_timestamp() for window in windows if window.start <= pane.start < window.end]


class SharedPanes:
    """Adds batches to panes and fires windows; made by the operator in ``open``."""

    def __init__(
        self,
        ctx: OperatorContext,
        panes: Panes,
        contents: AggregateContents,
        body: WindowBody,
        gathered: Gathered,
        lateness: int,
    ) -> None:
        self._timers = ctx.timers
        self._scope = ctx.keyed.scope
        self._panes = panes
        self._slide = panes.slide
        self._width = panes.width
        self._overlap = panes.size - panes.slide
        self._windows = WindowCache(panes.size)
        self._pane_spans = WindowCache(panes.width)
        self._contents = contents
        self._table: Table = ctx.keyed.table(PANES_TABLE, EntryShape.NAMESPACED)
        self._in_panes = contents.on(self._table)
        self._body = body
        self._gathered = gathered
        self._lateness = lateness
        self._has_older = contents.is_used
        self._running: dict[Any, Running] = {}
        self._most_keys = _MOST_KEPT // panes.per_window
        self._shown_to: int = MIN_TIME
        """Windows that end up to there may have fired before a restore, whatever the watermark is."""
        if self._table.any_entry() is not None:
            self._settle_timers()
            self._look_back()

    # -- a snapshot of another size -------------------------------------------------------------

    def _settle_timers(self) -> None:
        """Replace timers of windows of another size, which the panes of a snapshot were made for.

        A pane goes on where it was: behind the windows that had ended before its next one of then.
        """
        event, size, slide = self._timers.event, self._panes.size, self._slide
        some = [window for _, _, window in event.table.some_entries(_SAMPLE)]
        if not all(self._panes.is_start(window.start) for window in some):
            raise _refused()
        if all(window.end - window.start == size for window in some):
            return
        to_fire: defaultdict[Any, list[TimeWindow]] = defaultdict(list)
        fired: defaultdict[Any, list[TimeWindow]] = defaultdict(list)
        for time, key, window in event.table.entries():
            if self._has_older and self._contents.stored((key, window)) is not NOTHING:
                continue  # what is stored for that window alone is shown at its own end
            event.delete(time, key, window)
            if time == window.max_timestamp():
                to_fire[key].append(window)
            else:
                fired[key].append(window)
                self._scope.key, self._scope.namespace = key, window
                self._body.clear()
        for key, pane in self._table.entries():
            if _ends(to_fire[key], pane):  # none has fired that ends behind the first that waits
                ended = min(window.max_timestamp() for window in to_fire[key]) - slide
            else:
                ended = max(_ends(fired[key], pane), default=MIN_TIME)
            self._arm(key, pane, ended)

    def _arm(self, key: Any, pane: TimeWindow, ended: int) -> None:
        """Register the first window of a pane that ends after that, or its cleanup if there is none."""
        starts, end = self._panes.windows_of(pane.start), self._panes.max_time
        after = [start for start in starts if end(start) > ended]
        if after:
            self._timers.event.register(end(after[0]), key, self._windows[after[0]])
        else:
            cleanup = min(end(starts[-1]) + max(1, self._lateness), MAX_TIME)
            self._timers.event.register(cleanup, key, self._windows[starts[-1]])

    # -- what has fired before a restore --------------------------------------------------------

    def _look_back(self) -> None:
        """See from timers how far event time had come, if windows that have fired can fire again."""
        if self._lateness:
            found = self._timers.event.table.entries()
            ends = (window.max_timestamp() for time, _, window in found if time > window.max_timestamp())
            self._shown_to = max(ends, default=MIN_TIME)

    def _was_shown(self, key: Any, start: int) -> bool:
        """Whether a window that has not ended since a restore fired for the key before: its cleanup waits."""
        if self._panes.max_time(start) > self._shown_to:
            return False
        cleanup = self._panes.cleanup_time(start, self._lateness)
        return (cleanup, key, self._windows[start]) in self._timers.event.table

    def _show_again(self, keys: Iterable[Any], starts: list[int]) -> None:
        """Have windows that had fired fire at their end for records that come before event time is there."""
        now, end = self._timers.watermark, self._panes.max_time
        for key, pane in dict.fromkeys(zip(keys, starts, strict=False)):
            for start in self._panes.windows_of(pane):
                if end(start) > now and self._was_shown(key, start):
                    self._timers.event.register(end(start), key, self._windows[start])

    # -- elements -------------------------------------------------------------------------------

    def accepts(self, batch: Batch) -> bool:
        """Whether no window of the batch would reach beyond 64 bits."""
        times = batch.times
        if times is None or int(times.max()) < MAX_TIME - 2 * self._panes.size - self._lateness:
            return True
        self._has_older = True  # the general path is going to add to its own contents
        return False

    def process(self, batch: Batch, keys: Iterable[Any]) -> None:
        """Add the records; ``keys`` gives at least one key per record."""
        times, rows, panes = batch.times, batch.to_rows(), self._panes
        if times is None or int(times.min()) == MIN_TIME:
            self._contents.failed = rows[0 if times is None else int(times.argmin())]
            raise no_timestamp()
        spans, starts = self._pane_spans, panes.floor(times)
        if self._shown_to > self._timers.watermark:
            keys = [key for key, _ in zip(keys, rows, strict=False)]
            self._show_again(keys, starts.tolist())
        if panes.max_time(panes.windows_of(int(starts.min()))[0]) > self._timers.watermark:
            self._add(rows, keys, [spans[start] for start in starts.tolist()])
            return
        for value, key, start, time in zip(rows, keys, starts.tolist(), times.tolist(), strict=False):
            self._add_late(value, key, spans[start], time)

    def _add(self, rows: Iterable[Any], keys: Iterable[Any], panes: list[Window]) -> None:
        try:
            self._in_panes.add_many(rows, keys, panes, self._on_new)
        except BaseException:
            self._contents.failed = self._in_panes.failed
            raise

    def _on_new(self, key: Any, pane: TimeWindow) -> None:
        running = self._running.get(key)
        if running is not None and running.until <= pane.start < running.newest + self._overlap:
            return  # a window that is to come anyway holds this pane as well
        now = self._timers.watermark
        for start in self._panes.windows_of(pane.start):
            if self._panes.max_time(start) > now:
                self._timers.event.register(self._panes.max_time(start), key, self._windows[start])
                return

    def _add_late(self, value: Any, key: Any, pane: TimeWindow, time: int) -> None:
        """A record whose first windows may have ended: those within the lateness fire again."""
        panes, now = self._panes, self._timers.watermark
        open_ = [s for s in panes.windows_of(pane.start) if panes.cleanup_time(s, self._lateness) > now]
        if not open_:
            self._gathered.late(value, time)
            return
        self._running.pop(key, None)
        self._add((value,), (key,), [pane])
        for start in reversed(open_):
            if panes.max_time(start) <= now:
                window = self._windows[start]
                self._scope.namespace = window
                self._emit(key, window, self._merged(key, window))
                self._timers.event.register(panes.cleanup_time(start, self._lateness), key, window)

    # -- timers ---------------------------------------------------------------------------------

    def takes(self, time: EventTime, key: Any, window: TimeWindow) -> bool:
        """Whether a timer is for :meth:`fire`: all are."""
        return True

    def fire(self, time: EventTime, key: Any, window: TimeWindow) -> None:
        """A timer is due: the end of a window, its cleanup, or one of an older trigger or lateness."""
        end = window.max_timestamp()
        scope = self._scope
        scope.key = key
        scope.namespace = window
        if time == end:
            running = self._advanced(key, window)
            self._emit(key, window, running.total())
            following = window.start + self._slide
            if running.newest >= following and not self._was_shown(key, following):
                self._timers.event.register(end + self._slide, key, self._windows[following])
            else:
                self._running.pop(key, None)
            if self._lateness:
                self._timers.event.register(min(end + self._lateness, MAX_TIME), key, window)
        if time >= end + self._lateness or time == MAX_TIME:
            self._forget(key, window)

    def _emit(self, key: Any, window: TimeWindow, total: Any) -> None:
        if self._has_older:
            older = self._contents.stored((key, window))
            if older is not NOTHING:
                total = older if total is NOTHING else self._contents.join(copied(older), total)
        if total is not NOTHING:
            self._body.emit(self._gathered, key, window, self._contents.view(total))

    def _forget(self, key: Any, window: TimeWindow) -> None:
        """Drop the panes whose last window this was, and what the function kept for it."""
        for start in range(window.start, window.start + self._slide, self._width):
            self._table.remove((key, self._pane_spans[start]))
        if self._has_older:
            self._contents.clear((key, window))
        self._body.clear()

    def forget(self) -> None:
        """All keys are complete and forgotten: so are their running merges."""
        self._running.clear()

    # -- merging --------------------------------------------------------------------------------

    def _advanced(self, key: Any, window: TimeWindow) -> Running:
        """The running merge of the key, brought to ``window``."""
        running = self._running.get(key)
        if running is None:
            if len(self._running) >= self._most_keys:
                self._running.clear()
            running = self._running[key] = Running(self._contents.join)
        if running.reaches(window.start, window.end):
            for start in range(running.until, window.end, self._width):
                stored = self._in_panes.stored((key, self._pane_spans[start]))
                if stored is not NOTHING:
                    running.add(start, stored)
            running.until = window.end
            running.leave(window.start)
        else:
            running.start_over(window.end, self._stored(key, window))
        return running

    def _merged(self, key: Any, window: TimeWindow) -> Any:
        """The panes of ``window`` merged from scratch."""
        running = Running(self._contents.join)
        running.start_over(window.end, self._stored(key, window))
        return running.total()

    def _stored(self, key: Any, window: TimeWindow) -> Iterator[tuple[int, Any]]:
        """Start and accumulator of each pane of the key in ``window``, the latest first."""
        for start in range(window.end - self._width, window.start - 1, -self._width):
            stored = self._in_panes.stored((key, self._pane_spans[start]))
            if stored is not NOTHING:
                yield start, stored
