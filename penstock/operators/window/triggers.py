"""When a window fires: the contract and the simple triggers.

``FIRE`` evaluates the window and keeps its contents; ``PURGE`` drops the contents and nothing else,
neither the trigger's own state nor its timers.  Those go when the window ends (``clear``).
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic

from penstock.core.error_codes import Code
from penstock.core.errors import TimestampError
from penstock.core.metrics import MetricGroup
from penstock.core.type_vars import T
from penstock.operators.window.windows import GlobalWindow, TimeWindow, W
from penstock.state.descriptors import ReducingStateDescriptor, StateDescriptor, ValueStateDescriptor


def no_timestamp() -> TimestampError:
    """The error for an element that event time cannot place."""
    return TimestampError(
        "a record without a timestamp reached an event-time window; call "
        "assign_timestamps_and_watermarks before the window, or use a processing-time window",
        code=Code.NO_TIMESTAMP,
    )


class TriggerResult(Enum):
    """What to do with a window now. The value says: fire, purge.

    >>> TriggerResult.FIRE.is_fire(), TriggerResult.FIRE.is_purge()
    (True, False)
    """

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Whether the window is evaluated and its result emitted."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether the window's contents are dropped, after firing if it fires."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides when windows fire; one object serves all windows and keys of a subtask.

    Called by the window operator: ``on_element`` after each element was added, ``on_event_time`` and
    ``on_processing_time`` for timers of the window (also those other parties registered: compare the
    time), ``on_merge`` when sessions join, ``clear`` when the window is forgotten.  What a trigger
    remembers goes into ``ctx.get_partitioned_state``; an attribute would mix windows and be lost.

    >>> class EveryElement(Trigger):
    ...     def on_element(self, element, timestamp, window, ctx):
    ...         return TriggerResult.FIRE
    ...     def on_processing_time(self, time, window, ctx):
    ...         return TriggerResult.CONTINUE
    ...     def on_event_time(self, time, window, ctx):
    ...         return TriggerResult.CONTINUE
    ...     def on_merge(self, window, ctx):
    ...         pass
    ...     def clear(self, window, ctx):
    ...         pass
    >>> running = env.from_collection([1, 2]).key_by(lambda n: "all").window(GlobalWindows.create())
    >>> list(running.trigger(EveryElement()).reduce(lambda a, b: a + b).execute_and_collect())
    [1, 3]
    """

    class TriggerContext(ABC):
        """Time, timers and state, all of the window and key at hand."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The clock, in milliseconds."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Where to register metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """How far event time has come."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Have ``on_processing_time`` called once the clock has passed ``time``."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Have ``on_event_time`` called once the watermark reaches ``time``."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Take that timer back; a missing one is fine."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Take that timer back; a missing one is fine."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
            """The trigger's own state for this window and key."""

    class OnMergeContext(TriggerContext):
        """The same, while windows merge."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Move the state of the merged windows into the resulting one."""

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """``element`` has been added to ``window``."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """A processing-time timer of ``window`` is due."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """An event-time timer of ``window`` is due."""

    def can_merge(self) -> bool:
        """Whether the trigger works with windows that merge; if so, ``on_merge`` must."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Several windows have become ``window``; ``clear`` follows for each of them."""

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Forget state and timers of ``window``."""


class BaseTrigger(Trigger[T, W]):
    """A trigger to which timers mean nothing unless it says so."""

    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class EventTimeTrigger(BaseTrigger[T, TimeWindow]):
    """Fires when the watermark passes the window's end, and again for each late element after that."""

    @staticmethod
    def create() -> EventTimeTrigger[Any]:
        """The trigger."""
        return EventTimeTrigger()

    def on_element(
        self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the new end; if it has passed already, the element that caused the merge fires."""
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(BaseTrigger[T, TimeWindow]):
    """Fires when the clock passes the window's end."""

    wall_clock = "fires by the wall clock"

    @staticmethod
    def create() -> ProcessingTimeTrigger[Any]:
        """The trigger."""
        return ProcessingTimeTrigger()

    def on_element(
        self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the new end, unless it has passed: then the element that follows registers it."""
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class CountTrigger(BaseTrigger[T, W]):
    """Fires each time ``window_size`` more elements have come; keeps them, see ``PurgingTrigger``."""

    def __init__(self, window_size: int) -> None:
        self.window_size = window_size
        self.count = ReducingStateDescriptor("count", operator.add)
        """The state that says how many have come since it fired."""

    @staticmethod
    def of(window_size: int) -> CountTrigger[Any, Any]:
        """Fire every ``window_size`` elements."""
        return CountTrigger(window_size)

    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        count = ctx.get_partitioned_state(self.count)
        count.add(1)
        if count.get() < self.window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Add the counts up; the element that follows may fire."""
        ctx.merge_partitioned_state(self.count)

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self.count).clear()

    def __repr__(self) -> str:
        return f"CountTrigger({self.window_size})"


class PurgingTrigger(Trigger[T, W]):
    """Does what the nested trigger does, and drops the contents whenever that one fires."""

    def __init__(self, nested_trigger: Trigger[T, W]) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[Any, Any]) -> PurgingTrigger[Any, Any]:
        """``nested_trigger`` with purging."""
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)

    def __repr__(self) -> str:
        return f"PurgingTrigger({self.nested_trigger!r})"


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result is TriggerResult.FIRE else result


class NeverTrigger(BaseTrigger[T, GlobalWindow]):
    """Never fires: the default of global windows."""

    def on_element(
        self, element: T, timestamp: int, window: GlobalWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: GlobalWindow, ctx: Trigger.OnMergeContext) -> None:
        """Nothing to merge."""

    def clear(self, window: GlobalWindow, ctx: Trigger.TriggerContext) -> None:
        """Nothing to clear."""


class EndOfStreamTrigger(NeverTrigger[T]):
    """Fires when the input has ended, and not before."""

    def on_element(
        self, element: T, timestamp: int, window: GlobalWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: GlobalWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def clear(self, window: GlobalWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class DeltaTrigger(BaseTrigger[T, W]):
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

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Never called: ``can_merge`` is false."""
        raise NotImplementedError

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._last).clear()

    def __repr__(self) -> str:
        return f"DeltaTrigger({self._threshold})"
