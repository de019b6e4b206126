"""Tumbling windows that keep their records, of a stream of columns: the records stay columns until they fire.

A window is held in columns or, as everywhere else, as a list of rows for each key in the table of contents,
with a timer each; never in both, so records of a key keep their order.  It is in columns if the batch that
opens it is, and has many records.  What cannot stay so (a batch of rows or of other columns comes for it,
the program is changed, state has to be on disk) becomes rows and timers, which any path can go on from.

Windows in columns have no timers: the watermark that passes their end makes all keys of a window fire, in
the order in which their timers would have been set.  Where lateness is allowed they stay until that is over,
and a record that comes to one that has fired makes it rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch, Indices
from penstock.core.dictionaries import plain_schema
from penstock.core.ids import MAX_TIME, MIN_TIME
from penstock.core.keys import is_canonical
from penstock.operators.operator import OperatorContext
from penstock.operators.outflow import Gathered
from penstock.operators.window.assigners import TumblingEventTimeWindows
from penstock.operators.window.fixed_windows import FixedWindows, WindowCache
from penstock.operators.window.function_adapters import WindowBody
from penstock.operators.window.record_columns import MARKS, RecordColumns
from penstock.operators.window.window_state import CONTENTS_TABLE, ListContents
from penstock.operators.window.windows import TimeWindow
from penstock.state.backend import EntryShape

WORTH_ROWS = 32
"""How many records a batch must have for each of its windows if it is to open any in columns: each batch
and each window takes time of its own there."""
_KEYS_A_STEP = 16
_MOST_ROW_WINDOWS = 64


class RecordsAsRows:
    """Moves windows from columns to rows."""

    def __init__(self, ctx: OperatorContext, contents: ListContents, lateness: int) -> None:
        self.store = RecordColumns(ctx.info.max_parallelism)
        self.lateness = lateness
        self._timers = ctx.timers
        self._contents = contents
        ctx.keyed.register_chunks(self.store.name, self.store)

    def move(self, window: TimeWindow) -> None:
        """Have the table hold a window's records, and timers for each key."""
        for records in self.store.pop(window):
            on_new = self._after_firing if records.fired else self._before_firing
            for columns in records.batches():
                batch = Batch.of_columns(columns, key_columns=records.keys)
                self._contents.add_many(batch.to_rows(), batch.key_list(), window, on_new)

    def _before_firing(self, key: object, window: TimeWindow) -> None:
        self._timers.event.register(window.max_timestamp(), key, window)
        if self.lateness:
            self._clean_up(key, window, self.lateness)

    def _after_firing(self, key: object, window: TimeWindow) -> None:
        # Not at its end, where it would fire again, even if lateness is no longer allowed.
        self._clean_up(key, window, max(1, self.lateness))

    def _clean_up(self, key: object, window: TimeWindow, after: int) -> None:
        if window.max_timestamp() + after < MAX_TIME:
            self._timers.event.register(window.max_timestamp() + after, key, window)


