"""The times of timers, as functions hand them over."""

from __future__ import annotations

import math
import operator
from typing import SupportsFloat, SupportsIndex

from penstock.core.errors import TimestampError


def timer_time(time: SupportsIndex | SupportsFloat) -> int:
    """``time`` without its fraction, as PyFlink takes it. Raises :class:`TimestampError` if it is no number.

    ``time.time() * 1000`` is a float, and a timer that kept the fraction would be another one than
    the timer at the same millisecond.
    """
    if type(time) is int:
        return time
    if isinstance(time, SupportsIndex):
        return operator.index(time)
    if isinstance(time, SupportsFloat) and math.isfinite(time):
        return math.trunc(float(time))
    raise TimestampError(f"a timer's time must be a number of milliseconds, but is {time!r:.80}")
