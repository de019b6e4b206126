"""Times rounded to units, also where a zone's clocks are put back.

Arrow rounds what the clocks of a zone show, and fails for an hour that they show twice.
"""

from __future__ import annotations

import pyarrow.compute as pc

from penstock.expressions.functions import Kernel, Value

_WITHIN_A_DAY = ("hour", "minute", "second", "millisecond", "microsecond", "nanosecond")


def rounding(kernel: Kernel, unit: str) -> Kernel:
    """Arrow's rounding ``kernel`` to a unit, of dates and of timestamps with a zone or without."""

    def rounded(value: Value) -> Value:
        zone = getattr(value.type, "tz", None)
        if zone in (None, "UTC"):
            return kernel(value, unit=unit)
        shown = pc.local_timestamp(value)
        found = kernel(shown, unit=unit)
        if unit in _WITHIN_A_DAY:  # as far from the time as it is on the clocks
            return pc.add(value, pc.subtract(found, shown))
        return pc.assume_timezone(found, zone, ambiguous="earliest", nonexistent="latest")

    return rounded
