"""Dates and times.  A timestamp without a zone is a wall clock's; one with a zone is a moment."""

from __future__ import annotations

import re
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from penstock.expressions.functions import (
    Arguments,
    Kernel,
    Overload,
    Unfit,
    Value,
    all_null,
    every,
    function,
    once_each,
)
from penstock.expressions.time_rounding import rounding
from penstock.expressions.types import is_moment, is_text

_TEXT, _LONG = pa.string(), pa.int64()
_MS = pa.timestamp("ms")

_FIELDS: dict[str, Kernel] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "week": pc.iso_week,
    "day": pc.day,
    "doy": pc.day_of_year,
    "dow": partial(pc.day_of_week, count_from_zero=False, week_start=7),
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
    "millisecond": pc.millisecond,
}
_OF_DAYS = {"year", "quarter", "month", "week", "day", "doy", "dow"}
_ROUNDED = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond")


@function("extract", 2)
def _extract(arguments: Arguments) -> Overload:
    """``EXTRACT(HOUR FROM t)``: a part of a time, as a number; ``EPOCH`` are seconds since 1970."""
    unit = _unit(arguments, (*_FIELDS, "epoch"))
    kind = arguments.types[1]
    if not is_moment(kind):
        raise Unfit(f"it takes a date or a timestamp, not {kind}")
    if kinds.is_date(kind) and unit not in _OF_DAYS:
        kind = pa.timestamp("s")
    takes = (arguments.types[0], kind)
    if unit == "epoch":
        return Overload(
            takes,
            _LONG,
            lambda _, value: (
                rounding(pc.floor_temporal, "second")(value)
                .cast(pa.timestamp("s", getattr(kind, "tz", None)))
                .cast(_LONG)
            ),
        )
    return Overload(takes, _LONG, lambda _, value: _FIELDS[unit](value).cast(_LONG))


def _unit(arguments: Arguments, known: tuple[str, ...]) -> str:
    unit = str(arguments.constant(0, "the unit")).lower()
    if unit not in known:
        raise Unfit(f"there is no unit {unit!r}; there are {', '.join(known)}")
    return unit


def _rounded(kernel: Kernel, arguments: Arguments) -> Overload:
    unit = _unit(arguments, _ROUNDED)
    kind = arguments.types[1]
    if not is_moment(kind):
        raise Unfit(f"it takes a date or a timestamp, not {kind}")
    rounded = rounding(kernel, unit)
    return Overload(arguments.types, kind, lambda _, value: rounded(value).cast(kind))


function("floor_time", 2)(partial(_rounded, partial(pc.floor_temporal, week_starts_monday=True)))
function("ceil_time", 2)(partial(_rounded, partial(pc.ceil_temporal, week_starts_monday=True)))

# --- texts ---------------------------------------------------------------------------------------

_LETTERS = {
    "yyyy": "%Y",
    "yy": "%y",
    "MM": "%m",
    "MMM": "%b",
    "MMMM": "%B",
    "dd": "%d",
    "HH": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "a": "%p",
    "DDD": "%j",
    "EEE": "%a",
    "EEEE": "%A",
}
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")


def strftime_of(pattern: str) -> tuple[str, bool]:
    """The directives for a pattern such as ``yyyy-MM-dd HH:mm:ss.SSS``, and whether milliseconds end it."""
    found, millis = [], False
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if millis:
            raise Unfit(f"SSS must be the end of the pattern {pattern!r}")
        if token[1] is not None:
            found.append((token[1] or "'").replace("''", "'").replace("%", "%%"))
        elif token[2] is None:
            found.append(text.replace("%", "%%"))
        elif text == "SSS":
            millis = True
        elif text in _LETTERS:
            found.append(_LETTERS[text])
        else:
            raise Unfit(
                f"{text!r} in the pattern {pattern!r} is not known; there are {', '.join(_LETTERS)}, SSS"
            )
    return "".join(found), millis


