"""Sums and means of decimals, exact: numbers of 128 bits, added up in four parts of 32 bits each.

NumPy has no integers of 128 bits.  Each part is added up in 64 bits, which is exact for 2**31 numbers; then
what is too much for a part is carried into the next one.  A sum has 38 digits, and more is an error.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.errors import ConfigError

MOST_DIGITS = 38
_MEAN_DECIMALS = 6
"""A mean of decimals keeps at least so many behind the point."""
PARTS = 4
Parts = list[npt.NDArray[np.int64]]
Mask = npt.NDArray[np.bool_]
Wide = npt.NDArray[Any]
WIDE = np.dtype([("low", "<u8"), ("high", "<i8")])
"""How Arrow holds decimals; equal ones are equal to NumPy, too."""

_HALF = np.int64(32)
_LOW = np.int64(0xFFFF_FFFF)
_ROOM = 2**31
_FIRST_HIGH, _FIRST_LOW = divmod(10**MOST_DIGITS, 2**64)
"""The first number that has too many digits."""


def sum_of_decimals(kind: pa.DataType) -> pa.DataType:
    """The type of sums: all digits there are, and as many behind the point."""
    return pa.decimal128(MOST_DIGITS, kind.scale)


def mean_of_decimals(kind: pa.DataType) -> pa.DataType:
    """The type of means: six digits behind the point at least."""
    return pa.decimal128(MOST_DIGITS, max(_MEAN_DECIMALS, kind.scale))


def wide_numbers(array: pa.Array | pa.ChunkedArray) -> Wide:
    """The unscaled numbers of decimals of 128 bits; zero for nulls."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    data = array.buffers()[1]
    if not len(array) or data is None:
        return np.zeros(len(array), WIDE)
    found: Wide = np.frombuffer(data, WIDE, len(array), array.offset * WIDE.itemsize)
    if array.null_count:
        found = np.where(np.asarray(array.is_valid()), found, np.zeros(1, WIDE))
    return found


def decimals_of(numbers: Wide, kind: pa.DataType, valid: Mask | None = None) -> pa.Array:
    """Decimals of their unscaled numbers."""
    bits = None if valid is None else pa.array(valid).buffers()[1]
    data = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(kind, len(numbers), [bits, data])


def parts_of(numbers: Wide) -> Parts:
    """Numbers in parts, the lowest first; only the highest one has a sign."""
    low, high = numbers["low"].view(np.int64), numbers["high"]
    return [low & _LOW, (low >> _HALF) & _LOW, high & _LOW, high >> _HALF]


def carried(parts: Parts) -> Parts:
    """The same sums with parts of 32 bits, but for the highest."""
    found, over = [], np.zeros_like(parts[0])
    for part in parts[:-1]:
        whole = part + over
        found.append(whole & _LOW)
        over = whole >> _HALF
    return [*found, parts[-1] + over]


def whole_numbers(parts: Parts, what: str) -> Wide:
    """Sums of carried parts as numbers; one of more than 38 digits is an error that names ``what``."""
    first, second, third, last = parts
    found = np.empty(len(first), WIDE)
    high, low = (last << _HALF) | third, ((second << _HALF) | first).view(np.uint64)
    found["low"], found["high"] = low, high
    above = (high > _FIRST_HIGH) | ((high == _FIRST_HIGH) & (low >= np.uint64(_FIRST_LOW)))
    least = -_FIRST_HIGH - 1, np.uint64(2**64 - _FIRST_LOW)
    below = (high < least[0]) | ((high == least[0]) & (low <= least[1]))
    if (above | below | (last >= _ROOM) | (last < -_ROOM)).any():
        raise ConfigError(f"{what} has more than {MOST_DIGITS} digits; cast its argument to double")
    return found


def digits_of(value: Decimal, scale: int) -> int:
    """The unscaled number of a decimal."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number: int = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    return -number if sign else number


def means(sums: pa.Array | pa.ChunkedArray, counts: npt.NDArray[np.int64]) -> pa.Array:
    """Sums by counts, halves away from zero; where a count is zero, the sum must be null."""
    if isinstance(sums, pa.ChunkedArray):
        sums = sums.combine_chunks()
    kind = mean_of_decimals(sums.type)
    factor = 10 ** (kind.scale - sums.type.scale)
    numbers, counts = wide_numbers(sums), np.maximum(counts, 1)
    found = np.zeros(len(numbers), WIDE)
    low = numbers["low"].view(np.int64)
    # Twice the remainder must fit, too.
    small = (numbers["high"] == low >> 63) & (np.abs(low >> 1) < 2**61 // factor) & (counts < 2**61)
    halves = _rounded(np.where(small, low, 0) * factor, counts)
    found["low"], found["high"] = halves.view(np.uint64), halves >> 63
    for at in np.flatnonzero(~small).tolist():
        whole = (int(numbers["high"][at]) << 64) | int(numbers["low"][at])
        mean = _one_rounded(whole * factor, int(counts[at]))
        if abs(mean) >= 10**MOST_DIGITS:
            raise ConfigError(
                f"a mean of decimals has more than {MOST_DIGITS} digits, {kind.scale} of them behind the "
                "point; cast the argument to double"
            )
        found["low"][at], found["high"][at] = mean & (2**64 - 1), mean >> 64
    return decimals_of(found, kind, np.asarray(sums.is_valid()) if sums.null_count else None)


EXACT = Context(prec=4 * MOST_DIGITS)
"""A thread's own context would round."""


def mean_of_one(total: Decimal, count: int) -> Decimal:
    """A single sum by its count, as :func:`means` has it."""
    exponent = total.as_tuple().exponent
    assert isinstance(exponent, int)
    step = Decimal(1).scaleb(min(exponent, -_MEAN_DECIMALS))
    return EXACT.divide(total, Decimal(count)).quantize(step, ROUND_HALF_UP, EXACT)


def _rounded(numbers: npt.NDArray[np.int64], by: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    size = np.abs(numbers)
    found = size // by
    found += 2 * (size - found * by) >= by
    return np.where(numbers < 0, -found, found)


def _one_rounded(number: int, by: int) -> int:
    found, rest = divmod(abs(number), by)
    found += 2 * rest >= by
    return -found if number < 0 else found
