"""Numbers: integers that do not overflow in silence, floats as IEEE has them, decimals with their digits.

Division of integers gives an integer, towards zero, as in SQL; the remainder has the sign of the dividend.
Decimals that would have more than 38 digits lose some behind the point, down to six of them, and are rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, DivisionByZero, InvalidOperation, localcontext
from functools import partial, reduce
from operator import mul, truediv

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from penstock.core.decimals import MOST_DIGITS
from penstock.expressions.casts import cast_kernel
from penstock.expressions.decimal_rounding import HALVES_UP, round_decimals, rounded_type, with_room
from penstock.expressions.functions import (
    Arguments,
    Kernel,
    Overload,
    Unfit,
    Value,
    all_null,
    every,
    function,
    on_arrays,
)
from penstock.expressions.number_kernels import remainder_by, rounded_floats, scaled_kernel
from penstock.expressions.types import as_decimal, common_type, decimal_of, is_moment, is_number

_UNITS = ("s", "ms", "us", "ns")
_LEAST_DECIMALS = 6
"""A quotient of decimals keeps at least so many behind the point."""


def numpy_kernel(compute: Callable[..., np.ndarray]) -> Kernel:
    """A kernel by NumPy on doubles: nulls stay nulls, whatever NumPy makes of them."""

    def kernel(*arguments: pa.Array) -> pa.Array:
        valid = reduce(np.logical_and, [np.asarray(pc.is_valid(it)) for it in arguments])
        values = [np.asarray(pc.fill_null(it, 1.0)) for it in arguments]
        with np.errstate(all="ignore"):
            return pa.array(compute(*values), pa.float64(), mask=~valid)

    return on_arrays(kernel)


def _same(arguments: Arguments, kernel: Kernel, fails: bool) -> Overload:
    kind = reduce(common_type, arguments.types)
    return Overload((kind,) * len(arguments.types), kind, kernel, fails)


def _sum(kernel: Kernel, arguments: Arguments) -> Overload:
    """Addition and subtraction; of decimals with a digit more than the longer one."""
    left, right = arguments.types
    if _is_shift(left, right):
        return _shift(kernel, left, right)
    every(arguments, is_number, "numbers, or a time and a duration")
    if not _are_decimal(left, right):
        common = common_type(left, right)
        return Overload((common, common), common, kernel, not kinds.is_floating(common))
    left, right = as_decimal(left), as_decimal(right)
    whole = max(left.precision - left.scale, right.precision - right.scale) + 1
    scale = max(left.scale, right.scale)
    return _of_decimals(kernel, left, right, whole + scale, scale)


def _are_decimal(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether arithmetic of the two is that of decimals."""
    floating = kinds.is_floating(left) or kinds.is_floating(right)
    return not floating and (kinds.is_decimal(left) or kinds.is_decimal(right))


def _of_decimals(
    kernel: Kernel, left: pa.DataType, right: pa.DataType, precision: int, scale: int
) -> Overload:
    """``kernel`` gives that many digits; where they are too many, they are rounded."""
    gives = decimal_of(precision, scale)
    if precision > MOST_DIGITS:
        kernel = partial(_rounded_to, gives, kernel, precision <= _MOST_WIDE_DIGITS)
    return Overload((left, right), gives, kernel, True)


_MOST_WIDE_DIGITS = 76
"""Decimals of Arrow with 256 bits have no more."""


def _rounded_to(gives: pa.DataType, kernel: Kernel, is_wide: bool, left: Value, right: Value) -> Value:
    if not is_wide:  # a product of two decimals with 38 digits
        return on_arrays(partial(_by_digits, mul, gives))(left, right)
    wide = [value.cast(pa.decimal256(value.type.precision, value.type.scale)) for value in (left, right)]
    found = pc.round(kernel(*wide), ndigits=gives.scale, round_mode=HALVES_UP)
    return found.cast(gives)


def _is_shift(left: pa.DataType, right: pa.DataType) -> bool:
    """A time and a duration, two durations, or two times."""
    odd = [kind for kind in (left, right) if is_moment(kind) or kinds.is_duration(kind)]
    return len(odd) == 2