@function("date_format", 2)
def _date_format(arguments: Arguments) -> Overload:
    """A time as a text, by a pattern of letters."""
    pattern = arguments.constant(1, "the pattern")
    kind = arguments.types[0]
    if not is_moment(kind):
        raise Unfit(f"it takes a date or a timestamp, not {kind}")
    if pattern is None:
        return all_null(arguments.types, _TEXT)
    directives, millis = strftime_of(pattern)
    # Arrow writes a second with the digits of the type's unit.
    tz = getattr(kind, "tz", None)
    to = pa.timestamp("ms" if millis else "s", tz)
    if millis and not directives.endswith("%S."):
        raise Unfit(f"in the pattern {pattern!r}, SSS must follow 'ss.'")
    form = directives.removesuffix(".") if millis else directives
    write = once_each(lambda value: pc.strftime(value.cast(to), format=form))
    unit = "millisecond" if millis else "second" if tz is not None or "%S" in form else "minute"

    floor = rounding(pc.floor_temporal, unit)

    def kernel(value: Value, _: Value) -> Value:
        return write(value if kinds.is_date(kind) else floor(value))

    return Overload(arguments.types, _TEXT, kernel)


@function("to_timestamp", 1, 2)
def _to_timestamp(arguments: Arguments) -> Overload:
    """The time that a text says, null where it says none."""
    every(arguments, is_text, "texts")
    if len(arguments.types) == 1:
        from penstock.expressions.casts import cast_kernel

        kernel, _ = cast_kernel(_TEXT, _MS, tolerant=True)
        return Overload((_TEXT,), _MS, kernel)
    pattern = arguments.constant(1, "the pattern")
    if pattern is None:
        return all_null((_TEXT, _TEXT), _MS)
    directives, millis = strftime_of(pattern)
    if millis:
        raise Unfit("milliseconds are read by to_timestamp without a pattern")
    read = partial(pc.strptime, format=directives, unit="ms", error_is_null=True)
    return Overload((_TEXT, _TEXT), _MS, lambda value, _: read(value))


@function("to_timestamp_ltz", 1, 2)
def _to_timestamp_ltz(arguments: Arguments) -> Overload:
    """The moment so many seconds (0) or milliseconds (3) after 1970."""
    digits = arguments.constant(1, "the precision") if len(arguments.types) == 2 else 3
    if digits not in (0, 3):
        raise Unfit(f"the precision is 0 for seconds or 3 for milliseconds, not {digits}")
    takes = (_LONG, *arguments.types[1:])
    gives = pa.timestamp("ms", "UTC")
    unit = pa.timestamp("s" if digits == 0 else "ms", "UTC")
    return Overload(takes, gives, lambda value, *_: value.cast(unit).cast(gives), fails=digits == 0)


@function("to_date", 1)
def _to_date(arguments: Arguments) -> Overload:
    """The date that a text says or a timestamp falls on; null where a text says none."""
    from penstock.expressions.casts import cast_kernel

    kind = arguments.types[0]
    kernel, _ = cast_kernel(kind, pa.date32(), tolerant=is_text(kind))
    return Overload((kind,), pa.date32(), kernel)


_MICROSECONDS = {
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
}


@function("timestampdiff", 3)
def _timestampdiff(arguments: Arguments) -> Overload:
    """How many whole units lie between two times."""
    unit = _unit(arguments, tuple(_MICROSECONDS))
    for kind in arguments.types[1:]:
        if not is_moment(kind):
            raise Unfit(f"it takes dates or timestamps, not {kind}")
    zone = {getattr(kind, "tz", None) for kind in arguments.types[1:]}
    if len(zone) > 1:
        raise Unfit("one of the times has a time zone and the other not; cast one of them")
    to = pa.timestamp("us", zone.pop())
    size = pa.scalar(_MICROSECONDS[unit])

    def kernel(_: Value, start: Value, end: Value) -> Value:
        between = pc.subtract_checked(end, start).cast(_LONG)
        return pc.divide(between, size)

    return Overload((arguments.types[0], to, to), _LONG, kernel, fails=True)
