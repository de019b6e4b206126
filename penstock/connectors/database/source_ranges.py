"""A table divided into ranges of its leading column, each a split.

Values become whole numbers (cents, days, microseconds), the numbers are divided, and become values
again.  A range includes both its ends: so there is none that the column's type could not hold.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from itertools import pairwise
from typing import Any

from penstock.connectors.database.source_types import Column, KeyKind
from penstock.connectors.source import Split
from penstock.core.errors import ConfigError

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_EXACT = Context(prec=1000)
"""Python's own would round what has more than 28 digits."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """What a split is about: rows whose leading column is between these, both included."""

    lower: Any = None
    """``None``: no limit."""
    upper: Any = None
    nulls: bool = False
    """The rows without a value instead."""

    def conditions(self, leading: str) -> tuple[list[str], list[Any]]:
        """SQL and its parameters; ``leading`` is the quoted column."""
        if self.nulls:
            return [f"{leading} IS NULL"], []
        limits = [(f"{leading} >= %s", self.lower), (f"{leading} <= %s", self.upper)]
        given = [(sql, value) for sql, value in limits if value is not None]
        if not given:
            return [f"{leading} IS NOT NULL"], []
        return [sql for sql, _ in given], [value for _, value in given]


def divide(column: Column, lower: Any, upper: Any, ranges: int) -> list[KeyRange]:
    """At most ``ranges`` ranges of about equal width; ``lower`` and ``upper`` are read, too."""
    first, last = to_number(column, lower, ROUND_CEILING), to_number(column, upper, ROUND_FLOOR)
    total = last - first + 1
    ranges = min(ranges, total)
    edges = [first + total * k // ranges for k in range(ranges + 1)] if total > 0 else []
    return [
        KeyRange(to_value(column, low, lower), to_value(column, high - 1, lower))
        for low, high in pairwise(edges)
    ]


def to_number(column: Column, value: Any, rounding: str) -> int:
    """A value of a divisible column as a whole number; a bound may have more digits than the column."""
    match column.kind, value:
        case KeyKind.INTEGER, int():
            return value
        case KeyKind.DECIMAL, Decimal() | int() if Decimal(value).is_finite():
            return int(_EXACT.scaleb(Decimal(value), column.scale).to_integral_value(rounding, _EXACT))
        case KeyKind.TIMESTAMP, dt.datetime():
            aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return (aware - _EPOCH) // _MICROSECOND
        case KeyKind.DATE, dt.date() if not isinstance(value, dt.datetime):
            return value.toordinal()
    raise ConfigError(
        f"{value!r} is no bound for column {column.name!r} of type {column.declared}; give a value of "
        f"{column.kind.value}"
    )


def to_value(column: Column, number: int, like: Any) -> Any:
    """The inverse of :func:`to_number`; a timestamp has a zone if ``like`` has one."""
    match column.kind:
        case KeyKind.DECIMAL:
            return _EXACT.scaleb(Decimal(number), -column.scale)
        case KeyKind.DATE:
            return dt.date.fromordinal(number)
        case KeyKind.TIMESTAMP:
            value = _EPOCH + number * _MICROSECOND
            return value if like.tzinfo else value.replace(tzinfo=None)
        case _:
            return number


def as_splits(table: str, ranges: list[KeyRange]) -> list[Split]:
    """A split per range, numbered from 0."""
    return [Split(f"{table}[{number}]", part) for number, part in enumerate(ranges)]
