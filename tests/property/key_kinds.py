"""Keys of all kinds, and pairs of them that are one key to Python."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from hypothesis import assume
from hypothesis import strategies as st

from penstock.core.row import Row

EXACT = decimal.Context(prec=200)
ZONES = (dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=30)), ZoneInfo("Europe/Warsaw"), ZoneInfo("UTC"))
NEGATIVE_NAN = np.array([0xFFF8000000000001], np.uint64).view(np.float64)[0]


class Text(str):
    """A text with a class of its own."""


class Whole(int):
    """A number with a class of its own."""


class Day(dt.date):
    """A date with a class of its own."""


class Moment(dt.datetime):
    """A time with a class of its own."""


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    A = "a"
    B = "b"


class Holiday(dt.date, enum.Enum):
    """Members that are equal to plain dates."""

    LABOUR = (2024, 5, 1)


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass(frozen=True)
class Place:
    name: Any
    seen: int = dataclasses.field(default=0, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Spot:
    x: Any
    y: Any


Dress = Callable[[Any], Any]
_NUMBERS: tuple[Any, ...] = (
    float, bool, Whole, np.float64, np.float32, np.float16, np.int64, np.int8, np.uint64, np.bool_,
)  # fmt: skip


def _numbers(value: Any) -> list[Any]:
    """A whole number or a double in all types that hold it exactly."""
    found: list[Any] = [value, decimal.Decimal(value), decimal.Decimal(value).scaleb(0, EXACT)]
    found.append(decimal.Decimal(f"{decimal.Decimal(value)!s}") + decimal.Decimal(0))
    for kind in _NUMBERS:
        try:
            with np.errstate(all="ignore"):
                found.append(kind(value))
        except (OverflowError, ValueError, TypeError):
            continue
    found += [level for level in Level if level == value]
    return [other for other in found if _same(other, value)]


def _decimals(value: decimal.Decimal) -> list[Any]:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return [value, decimal.Decimal((sign, (*digits, 0, 0), exponent - 2))]


def _texts(value: str) -> list[Any]:
    return [value, Text(value), np.str_(value), *(word for word in Word if word == value)]


def _bytes(value: bytes) -> list[Any]:
    return [other for other in (value, np.bytes_(value)) if other == value]


def _moments(value: dt.datetime) -> list[Any]:
    stamp = pd.Timestamp(value)
    found: list[Any] = [value, Moment.fromisoformat(value.isoformat()), stamp, stamp.as_unit("ns")]
    if value.tzinfo is not None:
        found += [value.astimezone(zone) for zone in ZONES]
        found += [stamp.tz_convert(zone) for zone in ZONES]
    else:
        found += [value.replace(fold=1)]
    return [other for other in found if _same(other, value)]


def _spans(value: dt.timedelta) -> list[Any]:
    return [value, pd.Timedelta(value), pd.Timedelta(value).as_unit("ns")]


def _times(value: dt.time) -> list[Any]:
    found: list[Any] = [value, value.replace(fold=1)]
    if value.utcoffset() is not None and value.hour < 23:
        later = dt.timezone(dt.timedelta(hours=1))
        found.append(value.replace(hour=value.hour + 1, tzinfo=later))
    return [other for other in found if _same(other, value)]


def _dates(value: dt.date) -> list[Any]:
    return [value, Day(value.year, value.month, value.day), *(day for day in Holiday if day == value)]


def _alike(value: Any) -> list[Any]:
    return [value]


def _same(one: Any, other: Any) -> bool:
    try:
        with np.errstate(all="ignore"):
            return bool(one == other) and hash(one) == hash(other)
    except (TypeError, ValueError, OverflowError, NotImplementedError):
        return False


NANS = [float("nan"), np.nan, -float("nan"), NEGATIVE_NAN, np.float32("nan"), decimal.Decimal("NaN")]
_DAYS = (dt.datetime.fromisoformat("1900-01-01"), dt.datetime.fromisoformat("2200-01-01"))
_WHOLE = st.one_of(st.integers(-3, 3), st.integers(-(2**70), 2**70), st.integers(-(2**63), 2**63))
_BASES: list[tuple[st.SearchStrategy[Any], Dress]] = [
    (_WHOLE, _numbers),
    (st.floats(allow_nan=False), _numbers),
    (st.decimals(allow_nan=False, allow_infinity=False, places=40), _decimals),
    (st.decimals(allow_nan=False, allow_infinity=False), _decimals),
    (st.one_of(st.text(max_size=8), st.sampled_from(["a", "b"])), _texts),
    (st.binary(max_size=8), _bytes),
    (st.datetimes(*_DAYS), _moments),
    (st.datetimes(*_DAYS, timezones=st.sampled_from(ZONES)), _moments),
    (st.timedeltas(dt.timedelta(-9999), dt.timedelta(9999)), _spans),
    (st.times(), _times),
    (st.times(timezones=st.sampled_from(ZONES[:2])), _times),
    (st.one_of(st.dates(), st.just(dt.date(2024, 5, 1))), _dates),
    (st.uuids(), lambda value: [value, uuid.UUID(int=value.int)]),
    (st.sampled_from([*Colour, *Rights, Rights.READ | Rights.WRITE, Rights(0)]), _alike),
    (st.builds(pd.Timestamp, st.integers(0, 2**60)), _alike),
    (st.builds(pd.Timedelta, st.integers(0, 2**60)), _alike),
    (st.just(0), lambda value: NANS),
]


@st.composite
def _scalar_pair(draw: st.DrawFn) -> tuple[Any, Any]:
    base, dressed = draw(st.sampled_from(_BASES))
    forms = dressed(draw(base))
    one, other = draw(st.sampled_from(forms)), draw(st.sampled_from(forms))
    # Not transitive: Decimal and numpy, or pandas and subclasses of datetime, cannot be compared at all.
    assume(forms is NANS or _same(one, other) or isinstance(other, np.generic))
    return one, other


@st.composite
def _nested_pair(draw: st.DrawFn) -> tuple[Any, Any]:
    left, right = draw(_scalar_pair()), draw(st.one_of(_scalar_pair(), st.just((None, None))))
    one, other = (left[0], right[0]), (left[1], right[1])
    makes: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
        (lambda *v: tuple(v), lambda *v: tuple(v)),
        (lambda *v: tuple(v), Pair),
        (Pair, Pair),
        (Row, Row),
        (lambda a, b: Row(a=a, b=b), lambda a, b: Row(a=a, b=b)),
        (Spot, Spot),
        (lambda a, b: Place((a, b), 1), lambda a, b: Place((a, b), 2)),
        (lambda a, b: (a, (b,)), lambda a, b: (a, (b,))),
    ]
    first, second = draw(st.sampled_from(makes))
    return first(*one), second(*other)


EQUAL_PAIRS = st.one_of(_scalar_pair(), _nested_pair())
"""Two objects that are one key."""
ANY_KEY = EQUAL_PAIRS.map(lambda pair: pair[0])
