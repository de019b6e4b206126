"""Triggers that fire every so often while a window is still open, and once more at its end.

The next firing is a multiple of the interval, or the window's end if that lies ahead and comes first; it
is kept as the trigger's state (the earliest wins when sessions merge), so that each window has one such
timer at a time.  Every firing repeats the whole window.

On event-time windows the clock may be far beyond a window's end, or far before it: there the continuous
processing-time trigger goes on firing every interval until the window is cleaned up.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import ConfigError
from penstock.core.ids import MAX_TIME, MIN_TIME
from penstock.core.type_vars import T
from penstock.operators.window.triggers import BaseTrigger, Trigger, TriggerResult, no_timestamp
from penstock.operators.window.windows import TimeWindow
from penstock.state.descriptors import ReducingStateDescriptor
from penstock.state.handles import ReducingState


class _ContinuousTrigger(BaseTrigger[T, TimeWindow]):
    """What both have in common: all but the kind of time."""

    _ends_with_window = True
    """Whether no firing is planned from the window's end on."""

    def __init__(self, interval: int) -> None:
        if interval <= 0:
            raise ConfigError(f"the interval of {type(self).__name__} must be above 0 ms; got {interval}")
        self.interval = interval
        self._fire_time = ReducingStateDescriptor("fire-time", min)

    @abstractmethod
    def _register(self, ctx: Trigger.TriggerContext, time: int) -> None:
        """Register a timer of this trigger's kind of time."""

    @abstractmethod
    def _delete(self, ctx: Trigger.TriggerContext, time: int) -> None:
        """Delete a timer of this trigger's kind of time."""

    def _start(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Plan the first firing after ``time``, unless one is planned."""
        state = ctx.get_partitioned_state(self._fire_time)
        if state.get() is None:
            self.register_next_fire_timestamp(time - time % self.interval, window, ctx, state)

    def _on_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """A timer is due: the planned firing, the end of the window, or a stale one."""
        state = ctx.get_partitioned_state(self._fire_time)
        at_end = time == window.max_timestamp()
        if state.get() == time:
            state.clear()
            if not (at_end and self._ends_with_window):
                self.register_next_fire_timestamp(time, window, ctx, state)
            return TriggerResult.FIRE
        return TriggerResult.FIRE if at_end else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._fire_time)
        due = ctx.get_partitioned_state(self._fire_time).get()
        if due is not None:
            self._register(ctx, due)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        state = ctx.get_partitioned_state(self._fire_time)
        due = state.get()
        if due is not None:
            self._delete(ctx, due)
            state.clear()

    def register_next_fire_timestamp(
        self,
        time: int,
        window: TimeWindow,
        ctx: Trigger.TriggerContext,
        fire_timestamp_state: ReducingState[int],
    ) -> None:
        """Plan the firing that follows the one at ``time``."""
        due = time + self.interval
        if self._ends_with_window or time < window.max_timestamp():
            due = min(due, window.max_timestamp())
        fire_timestamp_state.add(due)
        self._register(ctx, due)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.interval})"


class ContinuousEventTimeTrigger(_ContinuousTrigger[T]):
    """Fires every ``interval`` of event time; needs watermarks that advance."""

    @staticmethod
    def of(interval: DurationLike) -> ContinuousEventTimeTrigger[Any]:
        """Fire every ``interval``."""
        return ContinuousEventTimeTrigger(to_millis(interval))

    def _register(self, ctx: Trigger.TriggerContext, time: int) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, ctx: Trigger.TriggerContext, time: int) -> None:
        ctx.delete_event_time_timer(time)

    def on_element(
        self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        if timestamp == MIN_TIME:
            raise no_timestamp()
        ctx.register_event_time_timer(window.max_timestamp())
        self._start(timestamp, window, ctx)
        return TriggerResult.CONTINUE

    def register_next_fire_timestamp(
        self,
        time: int,
        window: TimeWindow,
        ctx: Trigger.TriggerContext,
        fire_timestamp_state: ReducingState[int],
    ) -> None:
        # A window without an end, when the input has ended: one firing more, not one for each interval
        # up to the end of time.
        if window.max_timestamp() == ctx.get_current_watermark() == MAX_TIME:
            time = MAX_TIME - self.interval
        super().register_next_fire_timestamp(time, window, ctx, fire_timestamp_state)

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._on_time(time, window, ctx)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())
        super().clear(window, ctx)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger[T]):
    """Fires every ``interval`` of the clock."""

    wall_clock = "fires by the wall clock"

    _ends_with_window = False

    @staticmethod
    def of(interval: DurationLike) -> ContinuousProcessingTimeTrigger[Any]:
        """Fire every ``interval``."""
        return ContinuousProcessingTimeTrigger(to_millis(interval))

    def _register(self, ctx: Trigger.TriggerContext, time: int) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, ctx: Trigger.TriggerContext, time: int) -> None:
        ctx.delete_processing_time_timer(time)

    def on_element(
        self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        self._start(ctx.get_current_processing_time(), window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._on_time(time, window, ctx)