def _shift(kernel: Kernel, left: pa.DataType, right: pa.DataType) -> Overload:
    takes = []
    unit = max(
        (getattr(kind, "unit", "s") for kind in (left, right) if not kinds.is_date(kind)),
        key=_UNITS.index,
        default="s",
    )
    for kind in (left, right):
        if kinds.is_duration(kind):
            takes.append(pa.duration(unit))
        else:
            takes.append(pa.timestamp(unit, None if kinds.is_date(kind) else kind.tz))
    if all(map(is_moment, (left, right))):
        if kernel is not pc.subtract_checked:
            raise Unfit("two times cannot be added")
        return Overload(tuple(takes), pa.duration(unit), kernel, True)
    if kernel is pc.subtract_checked and is_moment(right):
        raise Unfit("a time cannot be taken from a duration")
    gives = next((kind for kind in takes if kinds.is_timestamp(kind)), pa.duration(unit))
    return Overload(tuple(takes), gives, kernel, True)


for _name, _kernel in (("add", pc.add_checked), ("subtract", pc.subtract_checked)):
    function(_name, 2)(partial(_sum, _kernel))


@function("multiply", 2)
def _multiply(arguments: Arguments) -> Overload:
    every(arguments, is_number, "numbers")
    left, right = arguments.types
    if not _are_decimal(left, right):
        common = common_type(left, right)
        return Overload((common, common), common, pc.multiply_checked, not kinds.is_floating(common))
    one, other = as_decimal(left), as_decimal(right)
    precision, scale = one.precision + other.precision + 1, one.scale + other.scale
    for at, kind in enumerate((left, right)):
        factor = arguments.constants[1 - at]
        if kinds.is_integer(kind) and factor is not None and factor.is_valid and precision <= MOST_DIGITS:
            gives = decimal_of(precision, scale)
            return Overload((left, right), gives, scaled_kernel(factor, gives, at), True)
    return _of_decimals(pc.multiply_checked, one, other, precision, scale)


@function("divide", 2)
def _divide(arguments: Arguments) -> Overload:
    every(arguments, is_number, "numbers")
    left, right = arguments.types
    if not _are_decimal(left, right):
        common = common_type(left, right)
        if kinds.is_floating(common):
            return Overload((common, common), common, pc.divide)
        return Overload((common, common), common, pc.divide_checked, True)
    left, right = as_decimal(left), as_decimal(right)
    scale = min(max(_LEAST_DECIMALS, left.scale + right.precision + 1), MOST_DIGITS - 1)
    whole = left.precision - left.scale + right.scale
    scale = max(min(scale, MOST_DIGITS - whole), _LEAST_DECIMALS)
    gives = decimal_of(whole + scale, scale)
    # Arrow's own quotient has too many digits for most operands, and NumPy has no decimals.
    return Overload((left, right), gives, on_arrays(partial(_by_digits, truediv, gives)), True)


def _by_digits(
    compute: Callable[[Decimal, Decimal], Decimal], gives: pa.DataType, left: pa.Array, right: pa.Array
) -> pa.Array:
    """One after the other."""
    step = Decimal(1).scaleb(-gives.scale)
    with localcontext() as context:
        context.prec = 2 * MOST_DIGITS
        try:
            found = [
                None if a is None or b is None else compute(a, b).quantize(step, ROUND_HALF_UP)
                for a, b in zip(left.to_pylist(), right.to_pylist(), strict=True)
            ]
        except DivisionByZero as error:
            raise pa.ArrowInvalid("divide by zero") from error
        except InvalidOperation as error:
            zero = compute is truediv and pc.any(pc.equal(right, pa.scalar(0, right.type))).as_py()
            raise pa.ArrowInvalid("divide by zero" if zero else "the result has too many digits") from error
    return pa.array(found, gives)


@function("modulo", 2)
def _modulo(arguments: Arguments) -> Overload:
    every(arguments, is_number, "numbers")
    common = common_type(*arguments.types)
    if kinds.is_floating(common):
        return Overload((pa.float64(),) * 2, pa.float64(), numpy_kernel(np.fmod))
    if kinds.is_decimal(common):
        raise Unfit("there is no remainder of decimals; cast to an integer or a double")
    divisor = arguments.constants[1]
    if divisor is not None and divisor.is_valid and divisor.as_py() != 0:
        return Overload((common, common), common, remainder_by(divisor.as_py(), _remainder))
    return Overload((common, common), common, _remainder, True)


def _remainder(left: Value, right: Value) -> Value:
    if kinds.is_unsigned_integer(right.type):
        return pc.subtract(left, pc.multiply(pc.divide_checked(left, right), right))
    # The smallest integer by minus one overflows, and has no remainder.
    safe = pc.if_else(pc.equal(right, pa.scalar(-1, right.type)), pa.scalar(1, right.type), right)
    return pc.subtract(left, pc.multiply(pc.divide_checked(left, safe), safe))