class ColumnWindows:
    """Takes what of each batch can stay columns, and fires it; made by the operator in ``open``."""

    def __init__(
        self,
        ctx: OperatorContext,
        assigner: FixedWindows,
        body: WindowBody,
        gathered: Gathered,
        as_rows: RecordsAsRows,
        row_windows: set[TimeWindow],
    ) -> None:
        self._size = assigner.size
        self._offset = assigner.offset
        self._timers = ctx.timers
        self._scope = ctx.keyed.scope
        self._body = body
        self._gathered = gathered
        self._as_rows = as_rows
        self._store = as_rows.store
        self._lateness = as_rows.lateness
        self._windows = WindowCache(assigner.size)
        self._row_windows = row_windows
        """The windows that may be in the table."""
        self._most_row_windows = _MOST_ROW_WINDOWS
        for window in self._store.windows():
            if len(self._store.of(window)) > 1 or window in row_windows:
                self._to_rows(window)

    # -- records --------------------------------------------------------------------------------

    def take(self, batch: Batch) -> Batch | None:
        """Keep what can stay columns. Gives the rest, for the ways of rows; ``None`` if nothing is left."""
        times = batch.times
        if times is None:
            return batch
        first, last = (int(times[0]),) * 2 if len(times) == 1 else (int(times.min()), int(times.max()))
        if first == MIN_TIME:
            return batch
        start = first - (first - self._offset) % self._size
        is_plain = self._is_plain(batch) and last < MAX_TIME - self._size
        if last < start + self._size:
            window = self._windows[start]
            if not self._stays(window, batch, is_plain, len(batch) >= WORTH_ROWS):
                return batch
            self._store.add(window, batch.columns, batch.key_columns)
            return None
        return self._take_several(batch, times - (times - self._offset) % self._size, is_plain)

    def _take_several(self, batch: Batch, starts: Indices, is_plain: bool) -> Batch | None:
        order = np.argsort(starts, kind="stable")
        changes = np.flatnonzero(np.diff(starts[order])) + 1
        bounds = [0, *changes.tolist(), len(order)]
        is_worth = len(batch) >= WORTH_ROWS * (len(bounds) - 1)
        rest: list[Indices] = []
        for low, high in pairwise(bounds):
            some = order[low:high]
            window = self._windows[int(starts[some[0]])]
            if self._stays(window, batch, is_plain, is_worth):
                self._store.add(window, batch.take(some).columns, batch.key_columns)
            else:
                rest.append(some)
        if len(rest) == len(bounds) - 1:
            return batch
        return batch.take(np.sort(np.concatenate(rest))) if rest else None

    def _is_plain(self, batch: Batch) -> bool:
        """Whether Arrow's keys are those that Python would see."""
        if batch.columns is None or not batch.key_columns:
            return False
        return all(is_canonical(batch.columns.column(name)) for name in batch.key_columns)

    def _stays(self, window: TimeWindow, batch: Batch, is_plain: bool, is_worth: bool) -> bool:
        """Whether the batch's records of a window stay columns; if not, none of the window do."""
        end, watermark = window.max_timestamp(), self._timers.watermark
        if end + self._lateness <= watermark or window in self._row_windows:
            return False
        held = self._store.of(window)
        if held:
            if is_plain and not held[0].fired and held[0].fit(batch.columns.schema, batch.key_columns):
                return True
        elif is_plain and is_worth and end > watermark and _can_stay(batch.columns):
            return True
        self._to_rows(window)
        return False

    def _to_rows(self, window: TimeWindow) -> None:
        self._as_rows.move(window)
        self._row_windows.add(window)
        if len(self._row_windows) > self._most_row_windows:
            horizon = self._timers.watermark - self._lateness
            self._row_windows = {each for each in self._row_windows if each.max_timestamp() > horizon}
            self._most_row_windows = max(_MOST_ROW_WINDOWS, 2 * len(self._row_windows))

    # -- firing ---------------------------------------------------------------------------------

    def due(self, time: int) -> list[tuple[int, Iterator[None]]]:
        """What a watermark does to windows in columns, step by step, and at what time each; in that order."""
        found: list[tuple[int, Iterator[None]]] = []
        for window in self._store.windows():
            end, (records, *_) = window.max_timestamp(), self._store.of(window)
            if end > time:
                break
            if not records.fired:
                found.append((end, self._fire(window)))
            over = end + self._lateness
            if (self._lateness or records.fired) and over <= time and over < MAX_TIME:
                found.append((over, self._clean_up(window)))
        found.sort(key=itemgetter(0))
        return found

    def _fire(self, window: TimeWindow) -> Iterator[None]:
        """Evaluate a window for all of its keys."""
        scope, body, gathered = self._scope, self._body, self._gathered
        timers, stays = self._timers.event, self._lateness > 0
        for records in self._store.of(window) if stays else self._store.pop(window):
            records.fired = True
            for fired, (key, rows) in enumerate(records.groups(), 1):
                timers.firing = window.max_timestamp()
                scope.key = key
                scope.namespace = window
                body.emit(gathered, key, window, rows)
                if not stays:
                    body.clear()
                timers.firing = None
                if gathered.is_full:
                    gathered.flush()
                    yield
                elif not fired % _KEYS_A_STEP:
                    yield
        gathered.flush()

    def _clean_up(self, window: TimeWindow) -> Iterator[None]:
        """Forget a window that no late record can join any more."""
        scope, timers = self._scope, self._timers.event
        for records in self._store.pop(window):
            for key in records.every_key():
                timers.firing = window.max_timestamp() + self._lateness
                scope.key = key
                scope.namespace = window
                self._body.clear()
                timers.firing = None
        yield

    def forget(self) -> None:
        """All keys are complete and forgotten."""
        self._row_windows.clear()


def column_windows(
    ctx: OperatorContext,
    assigner: FixedWindows | None,
    contents: ListContents,
    body: WindowBody,
    gathered: Gathered,
    lateness: int,
) -> ColumnWindows | None:
    """The path for windows that keep their records, if it may serve them; else restored columns become rows.

    ``assigner`` is that of windows of fixed size that fire at their ends and for late records.  State on disk
    stays there: columns are in memory whatever the backend.
    """
    as_rows = RecordsAsRows(ctx, contents, lateness)
    table = ctx.keyed.table(CONTENTS_TABLE, EntryShape.NAMESPACED)
    if type(assigner) is TumblingEventTimeWindows and table.scans_cheaply:
        row_windows = {window for _, window in table.entries()}
        return ColumnWindows(ctx, assigner, body, gathered, as_rows, row_windows)
    for window in as_rows.store.windows():
        as_rows.move(window)
    return None


def _can_stay(columns: pa.RecordBatch) -> bool:
    """Whether such batches can be joined and sorted: by the names of the columns, and by their types.

    Each has a name to itself, and not one of the engine's.  Dictionaries are kept without, but for those
    within other types.
    """
    names, types = columns.schema.names, plain_schema(columns.schema).types
    if len(set(names)) < len(names) or not MARKS.isdisjoint(names) or any(map(_is_coded, types)):
        return False
    try:
        columns.slice(0, 1).take(pa.array([0]))
    except NotImplementedError:  # Arrow has no such kernel for all of its types
        return False
    return True


def _is_coded(kind: pa.DataType) -> bool:
    """Whether values are codes of a dictionary: those of many batches may be more than there are codes."""
    return "dictionary<" in str(kind)
