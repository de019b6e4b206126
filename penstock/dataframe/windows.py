"""Windows for ``DataFrame.window``: of event time, or of the clock with ``processing_time=True``.

Sizes are durations: ``"1 min"``, a timedelta, or milliseconds.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from penstock.core.durations import to_millis
from penstock.core.errors import ConfigError
from penstock.operators.columnar.cumulative import CumulativePanes
from penstock.operators.columnar.panes import Panes

Size = str | dt.timedelta | int


def _millis(size: Size, what: str, least: int = 1) -> int:
    try:
        found = to_millis(size)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{what} is {size!r}: {error}") from error
    if found < least:
        raise ConfigError(f"{what} is {size!r}, and must be more than nothing")
    return found


@dataclass(frozen=True)
class Tumble:
    """One window after the other."""

    size: Size
    offset: Size = 0
    processing_time: bool = False

    def panes(self) -> Panes:
        """How time is cut."""
        size, offset = _millis(self.size, "the size of a window"), _millis(self.offset, "the offset", 0)
        return Panes(size, size, offset)


@dataclass(frozen=True)
class Slide:
    """Windows that overlap: one of ``size`` begins every ``slide``."""

    size: Size
    slide: Size
    offset: Size = 0
    processing_time: bool = False

    def panes(self) -> Panes:
        """How time is cut."""
        size, slide = _millis(self.size, "the size of a window"), _millis(self.slide, "the slide of windows")
        return Panes(size, slide, _millis(self.offset, "the offset", 0))


@dataclass(frozen=True)
class Cumulate:
    """Windows that grow: one begins every ``size`` and shows what it has so far after each ``step``."""

    size: Size
    step: Size
    offset: Size = 0
    processing_time: bool = False

    def panes(self) -> Panes:
        """How time is cut."""
        size, step = _millis(self.size, "the size of a window"), _millis(self.step, "the step of windows")
        return CumulativePanes(size, step, _millis(self.offset, "the offset", 0))


@dataclass(frozen=True)
class Session:
    """Windows that end when nothing came for ``gap``."""

    gap: Size

    def millis(self) -> int:
        """The gap in milliseconds."""
        return _millis(self.gap, "the gap of sessions")


Window = Tumble | Slide | Session | Cumulate


def needs_event_time(window: Window) -> bool:
    """Whether it is cut by event time."""
    return isinstance(window, Session) or not window.processing_time
