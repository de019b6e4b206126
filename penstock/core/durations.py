"""Lengths of time, times of timers and sizes of memory, in every form a program may write them.

:class:`Duration`, :class:`Time`, ``datetime.timedelta``, an ``int`` of milliseconds and text such as
``"10 s"`` are interchangeable: whoever takes a length of time calls :func:`to_millis` once, at the
edge, and works with milliseconds from there on.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from dataclasses import dataclass
from typing import SupportsFloat, SupportsIndex

from penstock.core.errors import ConfigError, TimestampError

_MILLI = 1_000_000
_UNITS: dict[str, int] = {
    name: nanos
    for names, nanos in (
        ("ns nano nanos nanosecond nanoseconds", 1),
        ("us µs micro micros microsecond microseconds", 1_000),
        ("ms milli millis millisecond milliseconds", _MILLI),
        ("s sec secs second seconds", 1_000 * _MILLI),
        ("m min mins minute minutes", 60_000 * _MILLI),
        ("h hour hours", 3_600_000 * _MILLI),
        ("d day days", 86_400_000 * _MILLI),
    )
    for name in names.split()
}
_SIZES: dict[str, int] = {
    name: 1024**power
    for power, names in enumerate(
        (
            "b byte bytes",
            "k kb kib kibibytes",
            "m mb mib mebibytes",
            "g gb gib gibibytes",
            "t tb tib tebibytes",
        )
    )
    for name in names.split()
}
_NUMBER_AND_UNIT = re.compile(r"\s*(\d+)\s*([^\W\d]*)\s*", re.UNICODE)


@dataclass(frozen=True, order=True, slots=True)
class Duration:
    """A length of time, exact to the nanosecond. Built by the ``of_`` methods.

    >>> Duration.of_seconds(90).to_milliseconds(), Duration.of_minutes(2) > Duration.of_seconds(90)
    (90000, True)

    Whatever takes one also takes a ``Time``, a ``timedelta``, milliseconds, or text such as ``"90 s"``.
    """

    nanos: int

    @staticmethod
    def of_days(days: int) -> Duration:
        """Days of 24 hours."""
        return Duration(days * _UNITS["d"])

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Hours."""
        return Duration(hours * _UNITS["h"])

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Minutes."""
        return Duration(minutes * _UNITS["min"])

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Seconds."""
        return Duration(seconds * _UNITS["s"])

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Milliseconds."""
        return Duration(millis * _MILLI)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Nanoseconds; the engine counts in milliseconds and rounds down."""
        return Duration(nanos)

    def to_milliseconds(self) -> int:
        """Whole milliseconds, rounded down."""
        return self.nanos // _MILLI

    def __repr__(self) -> str:
        return f"Duration({_spell(self.nanos)})"


@dataclass(frozen=True, order=True, slots=True, init=False)
class Time:
    """A length of time in milliseconds: what PyFlink's windows take. ``Duration`` does as well.

    >>> Time.minutes(1).to_milliseconds()
    60000
    """

    millis: int

    def __init__(self, milliseconds: int) -> None:
        object.__setattr__(self, "millis", milliseconds)

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """Milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """Seconds."""
        return Time(seconds * 1_000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """Minutes."""
        return Time(minutes * 60_000)

    @staticmethod
    def hours(hours: int) -> Time:
        """Hours."""
        return Time(hours * 3_600_000)

    @staticmethod
    def days(days: int) -> Time:
        """Days of 24 hours."""
        return Time(days * 86_400_000)

    def to_milliseconds(self) -> int:
        """The length in milliseconds."""
        return self.millis

    def __repr__(self) -> str:
        return f"Time({_spell(self.millis * _MILLI)})"


@dataclass(frozen=True, order=True, slots=True)
class Instant:
    """A point in time: seconds since 1970-01-01 UTC and nanoseconds within that second.

    >>> Instant.of_epoch_milli(1500)
    Instant<1, 500000000>
    """

    seconds: int
    nanos: int

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """The instant so many milliseconds after the epoch (before it, if negative)."""
        seconds, millis = divmod(epoch_milli, 1000)
        return Instant(seconds, millis * _MILLI)

    def to_epoch_milli(self) -> int:
        """Milliseconds since the epoch, rounded down."""
        return self.seconds * 1000 + self.nanos // _MILLI

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


DurationLike = Duration | Time | dt.timedelta | int | str
"""Every form of a length of time."""


def to_millis(length: DurationLike) -> int:
    """Milliseconds of ``length``, rounded down; :class:`ConfigError` lists the accepted forms."""
    if isinstance(length, Duration | Time):
        return length.to_milliseconds()
    if isinstance(length, dt.timedelta):
        return length // dt.timedelta(milliseconds=1)
    if isinstance(length, int) and not isinstance(length, bool):
        return length
    nanos = _amount(length, _UNITS, _MILLI) if isinstance(length, str) else None
    if nanos is None:
        raise ConfigError(
            f"cannot read {length!r} as a length of time; write a Duration, a Time, a "
            "datetime.timedelta, milliseconds as an int, or text: a whole number and one of "
            "ns, us, ms, s, min, h, d, as in '500 ms', '10 s', '1 min', '2 d' (no unit means ms)"
        )
    return nanos // _MILLI


def to_bytes(size: int | str) -> int:
    """Bytes of a memory size such as ``"128mb"``, ``"20 kb"`` or a plain number of bytes."""
    if isinstance(size, int) and not isinstance(size, bool):
        return size
    count = _amount(size, _SIZES, 1) if isinstance(size, str) else None
    if count is None:
        raise ConfigError(
            f"cannot read {size!r} as a memory size; write bytes as an int, or text: a whole number "
            "and one of b, kb, mb, gb, tb, as in '20 kb' or '128mb' (no unit means bytes)"
        )
    return count


def age(milliseconds: float) -> str:
    """A length of time, in its two largest units."""
    seconds = max(0, int(milliseconds / 1000))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    if seconds < 86400:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 86400} d {seconds % 86400 // 3600} h"


def _amount(text: str, units: dict[str, int], default: int) -> int | None:
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None:
        return None
    number, unit = match.groups()
    factor = units.get(unit.lower()) if unit else default
    return None if factor is None else int(number) * factor


def _spell(nanos: int) -> str:
    for unit in ("d", "h", "min", "s", "ms"):
        if nanos % _UNITS[unit] == 0 and nanos:
            return f"{nanos // _UNITS[unit]} {unit}"
    return f"{nanos} ns" if nanos else "0 ms"


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
