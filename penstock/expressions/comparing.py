"""Comparing, and logic with three values: true, false and unknown.

NaN equals NaN and is larger than every other number, so that filters, keys and orders agree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from penstock.expressions.casts import cast_kernel
from penstock.expressions.functions import Arguments, Kernel, Overload, Unfit, Value, every, fixed, function
from penstock.expressions.types import common_type

_BOOL = pa.bool_()
REQUIRED = "required"
"""The function that gives its argument back, and fails if that is null."""


def _comparison(kernel: Kernel, with_nan: Kernel, ordered: bool, arguments: Arguments) -> Overload:
    common = reduce(common_type, arguments.types)
    if ordered and (kinds.is_nested(common) and not kinds.is_null(common)):
        raise Unfit(f"values of type {common} have no order")
    if kinds.is_null(common):
        common = _BOOL  # Arrow compares no nulls without a type
    if kinds.is_nested(common):
        raise Unfit(f"values of type {common} are not compared; compare their parts")
    chosen = _nan_aware(kernel, with_nan) if kinds.is_floating(common) else kernel
    return Overload((common, common), _BOOL, chosen)


def _nan_aware(kernel: Kernel, with_nan: Kernel) -> Kernel:
    def compare(left: Value, right: Value) -> Value:
        left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
        if not (_any(left_nan) or _any(right_nan)):
            return kernel(left, right)
        # Between a NaN and anything, the order of "is it NaN" decides.
        return pc.if_else(pc.or_(left_nan, right_nan), with_nan(left_nan, right_nan), kernel(left, right))

    return compare


def _any(flags: Value) -> bool:
    found = flags.as_py() if isinstance(flags, pa.Scalar) else pc.any(flags).as_py()
    return bool(found)


COMPARISONS: dict[str, tuple[Callable[..., Value], bool]] = {
    "equal": (pc.equal, False),
    "not_equal": (pc.not_equal, False),
    "less": (pc.less, True),
    "less_equal": (pc.less_equal, True),
    "greater": (pc.greater, True),
    "greater_equal": (pc.greater_equal, True),
}


def _of_flags(kernel: Kernel) -> Kernel:
    """The same comparison of two flags, as numbers."""
    return lambda left, right: kernel(left.cast(pa.int8()), right.cast(pa.int8()))


for _name, (_kernel, _ordered) in COMPARISONS.items():
    function(_name, 2)(partial(_comparison, _kernel, _of_flags(_kernel), _ordered))


def _distinct(negated: bool, arguments: Arguments) -> Overload:
    """Comparison for which two nulls are equal; it is never unknown."""
    equal = _comparison(pc.equal, _of_flags(pc.equal), False, arguments)

    def kernel(left: Value, right: Value) -> Value:
        same = pc.fill_null(equal.kernel(left, right), False)
        same = pc.or_(same, pc.and_(pc.is_null(left), pc.is_null(right)))
        return same if negated else pc.invert(same)

    return Overload(equal.takes, _BOOL, kernel)


function("is_distinct_from", 2)(partial(_distinct, False))
function("is_not_distinct_from", 2)(partial(_distinct, True))

fixed("and", (_BOOL, _BOOL), _BOOL, pc.and_kleene)
fixed("or", (_BOOL, _BOOL), _BOOL, pc.or_kleene)
fixed("not", (_BOOL,), _BOOL, pc.invert)
fixed("is_true", (_BOOL,), _BOOL, lambda value: pc.fill_null(value, False))
fixed("is_false", (_BOOL,), _BOOL, lambda value: pc.fill_null(pc.invert(value), False))
fixed("is_not_true", (_BOOL,), _BOOL, lambda value: pc.invert(pc.fill_null(value, False)))
fixed("is_not_false", (_BOOL,), _BOOL, lambda value: pc.fill_null(value, True))


@function("is_null", 1)
def _is_null(arguments: Arguments) -> Overload:
    return Overload(arguments.types, _BOOL, pc.is_null)


@function("is_not_null", 1)
def _is_not_null(arguments: Arguments) -> Overload:
    return Overload(arguments.types, _BOOL, pc.is_valid)


@function(REQUIRED, 1)
def _required(arguments: Arguments) -> Overload:
    """The value, which must be there."""

    def kernel(value: Value) -> Value:
        missing = value.null_count if isinstance(value, pa.Array) else not value.is_valid
        if missing:
            raise pa.ArrowInvalid("it is NULL, and goes where NOT NULL was declared")
        return value

    return Overload(arguments.types, arguments.types[0], kernel, True)


@function("in", 2, -1)
def _in(arguments: Arguments) -> Overload:
    """True if equal to one; unknown if not, and the value or one of the others is null."""
    common = reduce(common_type, arguments.types)
    equal = _comparison(pc.equal, _of_flags(pc.equal), False, Arguments((common, common), (None, None)))
    common = equal.takes[0]
    takes = (common,) * len(arguments.types)
    if any(constant is None for constant in arguments.constants[1:]):
        return Overload(
            takes,
            _BOOL,
            lambda value, *others: reduce(pc.or_kleene, (equal.kernel(value, it) for it in others)),
        )
    among = pa.array(
        [
            cast_kernel(constant.type, common, False)[0](constant)
            for constant in arguments.constants[1:]
            if constant is not None and constant.is_valid
        ],
        common,
    )
    unknown = len(among) < len(arguments.types) - 1
    floats = kinds.is_floating(common)
    if floats:
        among = pc.add(among, pa.scalar(0.0, common))

    def kernel(value: Value, *_: Value) -> Value:
        # ``is_in`` takes nulls and NaN for equal to themselves, but not the zeros, of which a sum makes one.
        found = pc.is_in(pc.add(value, pa.scalar(0.0, common)) if floats else value, value_set=among)
        missing = pc.is_null(value) if not unknown else pc.invert(found)
        return pc.if_else(missing, pa.scalar(None, _BOOL), found)

    return Overload(takes, _BOOL, kernel)


@function("nullif", 2)
def _nullif(arguments: Arguments) -> Overload:
    """The first, or null if it equals the second."""
    first = arguments.types[0]
    common = common_type(*arguments.types)
    equal = _comparison(pc.equal, _of_flags(pc.equal), False, arguments)
    met, _ = cast_kernel(first, common, False)

    def kernel(left: Value, right: Value) -> Value:
        same = pc.fill_null(equal.kernel(met(left), right), False)
        return pc.if_else(same, pa.scalar(None, left.type), left)

    return Overload((first, common), first, kernel)


def _extreme(larger: bool, arguments: Arguments) -> Overload:
    """The largest or the smallest of its arguments, null if one is null."""
    common = reduce(common_type, arguments.types)
    name, flags = ("greater_equal", pc.greater_equal) if larger else ("less_equal", pc.less_equal)
    wins = _comparison(
        COMPARISONS[name][0], _of_flags(flags), True, Arguments((common, common), (None, None))
    )

    def choose(left: Value, right: Value) -> Value:
        return pc.if_else(wins.kernel(left, right), left, right)

    return Overload((common,) * len(arguments.types), common, lambda *values: reduce(choose, values))


function("greatest", 1, -1)(partial(_extreme, True))
function("least", 1, -1)(partial(_extreme, False))


@function("is_nan", 1)
def _is_nan(arguments: Arguments) -> Overload:
    every(arguments, lambda kind: bool(kinds.is_floating(kind)), "a float or a double")
    return Overload(arguments.types, _BOOL, pc.is_nan)