@function("negate", 1)
def _negate(arguments: Arguments) -> Overload:
    every(arguments, lambda kind: is_number(kind) or kinds.is_duration(kind), "a number")
    kind = arguments.types[0]
    if kinds.is_unsigned_integer(kind):
        kind = common_type(kind, pa.int8())
    return Overload((kind,), kind, pc.negate_checked, not kinds.is_floating(kind))


@function("abs", 1)
def _abs(arguments: Arguments) -> Overload:
    every(arguments, is_number, "a number")
    return _same(arguments, pc.abs_checked, not kinds.is_floating(arguments.types[0]))


@function("sign", 1)
def _sign(arguments: Arguments) -> Overload:
    every(arguments, is_number, "a number")
    kind = arguments.types[0]
    if kinds.is_decimal(kind):
        gives = pa.decimal128(1, 0)
        return Overload((kind,), gives, lambda value: pc.sign(value).cast(as_decimal(pa.int64())).cast(gives))
    return _same(arguments, lambda value: pc.sign(value).cast(value.type), False)


def _whole(kernel: Kernel, arguments: Arguments) -> Overload:
    """Integers are whole already."""
    every(arguments, is_number, "a number")
    kind = arguments.types[0]
    if kinds.is_integer(kind):
        return _same(arguments, lambda value: value, False)
    if kinds.is_decimal(kind):
        gives = rounded_type(kind, 0)
        return Overload((kind,), gives, with_room(kernel, kind, gives))
    return _same(arguments, kernel, False)


for _name, _kernel in (("ceil", pc.ceil), ("floor", pc.floor)):
    function(_name, 1)(partial(_whole, _kernel))


@function("round", 1, 2)
def _round(arguments: Arguments) -> Overload:
    """Halves away from zero, as in SQL."""
    every(arguments, is_number, "a number")
    digits = arguments.constant(1, "the number of digits") if len(arguments.types) == 2 else 0
    kind = arguments.types[0]
    takes = (kind, *arguments.types[1:])
    if digits is None:
        return all_null(takes, kind)
    if kinds.is_integer(kind) and digits >= 0:
        return Overload(takes, kind, lambda value, *_: value)
    if kinds.is_integer(kind) and -digits >= as_decimal(kind).precision:
        return Overload(takes, kind, _as_decimals(partial(round_decimals, digits=digits), kind), True)
    if kinds.is_decimal(kind):
        gives, rounded = round_decimals(kind, digits)
        return Overload(takes, gives, lambda value, *_: rounded(value), _may_overflow(kind, digits))
    if kinds.is_floating(kind):
        kind = pa.float32() if kinds.is_float16(kind) else kind
        takes = (kind, *takes[1:])
        return Overload(takes, kind, lambda value, *_: rounded_floats(value, digits), digits < 0)
    rounded = partial(pc.round, ndigits=digits, round_mode=HALVES_UP)
    return Overload(takes, kind, lambda value, *_: rounded(value).cast(kind), True)


def _as_decimals(rounding: Callable[..., tuple[pa.DataType, Kernel]], kind: pa.DataType) -> Kernel:
    """Integers by a rounding of decimals: Arrow's own does not know powers of ten beyond the type."""
    wide = as_decimal(kind)
    gives, rounded = rounding(wide)
    there, back = cast_kernel(kind, wide, False)[0], cast_kernel(gives, kind, False)[0]
    return lambda value, *_: back(rounded(there(value)))


def _may_overflow(kind: pa.DataType, digits: int) -> bool:
    """Whether there may be more digits than there can be."""
    return kind.scale == 0 and kind.precision == MOST_DIGITS and digits < 0


def _of_doubles(name: str, compute: Callable[..., np.ndarray], arguments: int = 1) -> None:
    """A function that a double goes into and comes out of; outside its domain it is NaN, or infinite."""

    def resolve(given: Arguments) -> Overload:
        every(given, is_number, "a number")
        return Overload((pa.float64(),) * arguments, pa.float64(), numpy_kernel(compute))

    function(name, arguments)(resolve)


for _name, _compute in {
    "sqrt": np.sqrt,
    "exp": np.exp,
    "ln": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "degrees": np.degrees,
    "radians": np.radians,
}.items():
    _of_doubles(_name, _compute)
_of_doubles("power", np.power, 2)
_of_doubles("atan2", np.arctan2, 2)
