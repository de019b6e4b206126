"""Kernels of numbers by NumPy, for what a constant makes simple: it divides by one many times as fast."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.decimal_rounding import HALVES_UP
from penstock.expressions.functions import Kernel, Value
from penstock.expressions.types import as_decimal


def remainder_by(divisor: int, general: Kernel) -> Kernel:
    """The remainder of integers by a constant, with the sign of the dividend."""
    by = abs(divisor)  # the sign of the divisor does not matter; and the smallest integer has no opposite

    def kernel(left: Value, right: Value) -> Value:
        if isinstance(left, pa.Scalar) or by > 2 ** (left.type.bit_width - 1) - 1:
            return general(left, right)
        values = _numbers(left)
        found = values - values // by * by
        if len(values) and values.min() < 0:
            found = np.where((values < 0) & (found != 0), found - by, found)
        return pa.array(found, left.type, mask=_missing(left))

    return kernel


def scaled_kernel(factor: pa.Scalar, gives: pa.DataType, at: int) -> Kernel:
    """Integers times a constant decimal; argument ``at`` is the integers."""
    sign, digits, exponent = factor.as_py().as_tuple()
    unscaled = int("".join(map(str, digits))) * 10 ** (exponent + factor.type.scale) * (-1 if sign else 1)
    room = (2**63 - 1) // max(abs(unscaled), 1)

    def kernel(*arguments: Value) -> Value:
        integers = arguments[at]
        if isinstance(integers, pa.Scalar):
            return pc.multiply_checked(_as_decimals(pa.repeat(integers, 1))[0], factor)
        most = pc.min_max(integers).as_py()
        widest = 0 if most["max"] is None else max(abs(most["min"]), abs(most["max"]))
        if widest > room or not room:
            return pc.multiply_checked(_as_decimals(integers), factor)
        return _decimals(_numbers(integers).astype(np.int64) * unscaled, gives, _missing(integers))

    return kernel


class _Floats(NamedTuple):
    """What there is to know of a type of floats."""

    whole: float
    """From here on they have no digits behind the point."""
    most: int
    """So many powers of ten fit above all that have such digits."""
    digits: int
    """The largest power of ten."""


_FLOATS = {pa.float32(): _Floats(2.0**24, 31, 38), pa.float64(): _Floats(2.0**53, 290, 308)}


def rounded_floats(values: Value, digits: int) -> Value:
    """Halves away from zero.  Large ones are whole already; times a power of ten they would be infinite."""
    known = _FLOATS[values.type]
    if digits < -known.digits:
        return pc.if_else(pc.is_finite(values), pa.scalar(0, values.type), values)
    if digits <= 0:
        return pc.round(values, ndigits=digits, round_mode=HALVES_UP)
    small = pc.less(pc.abs(values), pa.scalar(known.whole, values.type))
    some = pc.if_else(small, values, pa.scalar(0, values.type))
    rounded = pc.round(some, ndigits=min(digits, known.most), round_mode=HALVES_UP)
    return pc.if_else(small, rounded, values)


def _as_decimals(integers: pa.Array) -> pa.Array:
    return integers.cast(as_decimal(integers.type))


def _decimals(unscaled: Any, kind: pa.DataType, missing: Any) -> pa.Array:
    """Decimals of 128 bits: the number, and its sign in the upper half."""
    words = np.empty((len(unscaled), 2), np.int64)
    words[:, 0] = unscaled
    np.right_shift(unscaled, 63, out=words[:, 1])
    valid = None if missing is None else pa.array(~missing).buffers()[1]
    return pa.Array.from_buffers(kind, len(unscaled), [valid, pa.py_buffer(words)])


def _numbers(values: pa.Array) -> Any:
    """The numbers, with zero where there is none."""
    return np.asarray(values if not values.null_count else pc.fill_null(values, 0))


def _missing(values: pa.Array) -> Any:
    return None if not values.null_count else np.asarray(pc.is_null(values))
