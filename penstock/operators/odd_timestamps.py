"""Event times that can hardly be meant: said once, by the place that makes watermarks of them.

* A watermark more than a day ahead of the clock: one record from the year 2100 makes all others late.
* Seconds where milliseconds are expected: read as milliseconds, today's are in January 1970.

Programs that count event time from zero, as tests and examples do, are left alone: times are taken for
seconds only if all of the first ones lie, as seconds, within twenty years of the clock.  As milliseconds that
is two to four weeks after zero, where no count from zero begins.
"""

from __future__ import annotations

import datetime as dt

from penstock.core.batch import Times
from penstock.core.ids import MAX_TIME, EventTime
from penstock.operators.operator import OperatorContext

FAR_AHEAD = "far ahead"
SECONDS = "seconds"
_DAY_MS = 86_400_000
_NEAR_S = 20 * 365 * 86_400
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FINER = ((1_000, "microseconds"), (1_000_000, "nanoseconds"))


class OddTimes:
    """Looks at the first records, and at each watermark; a comparison each."""

    def __init__(self, ctx: OperatorContext, now_ms: int) -> None:
        self._ctx = ctx
        self._now_ms = now_ms
        self._limit = now_ms + _DAY_MS
        self.seen = False
        """Whether there were records with times."""

    def first(self, times: Times | None) -> None:
        """The first records have come."""
        if times is None:
            return
        self.seen = True
        lowest, highest = int(times.min()), int(times.max())
        if looks_like_seconds(lowest, self._now_ms) and looks_like_seconds(highest, self._now_ms):
            self._ctx.remark(
                SECONDS,
                f"event times are milliseconds, but the first ones here ({lowest:,} to {highest:,}) look "
                f"like seconds: as milliseconds they are {_moment(lowest)}, as seconds "
                f"{_moment(lowest * 1000)}. "
                "Have the timestamp assigner multiply them by 1000",
            )

    def watermark(self, time: EventTime) -> None:
        """Event time has come this far."""
        if time <= self._limit or time == MAX_TIME:
            return
        now = self._ctx.clock.now_ms()
        self._limit = now + _DAY_MS
        if time > self._limit:
            self._limit = MAX_TIME  # once is enough
            self._ctx.remark(FAR_AHEAD, _ahead(time, now))


def looks_like_seconds(time: int, now_ms: int) -> bool:
    """Whether a time is within twenty years of the clock if it is taken for seconds.

    A clock that itself is in the first years of the epoch is a test's.
    """
    return now_ms > 1000 * _NEAR_S and abs(time - now_ms // 1000) < _NEAR_S


def _ahead(time: int, now_ms: int) -> str:
    for factor, unit in _FINER:
        if abs(time // factor - now_ms) < 1000 * _NEAR_S:
            return (
                f"event times are milliseconds, but the watermark, {time:,}, looks like {unit}: as those it "
                f"would be {_moment(time // factor)}. Have the timestamp assigner divide them by {factor:,}"
            )
    days = (time - now_ms) // _DAY_MS
    return (
        f"the watermark is at {_moment(time)}, {days:,} days ahead of the clock: records of the present are "
        "late from here on, and windows and joins drop them. If a wrong timestamp has done that, filter such "
        "records out, or give the watermark strategy with_max_ahead, which does not believe them; if event "
        "time is meant to be ahead, all is well"
    )


def _moment(time: int) -> str:
    """A readable event time; plain milliseconds if it is outside the calendar."""
    try:
        return (_EPOCH + dt.timedelta(milliseconds=time)).isoformat(" ", "seconds")
    except OverflowError:
        return f"{time:,} ms"
