"""A trigger that fires when elements have moved far enough from the one that fired last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.core.type_vars import T
from penstock.operators.window.triggers import Trigger, TriggerResult
from penstock.operators.window.windows import W
from penstock.state.descriptors import ValueStateDescriptor


class DeltaTrigger(Trigger[T, W]):
    """Fires for an element whose ``delta_function(last one that fired, element)`` exceeds ``threshold``.

    The first element of a window is the first to compare with and does not fire.  Not for windows that
    merge: two of them would have two elements to compare with.
    """

    def __init__(self, threshold: float, delta_function: Callable[[Any, Any], float]) -> None:
        self._threshold = threshold
        self._delta = delta_function
        # In a tuple, since an element may be None and an absent value is None as well.
        self._last = ValueStateDescriptor("last-element")

    @staticmethod
    def of(threshold: float, delta_function: Callable[[Any, Any], float]) -> DeltaTrigger[Any, Any]:
        """Fire when ``delta_function`` says more than ``threshold``."""
        return DeltaTrigger(threshold, delta_function)

    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        state = ctx.get_partitioned_state(self._last)
        last = state.value()
        if last is not None and not self._delta(last[0], element) > self._threshold:
            return TriggerResult.CONTINUE
        state.update((element,))
        return TriggerResult.CONTINUE if last is None else TriggerResult.FIRE

    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Never called: ``can_merge`` is false."""
        raise NotImplementedError

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._last).clear()

    def __repr__(self) -> str:
        return f"DeltaTrigger({self._threshold})"
