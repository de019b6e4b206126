"""A trigger that adds a time limit to another one.

With ``GlobalWindows`` and ``PurgingTrigger`` it makes the count window that also closes after a while::

    PurgingTrigger.of(ProcessingTimeoutTrigger.of(CountTrigger.of(100), Time.seconds(5)))
"""

from __future__ import annotations

from typing import Any

from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import ConfigError
from penstock.core.type_vars import T
from penstock.operators.window.triggers import Trigger, TriggerResult
from penstock.operators.window.windows import W
from penstock.state.descriptors import ReducingStateDescriptor


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
