"""The objects through which triggers, assigners and window functions see the operator.

Each is made once per operator and pointed at the window at hand; the key is always the scope's.
State of triggers and of windows is kept apart from the user's keyed state by a prefix of its name.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from penstock.core.durations import timer_time
from penstock.core.errors import ConfigError
from penstock.core.metrics import MetricGroup
from penstock.operators.operator import OperatorContext
from penstock.operators.runtime_context import KeyedStateStore, RuntimeContext
from penstock.operators.window.assigners import WindowAssigner
from penstock.operators.window.functions import ProcessAllWindowFunction, ProcessWindowFunction
from penstock.operators.window.triggers import Trigger
from penstock.operators.window.windows import Window
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.state.handles import (
    AggregatingState,
    ListState,
    MapState,
    MergingState,
    ReducingState,
    ValueState,
)
from penstock.state.keyed import KeyedState

TRIGGER_PREFIX = "_trigger/"
WINDOW_PREFIX = "_window/state/"


class _Handles:
    """Namespaced state handles, made once per name."""

    def __init__(self, keyed: KeyedState, prefix: str) -> None:
        self._keyed = keyed
        self._prefix = prefix
        self._made: dict[str, Any] = {}

    def get(self, descriptor: StateDescriptor) -> Any:
        """The handle for ``descriptor``, acting on the scope's key and namespace."""
        handle = self._made.get(descriptor.get_name())
        if handle is None:
            prefixed = copy.copy(descriptor)
            prefixed.name = self._prefix + descriptor.get_name()
            handle = self._made[descriptor.get_name()] = self._keyed.private_handle(prefixed, namespaced=True)
        return handle


class AssignerContext(WindowAssigner.WindowAssignerContext):
    """Clock and keyed state for assigners."""

    def __init__(self, ctx: OperatorContext, runtime_context: RuntimeContext) -> None:
        self._clock = ctx.clock
        self._runtime_context = runtime_context

    def get_current_processing_time(self) -> int:
        return self._clock.now_ms()

    def get_runtime_context(self) -> RuntimeContext:
        return self._runtime_context


class TriggerContext(Trigger.OnMergeContext):
    """Timers and state of one window; ``enter`` says which.

    The window's cleanup is a timer too, and may be at the same time as one of the trigger's: it stays
    when the trigger takes that one back, or the window would never be cleaned up.
    """

    window: Window
    merged: list[Window]

    def __init__(
        self, ctx: OperatorContext, cleanup_time: Callable[[Window], int], is_event_time: bool
    ) -> None:
        self._cleanup_time = cleanup_time
        self._is_event_time = is_event_time
        self._clock = ctx.clock
        self._metrics = ctx.metrics
        self._timers = ctx.timers
        self._scope = ctx.keyed.scope
        self._handles = _Handles(ctx.keyed, TRIGGER_PREFIX)

    def enter(self, window: Window, merged: list[Window] | None = None) -> None:
        """Act on ``window`` from now on, which came about by merging ``merged``."""
        self.window = window
        self.merged = merged or []
        self._scope.namespace = window

    def get_current_processing_time(self) -> int:
        return self._clock.now_ms()

    def get_metric_group(self) -> MetricGroup:
        return self._metrics

    def get_current_watermark(self) -> int:
        return self._timers.watermark

    def register_processing_time_timer(self, time: int) -> None:
        self._timers.processing.register(timer_time(time), self._scope.key, self.window)

    def register_event_time_timer(self, time: int) -> None:
        self._timers.event.register(timer_time(time), self._scope.key, self.window)

    def delete_processing_time_timer(self, time: int) -> None:
        whole = timer_time(time)
        if self._is_event_time or whole != self._cleanup_time(self.window):
            self._timers.processing.delete(whole, self._scope.key, self.window)

    def delete_event_time_timer(self, time: int) -> None:
        whole = timer_time(time)
        if not self._is_event_time or whole != self._cleanup_time(self.window):
            self._timers.event.delete(whole, self._scope.key, self.window)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._handles.get(state_descriptor)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        handle = self._handles.get(state_descriptor)
        if not isinstance(handle, MergingState):
            raise ConfigError(
                f"the trigger's state {state_descriptor.get_name()!r} cannot be merged; triggers of windows "
                "that merge keep what they remember in list, reducing or aggregating state"
            )
        handle.merge_namespaces(self.window, self.merged)


class WindowStateStore(KeyedStateStore):
    """State of the scope's key and window."""

    def __init__(self, keyed: KeyedState) -> None:
        self._handles = _Handles(keyed, WINDOW_PREFIX)

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        return self._handles.get(state_descriptor)  # type: ignore[no-any-return]

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._handles.get(state_descriptor)  # type: ignore[no-any-return]

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        return self._handles.get(state_descriptor)  # type: ignore[no-any-return]

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        return self._handles.get(state_descriptor)  # type: ignore[no-any-return]

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        return self._handles.get(state_descriptor)  # type: ignore[no-any-return]


class ProcessContext(ProcessWindowFunction.Context[Any], ProcessAllWindowFunction.Context[Any]):
    """The context of both process functions; the scope's namespace is the window."""

    def __init__(self, ctx: OperatorContext, runtime_context: RuntimeContext, merging: bool) -> None:
        self._clock = ctx.clock
        self._timers = ctx.timers
        self._scope = ctx.keyed.scope
        self._global_state = runtime_context
        self._window_state = None if merging else WindowStateStore(ctx.keyed)

    def window(self) -> Any:
        return self._scope.namespace

    def current_processing_time(self) -> int:
        return self._clock.now_ms()

    def current_watermark(self) -> int:
        return self._timers.watermark

    def window_state(self) -> KeyedStateStore:
        if self._window_state is None:
            raise ConfigError(
                "window_state() cannot be used with windows that merge, such as sessions, because the window "
                "it would belong to changes; use global_state(), which belongs to the key"
            )
        return self._window_state

    def global_state(self) -> KeyedStateStore:
        return self._global_state
