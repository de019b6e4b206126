"""Decimals rounded as SQL rounds them.

One that is rounded up may have a digit more than its type had: 99.9 is 100.  Arrow looks for that in the type
that it was given, so there is room for the digit before, and the type of the result has it as well.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.decimals import MOST_DIGITS
from penstock.expressions.functions import Kernel, Value

HALVES_UP = "half_towards_infinity"
"""Halves go away from zero."""


def round_decimals(given: pa.DataType, digits: int) -> tuple[pa.DataType, Kernel]:
    """The type of decimals rounded to so many digits behind the point (or before it), and how."""
    if digits >= given.scale:
        return given, lambda value: value
    gives = rounded_type(given, max(0, digits))
    whole = given.precision - given.scale
    if -digits > whole:  # less than half of what they are rounded to
        nothing, zero = pa.scalar(None, gives), pa.scalar(Decimal(0), gives)
        return gives, lambda value: pc.if_else(pc.is_valid(value), zero, nothing)
    return gives, with_room(partial(pc.round, ndigits=digits, round_mode=HALVES_UP), given, gives)


def rounded_type(given: pa.DataType, digits: int) -> pa.DataType:
    """Decimals with so many digits behind the point, and one more before it."""
    return pa.decimal128(min(MOST_DIGITS, given.precision - given.scale + 1 + digits), digits)


def with_room(kernel: Kernel, given: pa.DataType, gives: pa.DataType) -> Kernel:
    """``kernel``, which rounds decimals of one type, made to give another one that holds what comes out."""
    precision = given.precision + 1
    kind = pa.decimal128 if precision <= MOST_DIGITS else pa.decimal256
    wide = kind(precision, given.scale)

    def rounded(value: Value) -> Value:
        return kernel(value.cast(wide)).cast(gives)

    return rounded
