"""Windows of event time, for ``DataFrame.window``.

Sizes are durations: ``"1 min"``, a timedelta, or milliseconds.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from penstock.common import Time
from penstock.core.durations import to_millis
from penstock.core.errors import ConfigError
from penstock.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

Size = str | dt.timedelta | int


def _time(size: Size, what: str) -> Time:
    try:
        found = to_millis(size)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{what} is {size!r}: {error}") from error
    if found <= 0:
        raise ConfigError(f"{what} is {size!r}, and must be more than nothing")
    return Time.milliseconds(found)


@dataclass(frozen=True)
class Tumble:
    """One window after the other."""

    size: Size

    def assigner(self) -> Any:
        """The assigner of the DataStream API."""
        return TumblingEventTimeWindows.of(_time(self.size, "the size of a window"))


@dataclass(frozen=True)
class Slide:
    """Windows that overlap: one of ``size`` begins every ``slide``."""

    size: Size
    slide: Size

    def assigner(self) -> Any:
        """The assigner of the DataStream API."""
        return SlidingEventTimeWindows.of(
            _time(self.size, "the size of a window"), _time(self.slide, "the slide of windows")
        )


@dataclass(frozen=True)
class Session:
    """Windows that end when nothing came for ``gap``."""

    gap: Size

    def assigner(self) -> Any:
        """The assigner of the DataStream API."""
        return EventTimeSessionWindows.with_gap(_time(self.gap, "the gap of sessions"))


Window = Tumble | Slide | Session
