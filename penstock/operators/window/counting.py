"""Count windows: numbered groups of elements of one key, which fire when they are full.

Results are PyFlink's (only full windows fire), but a window that has fired leaves nothing behind
except the key's element count.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from penstock.core.errors import ConfigError
from penstock.core.type_vars import T
from penstock.operators.window.assigners import WindowAssigner
from penstock.operators.window.triggers import CountTrigger, PurgingTrigger, Trigger
from penstock.operators.window.windows import CountWindow, CountWindowSerializer
from penstock.state.descriptors import ValueStateDescriptor
from penstock.state.handles import ValueState


class _CountWindows(WindowAssigner[T, CountWindow]):
    """Window ``n`` holds ``size`` elements of the key, from number ``n * slide`` on."""

    def __init__(self, window_size: int, window_slide: int, state_name: str) -> None:
        if window_size <= 0 or window_slide <= 0:
            raise ConfigError(
                f"{type(self).__name__} with size {window_size} and slide {window_slide}: "
                "both must be above 0 elements"
            )
        self.size = window_size
        self._slide = window_slide
        self.seen = ValueStateDescriptor(state_name)
        """The state that says how many elements a key has had."""

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        seen = self._seen_state(context)
        number = seen.value() or 0
        seen.update(number + 1)
        last = number // self._slide
        first = max(0, (number - self.size) // self._slide + 1)
        return [CountWindow(n) for n in range(last, first - 1, -1)]

    def is_complete(self, window: CountWindow, context: WindowAssigner.WindowAssignerContext) -> bool:
        seen = self._seen_state(context).value() or 0
        return bool(seen >= window.id * self._slide + self.size)

    def _seen_state(self, context: WindowAssigner.WindowAssignerContext) -> ValueState[Any]:
        return context.get_runtime_context().get_state(self.seen)

    def get_default_trigger(self, env: Any) -> Trigger[T, CountWindow]:
        """Fires when the window is full, and frees what it held."""
        return PurgingTrigger.of(CountTrigger.of(self.size))

    def get_window_serializer(self) -> CountWindowSerializer:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size}, {self._slide})"


class CountTumblingWindowAssigner(_CountWindows[T]):
    """Groups of ``window_size`` elements that do not overlap."""

    def __init__(self, window_size: int) -> None:
        super().__init__(window_size, window_size, "tumble-count-assigner")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner[Any]:
        """Groups of ``window_size`` elements."""
        return CountTumblingWindowAssigner(window_size)


class CountSlidingWindowAssigner(_CountWindows[T]):
    """Groups of ``window_size`` elements, a new one beginning every ``window_slide`` elements."""

    def __init__(self, window_size: int, window_slide: int) -> None:
        super().__init__(window_size, window_slide, "slide-count-assigner")

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner[Any]:
        """Groups of ``window_size`` elements, one every ``window_slide``."""
        return CountSlidingWindowAssigner(window_size, window_slide)
