"""Triggers made of others: early, on-time and late firings each by a rule of its own, and a time limit.

::

    AfterWatermark.past_end_of_window()
        .with_early(ContinuousProcessingTimeTrigger.of(Time.seconds(10)))
        .with_late(CountTrigger.of(100))

Before the watermark passes the window's end the early trigger decides, at the end the window fires, and
after it, within the allowed lateness, the late trigger decides.  All firings show the whole window;
``PurgingTrigger.of(...)`` around it makes each show only what is new.

With ``GlobalWindows`` and ``PurgingTrigger`` a time limit makes the count window that also closes after a
while::

    PurgingTrigger.of(ProcessingTimeoutTrigger.of(CountTrigger.of(100), Time.seconds(5)))
"""

from __future__ import annotations

from typing import Any

from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import ConfigError
from penstock.core.type_vars import T
from penstock.operators.window.triggers import Trigger, TriggerResult
from penstock.operators.window.windows import TimeWindow, W
from penstock.state.descriptors import ReducingStateDescriptor


class EarlyAndLateTrigger(Trigger[T, TimeWindow]):
    """Fires at the window's end, before it as ``early`` says and after it as ``late`` says.

    Without ``early`` nothing fires before the end; without ``late`` every late element does.  The two
    never work on one window at the same time, so they may use the same names of state.
    """

    def __init__(
        self, early: Trigger[T, TimeWindow] | None = None, late: Trigger[T, TimeWindow] | None = None
    ) -> None:
        self._early = early
        self._late = late

    def with_early(self, early: Trigger[Any, Any]) -> EarlyAndLateTrigger[Any]:
        """The same with ``early`` firings."""
        return EarlyAndLateTrigger(early, self._late)

    def with_late(self, late: Trigger[Any, Any]) -> EarlyAndLateTrigger[Any]:
        """The same with ``late`` firings."""
        return EarlyAndLateTrigger(self._early, late)

    def on_element(
        self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        end = window.max_timestamp()
        if end > ctx.get_current_watermark():
            ctx.register_event_time_timer(end)
            if self._early is None:
                return TriggerResult.CONTINUE
            return self._early.on_element(element, timestamp, window, ctx)
        if self._late is None:
            return TriggerResult.FIRE
        return self._late.on_element(element, timestamp, window, ctx)

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """By the timer's time and not the watermark, which may have jumped over several timers."""
        end = window.max_timestamp()
        if time == end:
            if self._early is not None:
                self._early.clear(window, ctx)
            return TriggerResult.FIRE
        nested = self._early if time < end else self._late
        return TriggerResult.CONTINUE if nested is None else nested.on_event_time(time, window, ctx)

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        nested = self._late if window.max_timestamp() <= ctx.get_current_watermark() else self._early
        return TriggerResult.CONTINUE if nested is None else nested.on_processing_time(time, window, ctx)

    def can_merge(self) -> bool:
        return all(nested.can_merge() for nested in (self._early, self._late) if nested is not None)

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """The trigger in charge of the merged window takes over what those of the old ones remember."""
        ended = window.max_timestamp() <= ctx.get_current_watermark()
        if not ended:
            ctx.register_event_time_timer(window.max_timestamp())
        nested = self._late if ended else self._early
        if nested is not None:
            nested.on_merge(window, ctx)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())
        for nested in (self._early, self._late):
            if nested is not None:
                nested.clear(window, ctx)

    def __repr__(self) -> str:
        return f"EarlyAndLateTrigger({self._early!r}, {self._late!r})"


class AfterWatermark:
    """Where the chain of names begins: ``AfterWatermark.past_end_of_window().with_early(...)``."""

    @staticmethod
    def past_end_of_window() -> EarlyAndLateTrigger[Any]:
        """Fire at the window's end, and for each late element."""
        return EarlyAndLateTrigger()

    @staticmethod
    def with_early(early: Trigger[Any, Any]) -> EarlyAndLateTrigger[Any]:
        """Fire at the window's end, and before it as ``early`` says."""
        return EarlyAndLateTrigger(early)

    @staticmethod
    def with_late(late: Trigger[Any, Any]) -> EarlyAndLateTrigger[Any]:
        """Fire at the window's end, and after it as ``late`` says."""
        return EarlyAndLateTrigger(None, late)


class ProcessingTimeoutTrigger(Trigger[T, W]):
    """Does what the nested trigger does, and fires if that one does not within ``timeout`` of the clock.

    The time runs from the first element since the last firing, or with ``reset_timer_on_new_record``
    from the latest.  ``should_clear_on_timeout`` makes the nested trigger begin anew after a timeout,
    as a count from zero.
    """

    wall_clock = "fires by the wall clock"

    def __init__(
        self,
        nested_trigger: Trigger[T, W],
        timeout: int,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> None:
        if timeout <= 0:
            raise ConfigError(f"the timeout of a ProcessingTimeoutTrigger must be above 0 ms; got {timeout}")
        self._nested = nested_trigger
        self._timeout = timeout
        self._resets = reset_timer_on_new_record
        self._clears = should_clear_on_timeout
        self._due = ReducingStateDescriptor("timeout", max if reset_timer_on_new_record else min)

    @staticmethod
    def of(
        nested_trigger: Trigger[Any, Any],
        timeout: DurationLike,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger[Any, Any]:
        """``nested_trigger`` with a time limit."""
        return ProcessingTimeoutTrigger(
            nested_trigger, to_millis(timeout), reset_timer_on_new_record, should_clear_on_timeout
        )

    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        result = self._nested.on_element(element, timestamp, window, ctx)
        if result.is_fire():
            self._stop(ctx)
            return result
        state = ctx.get_partitioned_state(self._due)
        if self._resets:
            self._stop(ctx)
        if state.get() is None:
            due = ctx.get_current_processing_time() + self._timeout
            state.add(due)
            ctx.register_processing_time_timer(due)
        return result

    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        timed_out = ctx.get_partitioned_state(self._due).get() == time
        result = self._after(self._nested.on_processing_time(time, window, ctx), ctx)
        if not timed_out:
            return result
        self._stop(ctx)
        if self._clears:
            self._nested.clear(window, ctx)
        return TriggerResult.FIRE_AND_PURGE if result.is_purge() else TriggerResult.FIRE

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._after(self._nested.on_event_time(time, window, ctx), ctx)

    def _after(self, result: TriggerResult, ctx: Trigger.TriggerContext) -> TriggerResult:
        """A firing of the nested trigger ends the wait."""
        if result.is_fire():
            self._stop(ctx)
        return result

    def _stop(self, ctx: Trigger.TriggerContext) -> None:
        state = ctx.get_partitioned_state(self._due)
        due = state.get()
        if due is not None:
            ctx.delete_processing_time_timer(due)
            state.clear()

    def can_merge(self) -> bool:
        return self._nested.can_merge()

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Of several waits the earliest stays, or the latest where new elements prolong it."""
        self._nested.on_merge(window, ctx)
        ctx.merge_partitioned_state(self._due)
        due = ctx.get_partitioned_state(self._due).get()
        if due is not None:
            ctx.register_processing_time_timer(due)

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        self._stop(ctx)
        self._nested.clear(window, ctx)

    def __repr__(self) -> str:
        return f"ProcessingTimeoutTrigger({self._nested!r}, {self._timeout})"
