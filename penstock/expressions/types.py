"""Which types meet in one: the rules by which arguments are cast before a function sees them."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from penstock.core.decimals import MOST_DIGITS, mean_of_decimals, sum_of_decimals
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError

_KEPT_DECIMALS = 6
"""So many digits behind the point stay where there are too many of them."""
_SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_DIGITS_OF = {8: 3, 16: 5, 32: 10, 64: 19}
_UNITS = ("s", "ms", "us", "ns")


class NoCommonType(ConfigError):
    """Two types that do not meet; the expression is added by who knows it."""

    code = Code.ARGUMENT_TYPES


def is_number(kind: pa.DataType) -> bool:
    """Whether arithmetic works on it."""
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether functions of texts work on it."""
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def is_moment(kind: pa.DataType) -> bool:
    """A date or a timestamp."""
    return bool(kinds.is_date(kind) or kinds.is_timestamp(kind))


def plain(kind: pa.DataType) -> pa.DataType:
    """The type that functions see: what a dictionary's codes stand for, and texts of one layout."""
    if kinds.is_dictionary(kind):
        return plain(kind.value_type)
    if kinds.is_string_view(kind):
        return pa.string()
    return kind


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type in which both are compared, or become one column."""
    if left.equals(right) or kinds.is_null(right):
        return left
    if kinds.is_null(left):
        return right
    left, right = plain(left), plain(right)
    if left.equals(right):
        return left
    if is_number(left) and is_number(right):
        return _common_number(left, right)
    if is_text(left) and is_text(right):
        return pa.large_string()
    if is_moment(left) and is_moment(right):
        return _common_moment(left, right)
    if kinds.is_duration(left) and kinds.is_duration(right):
        return pa.duration(max(left.unit, right.unit, key=_UNITS.index))
    raise NoCommonType(f"{left} and {right} have no common type; cast one of them")


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if kinds.is_floating(left) or kinds.is_floating(right):
        narrow = all(kinds.is_float32(kind) or kinds.is_float16(kind) for kind in (left, right))
        return pa.float32() if narrow else pa.float64()
    if kinds.is_decimal(left) or kinds.is_decimal(right):
        left, right = as_decimal(left), as_decimal(right)
        scale = max(left.scale, right.scale)
        digits = max(left.precision - left.scale, right.precision - right.scale) + scale
        if (
            digits > MOST_DIGITS and scale > _KEPT_DECIMALS
        ):  # values would be rounded before they are compared
            raise _too_many(digits)
        return decimal_of(digits, scale)
    return _SIGNED[max(_rank(left), _rank(right))]


def _rank(kind: pa.DataType) -> int:
    """Of a signed type that holds all its values, as far as there is one."""
    rank = {8: 0, 16: 1, 32: 2, 64: 3}[kind.bit_width]
    return min(3, rank + 1) if kinds.is_unsigned_integer(kind) else rank


def _common_moment(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if kinds.is_date(left) and kinds.is_date(right):
        return pa.date32()
    if kinds.is_date(left):
        return right
    if kinds.is_date(right):
        return left
    if (left.tz is None) != (right.tz is None):
        raise NoCommonType(f"{left} and {right} do not meet: one has a time zone; cast one of them")
    return pa.timestamp(max(left.unit, right.unit, key=_UNITS.index), left.tz)


def as_decimal(kind: pa.DataType) -> pa.DataType:
    """The decimal that holds all values of an integer type, or the decimal itself."""
    if kinds.is_decimal(kind):
        return kind
    return pa.decimal128(_DIGITS_OF[kind.bit_width], 0)


def decimal_of(precision: int, scale: int) -> pa.DataType:
    """A decimal type.  Of more digits than there can be, those behind the point go, down to six of them."""
    if precision > MOST_DIGITS:
        scale = max(scale - (precision - MOST_DIGITS), min(scale, _KEPT_DECIMALS))
    return pa.decimal128(min(precision, MOST_DIGITS), scale)


def _too_many(digits: int) -> NoCommonType:
    return NoCommonType(
        f"the result would have {digits} digits, and {MOST_DIGITS} are possible; cast to fewer first"
    )


def sum_type(kind: pa.DataType) -> pa.DataType:
    """The type of the sum of numbers."""
    if kinds.is_decimal(kind):
        return sum_of_decimals(kind)
    return pa.float64() if kinds.is_floating(kind) else pa.int64()


def mean_type(kind: pa.DataType) -> pa.DataType:
    """The type of the mean of numbers."""
    return mean_of_decimals(kind) if kinds.is_decimal(kind) else pa.float64()


def literal_type(value: Any) -> pa.DataType:
    """The type of a Python value that stands in an expression."""
    if isinstance(value, decimal.Decimal) and value.is_finite():
        digits, exponent = value.as_tuple().digits, value.as_tuple().exponent
        assert isinstance(exponent, int)
        count = max(len(digits) + max(exponent, 0), -exponent, 1)
        if count > MOST_DIGITS:
            raise _too_many(count)
        return pa.decimal128(count, max(0, -exponent))
    if isinstance(value, datetime.timedelta):
        return pa.duration("us")
    try:
        return pa.scalar(value).type
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise ConfigError(f"{value!r} cannot stand in an expression: {error}") from error
