"""Session windows: an element opens a window as long as the gap, and windows that touch merge.

An element exactly one gap after the last still extends the session.  Unlike windows of fixed size,
sessions do not refuse elements without a timestamp: these meet in one session before all time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any

from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import ConfigError
from penstock.core.type_vars import T
from penstock.operators.window.assigners import ByProcessingTime, MergingWindowAssigner, TimeWindowAssigner
from penstock.operators.window.windows import TimeWindow, merge_spans


class SessionWindowTimeGapExtractor(ABC):
    """Reads the session gap from an element."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """The gap in milliseconds, above 0."""


class _SessionWindows(TimeWindowAssigner[T], MergingWindowAssigner[T, TimeWindow]):
    """What all session assigners share; subclasses give the gap and the time domain."""

    @abstractmethod
    def gap_of(self, element: T) -> int:
        """The gap that follows ``element``, in milliseconds."""

    def windows_at(self, element: T, time: int) -> Collection[TimeWindow]:
        return (TimeWindow(time, time + self.gap_of(element)),)

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        merge_spans(windows, callback.merge)


class _FixedGap(_SessionWindows[T]):
    """The same gap after every element."""

    def __init__(self, session_gap: int) -> None:
        if session_gap <= 0:
            raise ConfigError(f"the gap of a session must be above 0 ms; got {session_gap}")
        self._gap = session_gap

    @property
    def gap(self) -> int:
        """The gap in milliseconds."""
        return self._gap

    def gap_of(self, element: T) -> int:
        return self._gap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._gap})"


class _DynamicGap(_SessionWindows[T]):
    """A gap that each element brings along."""

    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        self._extractor = session_window_time_gap_extractor

    def gap_of(self, element: T) -> int:
        gap = self._extractor.extract(element)
        if gap <= 0:
            raise ConfigError(
                f"{type(self._extractor).__name__}.extract gave {gap}; a session's gap must be above 0 ms"
            )
        return gap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self._extractor).__name__})"


class EventTimeSessionWindows(_FixedGap[T]):
    """Sessions by event time with a fixed gap."""

    @staticmethod
    def with_gap(size: DurationLike) -> EventTimeSessionWindows[Any]:
        """Sessions that end after ``size`` without an element."""
        return EventTimeSessionWindows(to_millis(size))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows[Any]:
        """Sessions whose gap ``extractor`` reads from each element."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(ByProcessingTime[T], _FixedGap[T]):
    """Sessions by the clock with a fixed gap."""

    @staticmethod
    def with_gap(size: DurationLike) -> ProcessingTimeSessionWindows[Any]:
        """Sessions that end after ``size`` without an element."""
        return ProcessingTimeSessionWindows(to_millis(size))

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor,
    ) -> DynamicProcessingTimeSessionWindows[Any]:
        """Sessions whose gap ``extractor`` reads from each element."""
        return DynamicProcessingTimeSessionWindows(extractor)


class DynamicEventTimeSessionWindows(_DynamicGap[T]):
    """Sessions by event time whose gap comes from the element."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows[Any]:
        """Sessions whose gap ``extractor`` reads from each element."""
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(ByProcessingTime[T], _DynamicGap[T]):
    """Sessions by the clock whose gap comes from the element."""

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor,
    ) -> DynamicProcessingTimeSessionWindows[Any]:
        """Sessions whose gap ``extractor`` reads from each element."""
        return DynamicProcessingTimeSessionWindows(extractor)
