"""The window operator: from elements and timers to results.

Course of an element: assign windows, merge, set late windows aside, add to the contents, ask the
trigger, fire and purge as it says, register the cleanup timer.  Course of a timer: ask the trigger,
fire and purge, and if it is the window's cleanup time forget everything.

A window is cleaned up when event time reaches its last timestamp plus the allowed lateness (or the
clock its last timestamp); from that watermark on it is late.  The common case takes the shorter way
in ``fixed_windows``; the other shorter ways are in ``asked_once``, ``counted``, ``session_path``,
``pane_sharing`` and, for records that come as columns and are kept, in ``column_windows``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Any

from penstock.core.batch import Batch
from penstock.core.copying import itself
from penstock.core.errors import ConfigError
from penstock.core.ids import MAX_TIME, EventTime
from penstock.core.metrics import LATE_COUNTER
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.outflow import Gathered
from penstock.operators.runtime_context import NO_KEY, RuntimeContext
from penstock.operators.window.asked_once import (
    AskedAtTheEnd,
    AskedOnce,
    Asking,
    is_asked_once,
    waits_for_the_end,
)
from penstock.operators.window.assigners import MergingWindowAssigner, WindowAssigner
from penstock.operators.window.column_windows import ColumnWindows, column_windows
from penstock.operators.window.contexts import AssignerContext, TriggerContext
from penstock.operators.window.counted import CountedWindows, counted_assigner
from penstock.operators.window.evictors import EvictingContents, Evictor
from penstock.operators.window.fixed_windows import FastPath, fixed_assigner
from penstock.operators.window.function_adapters import AnyWindowFunction, body_for
from penstock.operators.window.merging import MergingWindowSet
from penstock.operators.window.one_window import is_in_one_window
from penstock.operators.window.pane_sharing import SharedPanes, check_restored, shared_panes
from penstock.operators.window.session_path import SessionPath, session_assigner
from penstock.operators.window.triggers import EventTimeTrigger, Trigger, TriggerResult
from penstock.operators.window.window_state import NO_RECORD, AggregateContents, ListContents, WindowContents
from penstock.operators.window.windows import Window
from penstock.state.backend import EntryShape, Table

MERGING_TABLE = "_window/merging"
ALL_KEY = 0
"""The key of every record when the stream is not keyed."""


class WindowOperator(Operator):
    """Groups records into windows and evaluates them.

    ``contents`` says what is kept per window; ``function`` evaluates it, and may be ``None`` for
    reduce and aggregate, whose value then is the result.  ``late_tag`` names the side output for
    late records; without one they are counted as ``numLateRecordsDropped``.  ``keyed=False`` puts
    all records under one key (``window_all``; run it with parallelism 1).  ``evictor`` drops elements
    around each evaluation.
    """

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        contents: WindowContents,
        function: AnyWindowFunction | None = None,
        *,
        trigger: Trigger[Any, Any] | None = None,
        allowed_lateness_ms: int = 0,
        late_tag: str | None = None,
        keyed: bool = True,
        evictor: Evictor[Any, Any] | None = None,
    ) -> None:
        self._assigner = assigner
        self._contents = contents
        self._evicting: EvictingContents | None = None
        self._body = body_for(function)
        self._trigger = assigner.get_default_trigger(None) if trigger is None else trigger
        self._lateness = allowed_lateness_ms
        self._late_tag = late_tag
        self._keyed = keyed
        self._merging = isinstance(assigner, MergingWindowAssigner)
        self._event_time = assigner.is_event_time()
        self._in_one_window = is_in_one_window(assigner)
        self._record: Any = NO_RECORD
        self._check(function)
        self._panes = shared_panes(assigner, self._trigger, contents) if evictor is None else None
        if evictor is not None:
            self._contents = self._evicting = EvictingContents(contents, evictor)

    def _check(self, function: AnyWindowFunction | None) -> None:
        if self._lateness < 0:
            raise ConfigError(f"the allowed lateness must be 0 ms or more; got {self._lateness}")
        if self._merging and not self._trigger.can_merge():
            raise ConfigError(
                f"{self._trigger!r} cannot be used with {self._assigner!r}, whose windows merge; choose a "
                "trigger whose can_merge() is true, or implement can_merge and on_merge in yours"
            )
        if function is None and isinstance(self._contents, ListContents):
            raise ConfigError("a window that keeps its elements needs a window function to evaluate them")

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._scope = ctx.keyed.scope
        self._scope.key = NO_KEY
        # Asking for the timers here makes the engine tell us the watermark from the start.
        self._timers = ctx.timers
        runtime_context = RuntimeContext(ctx, keyed=True)
        self._gathered = Gathered(ctx, self._late_tag, ctx.metrics.counter(LATE_COUNTER))
        self._assigner_context = AssignerContext(ctx, runtime_context)
        self._trigger_context = TriggerContext(ctx, self._cleanup_time, self._event_time)
        self._contents.open(ctx.keyed, runtime_context)
        self._body.open(ctx, runtime_context, self._merging)
        if self._merging:
            self._merging_table: Table = ctx.keyed.table(MERGING_TABLE, EntryShape.KEY)
        if self._evicting is not None:
            self._evicting.bind(ctx)
        check_restored(ctx, self._panes)
        self._fast = self._shorter_way(ctx)
        self._columns = self._way_of_columns(ctx)
        self._counted = self._way_of_counts(ctx)

    def _shorter_way(
        self, ctx: OperatorContext
    ) -> FastPath | SharedPanes | SessionPath | AskedAtTheEnd | None:
        contents, body, gathered = self._contents, self._body, self._gathered
        if self._panes is not None and isinstance(contents, AggregateContents):
            return SharedPanes(ctx, self._panes, contents, body, gathered, self._lateness)
        fixed = fixed_assigner(self._assigner)
        fires_once = type(self._trigger) is EventTimeTrigger and not self._lateness
        if fixed is not None and fires_once and self._evicting is None:
            return FastPath(ctx, fixed, contents, body, gathered)
        asking = Asking(ctx, contents, self._trigger, self._trigger_context, self._lateness)
        if fixed is not None and is_asked_once(self._trigger):
            late = self._on_ended if self._lateness else None
            return AskedOnce(ctx, fixed, contents, body, gathered, asking, late)
        if waits_for_the_end(self._assigner, self._trigger):
            return AskedAtTheEnd(asking)
        sessions = None if self._evicting is not None else session_assigner(self._assigner, self._trigger)
        if sessions is None:
            return None
        table, one_by_one = self._merging_table, self._on_merging_element
        return SessionPath(ctx, sessions, contents, body, gathered, self._lateness, table, one_by_one)

    def _way_of_columns(self, ctx: OperatorContext) -> ColumnWindows | None:
        contents = self._contents
        if type(contents) is not ListContents or self._merging or not self._keyed:
            return None
        fixed = fixed_assigner(self._assigner) if type(self._trigger) is EventTimeTrigger else None
        return column_windows(ctx, fixed, contents, self._body, self._gathered, self._lateness)

    def _way_of_counts(self, ctx: OperatorContext) -> CountedWindows | None:
        found = None if self._evicting is not None else counted_assigner(self._assigner, self._trigger)
        if found is None:
            return None
        contexts = self._assigner_context, self._trigger_context
        return CountedWindows(ctx, *found, self._contents, self._body, self._gathered, contexts)

    @property
    def shares_panes(self) -> bool:
        """Whether overlapping windows share what they have gathered."""
        return self._panes is not None

    def close(self) -> None:
        self._contents.close()
        self._body.close()

    def current_record(self) -> Any:
        record = self._contents.failed if self._record is NO_RECORD else self._record
        if record is NO_RECORD:
            raise LookupError
        return record

    # -- elements -------------------------------------------------------------------------------

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Add records to their windows, and emit what fires by it as one batch."""
        if len(batch) == 0:
            return
        if self._columns is not None:
            rest = self._columns.take(batch)
            if rest is None:
                return
            batch = rest
        keys: Iterable[Any] = batch.key_list() if self._keyed else repeat(ALL_KEY)
        if self._fast is not None and self._fast.accepts(batch):
            self._fast.process(batch, keys)
            self._gathered.flush()
        elif self._counted is not None:
            self.work(self._counted.process(batch, keys))
        else:
            self._on_batch(batch, keys)

    def _on_batch(self, batch: Batch, keys: Iterable[Any]) -> None:
        on_element = self._on_merging_element if self._merging else self._on_element
        self.work(self._on_elements(batch, keys, on_element))

    def _on_ended(self, batch: Batch, keys: Iterable[Any]) -> None:
        """Records that are in their other windows already: for those that have ended, or for none."""

        def on_element(value: Any, key: Any, time: int) -> None:
            self._on_element(value, key, time, only_ended=True)

        self.work(self._on_elements(batch, keys, on_element))

    def _on_elements(
        self, batch: Batch, keys: Iterable[Any], on_element: Callable[[Any, Any, int], None]
    ) -> Iterator[None]:
        gathered = self._gathered
        for value, key, time in zip(batch.to_rows(), keys, batch.time_list(), strict=False):
            self._record = value
            self._scope.key = key
            on_element(value, key, time)
            if gathered.is_full:
                gathered.flush()
                yield
        self._record = NO_RECORD
        gathered.flush()

    def _on_element(self, value: Any, key: Any, time: int, only_ended: bool = False) -> None:
        assigned = self._assigner.assign_windows(value, time, self._assigner_context)
        windows = living = [window for window in assigned if not self._is_window_late(window)]
        if only_ended:
            windows = [window for window in living if window.max_timestamp() <= self._timers.watermark]
        for window in windows:
            self._trigger_context.enter(window)
            mine = value if window is windows[-1] else self._contents.share(value)
            self._add(mine, key, time, window, window)
        if not living:
            self._set_aside_if_late(value, time)

    def _on_merging_element(self, value: Any, key: Any, time: int) -> None:
        in_some_window = False
        assigned = list(self._assigner.assign_windows(value, time, self._assigner_context))
        for new_window in assigned:
            windows = self._window_set(key)
            window = windows.add(new_window, self._merge)
            state_window = windows.state_window(window)
            if self._is_window_late(window):
                windows.retire(window)
            else:
                in_some_window = True
                self._trigger_context.enter(window)
                mine = value if new_window is assigned[-1] else self._contents.share(value)
                self._add(mine, key, time, window, state_window)
            self._keep_window_set(key, windows)
        if not in_some_window:
            self._set_aside_if_late(value, time)

    def _add(self, value: Any, key: Any, time: int, window: Window, state_window: Any) -> None:
        """Add to the contents, ask the trigger, act on it; the trigger's context is set."""
        entry = (key, state_window)
        self._contents.add(entry, value if self._evicting is None else (value, time))
        result = self._trigger.on_element(value, time, window, self._trigger_context)
        self._act(result, key, window, entry)
        cleanup = self._cleanup_time(window)
        if cleanup != MAX_TIME:
            self._cleanup_timers().register(cleanup, key, window)

    def _set_aside_if_late(self, value: Any, time: int) -> None:
        """A record without a living window is late only if its own time has passed."""
        if self._event_time and time + self._lateness <= self._timers.watermark:
            self._gathered.late(value, time)

    # -- timers ---------------------------------------------------------------------------------

    def _advance(self, time: EventTime) -> Iterator[None]:
        if self._columns is not None:
            for at, steps in self._columns.due(time):
                yield from self._fire_all(self._timers.event.due(at - 1), self.on_event_timer)
                yield from steps
        yield from super()._advance(time)

    def on_event_timer(self, time: EventTime, key: Any, namespace: Any) -> None:
        if self._fast is not None and self._fast.takes(time, key, namespace):
            self._fast.fire(time, key, namespace)
        else:
            self._on_timer(self._trigger.on_event_time, self._event_time, time, key, namespace)

    def on_processing_timer(self, time: EventTime, key: Any, namespace: Any) -> None:
        self._on_timer(self._trigger.on_processing_time, not self._event_time, time, key, namespace)

    def has_enough(self) -> bool:
        return self._gathered.is_full

    def flush_timers(self) -> None:
        self._gathered.flush()

    def forget_keys(self) -> None:
        super().forget_keys()
        if isinstance(self._fast, SharedPanes | SessionPath | AskedOnce | AskedAtTheEnd):
            self._fast.forget()
        if self._columns is not None:
            self._columns.forget()

    def _on_timer(
        self, ask: Callable[..., TriggerResult], may_clean_up: bool, time: int, key: Any, window: Any
    ) -> None:
        self._scope.key = key
        windows = self._window_set(key) if self._merging else None
        state_window = window if windows is None else windows.state_window(window)
        if state_window is None:
            return  # merged into another window since
        self._trigger_context.enter(window)
        entry = (key, state_window)
        is_over = may_clean_up and time == self._cleanup_time(window)
        self._act(ask(time, window, self._trigger_context), key, window, entry, is_over)
        if is_over:
            self._forget(window, entry)
            if windows is not None:
                windows.retire(window)
                self._keep_window_set(key, windows)

    # -- what both do ---------------------------------------------------------------------------

    def _act(
        self, result: TriggerResult, key: Any, window: Window, entry: tuple[Any, Any], is_over: bool = False
    ) -> None:
        if result is TriggerResult.CONTINUE:
            return
        if result.is_fire():
            self._evaluate(key, window, entry, is_over or result.is_purge())
        if result.is_purge():
            self._contents.clear(entry)
            if self._assigner.is_complete(window, self._assigner_context):
                self._forget(window, entry)

    def _evaluate(self, key: Any, window: Window, entry: tuple[Any, Any], is_last: bool) -> None:
        """``is_last``: the contents are dropped then, and are the function's if no other window has them."""
        given_away = is_last and self._in_one_window
        if self._evicting is not None:
            emit = partial(self._body.emit, self._gathered, key, window)
            own = itself if given_away else self._contents.own
            self._evicting.evaluate(entry, window, emit, own, is_last)
            return
        contents = self._contents
        values = contents.take(entry, overlapping=False) if given_away else contents.values(entry)
        if values is not None:
            self._body.emit(self._gathered, key, window, values)

    def _forget(self, window: Window, entry: tuple[Any, Any]) -> None:
        """Drop contents, trigger state and the function's state of a window that has ended."""
        self._contents.clear(entry)
        self._trigger_context.enter(window)
        self._trigger.clear(window, self._trigger_context)
        self._body.clear()

    def _merge(
        self, merged: Window, replaced: list[Window], state_window: Window, moved: list[Window]
    ) -> None:
        """Windows of the current key have become one: trigger, timers and contents follow."""
        now = self._timers.watermark - self._lateness if self._event_time else self.ctx.clock.now_ms()
        if merged.max_timestamp() <= now:
            raise ConfigError(
                f"{self._assigner!r} merged windows into {merged!r}, which ends before the time now, {now}; "
                "merging must not make a window end earlier"
            )
        context = self._trigger_context
        context.enter(merged, replaced)
        self._trigger.on_merge(merged, context)
        key = self._scope.key
        for window in replaced:
            context.enter(window)
            self._trigger.clear(window, context)
            self._cleanup_timers().delete(self._cleanup_time(window), key, window)
        self._contents.merge((key, state_window), [(key, other) for other in moved])

    def _window_set(self, key: Any) -> MergingWindowSet[Any]:
        assert isinstance(self._assigner, MergingWindowAssigner)
        mapping = self._merging_table.own(key)
        return MergingWindowSet(self._assigner, {} if mapping is None else mapping)

    def _keep_window_set(self, key: Any, windows: MergingWindowSet[Any]) -> None:
        if windows.mapping:
            self._merging_table.put(key, windows.mapping)
        else:
            self._merging_table.remove(key)

    def _cleanup_timers(self) -> Any:
        return self._timers.event if self._event_time else self._timers.processing

    def _cleanup_time(self, window: Window) -> int:
        lateness = self._lateness if self._event_time else 0
        return min(window.max_timestamp() + lateness, MAX_TIME)

    def _is_window_late(self, window: Window) -> bool:
        return self._event_time and self._cleanup_time(window) <= self._timers.watermark
