"""Parts of keys as text: the same for all objects that are equal, in every thread and process.

The hash and RocksDB's row keys are made of these, so they are part of the snapshot format.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
from typing import Any

_EXACT = decimal.Context(
    prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, capitals=1, clamp=0, traps=[]
)
"""A thread's own context would round, and write in its own way."""
_LONG_BITS = 13_000
"""Python refuses to write integers of more than 4,300 digits in decimal."""


def is_plain_member(value: Any) -> bool:
    """Whether a value is a member of an Enum that is equal to nothing but itself."""
    return isinstance(value, enum.Enum) and type(value)._member_type_ is object  # type: ignore[attr-defined]


def int_text(number: int) -> str:
    """An integer of any size."""
    return str(number) if number.bit_length() < _LONG_BITS else hex(number)


def number_of(value: decimal.Decimal) -> int | float | str:
    """The integer or double that a decimal number is equal to; its shortest text if there is none."""
    if not value.is_finite():
        return float(value) if value.is_infinite() else float("nan")
    if value == value.to_integral_value(context=_EXACT):
        return int(value)
    if float(value) == value:
        return float(value)
    return _EXACT.to_sci_string(value.normalize(_EXACT))


def time_text(value: dt.date | dt.time | dt.timedelta) -> str:
    """A date, time of day, moment or span."""
    if isinstance(value, dt.datetime):
        return "datetime:" + moment_text(value)
    if isinstance(value, dt.date):
        return "date:" + dt.date.isoformat(value)
    if isinstance(value, dt.time):
        return "time:" + _time_of_day(value)
    nanoseconds = getattr(value, "nanoseconds", 0)
    plain = dt.timedelta(value.days, value.seconds, value.microseconds)
    return f"timedelta:{plain}" + _nanoseconds(nanoseconds)


def moment_text(value: dt.datetime) -> str:
    """A moment: in UTC if it is one of the world's, else as it stands."""
    nanoseconds = getattr(value, "nanosecond", 0)
    plain: dt.datetime = value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value
    if plain.utcoffset() is None:
        return dt.datetime.isoformat(plain.replace(tzinfo=None), " ") + _nanoseconds(nanoseconds)
    return dt.datetime.isoformat(plain.astimezone(dt.UTC)) + _nanoseconds(nanoseconds)


def _time_of_day(value: dt.time) -> str:
    offset = value.utcoffset()
    if offset is None:
        return dt.time.isoformat(value.replace(tzinfo=None))
    seconds = value.hour * 3600 + value.minute * 60 + value.second
    return f"{seconds - offset.days * 86_400 - offset.seconds}s{value.microsecond}"


def _nanoseconds(count: int) -> str:
    """Those of pandas that Python's own types do not have."""
    return f"+{count}ns" if count else ""
