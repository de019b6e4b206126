"""Which windows an element belongs to: the contract, and windows of fixed size.

Sessions are in ``sessions``, count windows in ``counting``.  ``of`` takes lengths of
time in any form, constructors take milliseconds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Generic

from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import ConfigError
from penstock.core.ids import MIN_TIME
from penstock.core.type_vars import T
from penstock.operators.runtime_context import RuntimeContext
from penstock.operators.window.triggers import (
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    Trigger,
    no_timestamp,
)
from penstock.operators.window.windows import (
    W2,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    W,
)


class WindowAssigner(ABC, Generic[T, W]):
    """Says which windows an element belongs to.

    Called by the operator for every element, with the element's key current.  An assigner is
    shipped to every subtask and must not change while it runs: what it counts goes into keyed state,
    through ``context.get_runtime_context()``.
    """

    class WindowAssignerContext(ABC):
        """What an assigner may ask for."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The clock, in milliseconds."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Keyed state and facts about the subtask."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
        """The windows of ``element``; an element that has none is dropped without a word."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """The trigger used unless the user names another."""

    @abstractmethod
    def get_window_serializer(self) -> Any:
        """Binary form of this assigner's windows."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows end by watermark, not by the clock."""

    def is_complete(self, window: W, context: WindowAssigner.WindowAssignerContext) -> bool:
        """Whether no element can join ``window`` any more, whatever the time.

        Asked for the current key after the window was purged: a complete window is then forgotten
        altogether.  Only count windows know.
        """
        return False


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows grow together, as sessions do."""

    class MergeCallback(ABC, Generic[W2]):
        """Receives the decisions of ``merge_windows``."""

        @abstractmethod
        def merge(self, to_be_merged: Collection[W2], merge_result: W2) -> None:
            """Let ``merge_result`` take the place of the windows in ``to_be_merged``."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W]) -> None:
        """Tell ``callback`` which of ``windows``, all of one key, become one."""


def floor_start(timestamp: int, offset: int, step: int) -> int:
    """The latest window start at or before ``timestamp``; an error if there is no timestamp."""
    if timestamp == MIN_TIME:
        raise no_timestamp()
    return timestamp - (timestamp - offset) % step


class TimeWindowAssigner(WindowAssigner[T, TimeWindow]):
    """Assigns windows of time, by the timestamps of elements."""

    @abstractmethod
    def windows_at(self, element: T, time: int) -> Collection[TimeWindow]:
        """The windows of an element that is placed at ``time``."""

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self.windows_at(element, timestamp)

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        return EventTimeTrigger()

    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return True


class ByProcessingTime(TimeWindowAssigner[T]):
    """Assigns them by the clock, whatever the timestamps."""

    wall_clock = "has processing-time windows"

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self.windows_at(element, context.get_current_processing_time())

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False


class _FixedWindows(TimeWindowAssigner[T]):
    """Windows of ``size`` that start every ``slide`` milliseconds, shifted by ``offset``."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        if size <= 0 or slide <= 0 or abs(offset) >= slide:
            raise ConfigError(
                f"{type(self).__name__} with size {size} ms, slide {slide} ms and offset {offset} ms: "
                "size and slide must be above 0, and the offset nearer to 0 than the slide "
                "(for tumbling windows: than the size)"
            )
        self.size = size
        self.slide = slide
        self.offset = offset

    def windows_at(self, element: T, time: int) -> list[TimeWindow]:
        """All windows that hold ``time``, the latest first."""
        size = self.size
        start = floor_start(time, self.offset, self.slide)
        return [TimeWindow(at, at + size) for at in range(start, time - size, -self.slide)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size}, {self.slide}, {self.offset})"


class TumblingEventTimeWindows(_FixedWindows[T]):
    """Each timestamp falls into exactly one window."""

    def __init__(self, size: int, offset: int) -> None:
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: DurationLike, offset: DurationLike | None = None) -> TumblingEventTimeWindows[Any]:
        """Windows of ``size``, aligned to 1970 plus ``offset``."""
        return TumblingEventTimeWindows(to_millis(size), _offset(offset))


class TumblingProcessingTimeWindows(ByProcessingTime[T], _FixedWindows[T]):
    """Each moment falls into exactly one window."""

    def __init__(self, size: int, offset: int) -> None:
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: DurationLike, offset: DurationLike | None = None) -> TumblingProcessingTimeWindows[Any]:
        """Windows of ``size``, aligned to 1970 plus ``offset``."""
        return TumblingProcessingTimeWindows(to_millis(size), _offset(offset))


class SlidingEventTimeWindows(_FixedWindows[T]):
    """Windows that overlap if ``slide`` is shorter than ``size``, and leave gaps if it is longer."""

    @staticmethod
    def of(
        size: DurationLike, slide: DurationLike, offset: DurationLike | None = None
    ) -> SlidingEventTimeWindows[Any]:
        """Windows of ``size``, one starting every ``slide``."""
        return SlidingEventTimeWindows(to_millis(size), to_millis(slide), _offset(offset))


class SlidingProcessingTimeWindows(ByProcessingTime[T], _FixedWindows[T]):
    """The same by the clock."""

    @staticmethod
    def of(
        size: DurationLike, slide: DurationLike, offset: DurationLike | None = None
    ) -> SlidingProcessingTimeWindows[Any]:
        """Windows of ``size``, one starting every ``slide``."""
        return SlidingProcessingTimeWindows(to_millis(size), to_millis(slide), _offset(offset))


def _offset(offset: DurationLike | None) -> int:
    return 0 if offset is None else to_millis(offset)


class GlobalWindows(WindowAssigner[T, GlobalWindow]):
    """Everything of a key in one window, which fires only if you give it a trigger that does."""

    def __init__(self, trigger: Trigger[Any, GlobalWindow] | None = None) -> None:
        self._trigger = NeverTrigger() if trigger is None else trigger

    @staticmethod
    def create() -> GlobalWindows[Any]:
        """The assigner."""
        return GlobalWindows()

    @staticmethod
    def create_with_end_of_stream_trigger() -> GlobalWindows[Any]:
        """The assigner with a trigger that fires once, when a bounded input has ended."""
        return GlobalWindows(EndOfStreamTrigger())

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        return (GlobalWindow.get(),)

    def get_default_trigger(self, env: Any) -> Trigger[T, GlobalWindow]:
        return self._trigger

    def get_window_serializer(self) -> GlobalWindowSerializer:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"
