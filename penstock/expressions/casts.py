"""Casts as SQL has them: what does not fit is an error or, with TRY_CAST, null; fractions are cut off.

Texts are read and written as SQL writes values: ``TRUE``, ``2026-01-31 12:00:00.5``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from penstock.core.decimals import MOST_DIGITS
from penstock.expressions.decimal_rounding import HALVES_UP, rounded_type, with_room
from penstock.expressions.functions import Kernel, Unfit, Value
from penstock.expressions.time_rounding import rounding
from penstock.expressions.types import as_decimal, is_text


def cast_kernel(given: pa.DataType, wanted: pa.DataType, tolerant: bool) -> tuple[Kernel, bool]:
    """How to cast one type to another, and whether that fails for some values."""
    if given.equals(wanted):
        return _same, False
    kernel = partial(_cast, _prepared(given, wanted), _finished(given, wanted))
    try:
        kernel(pa.nulls(1, given))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise Unfit(f"{given} cannot be cast to {wanted}") from error
    if tolerant:
        return partial(_or_null, kernel, wanted), False
    return kernel, not _always_fits(given, wanted)


def _same(value: Value) -> Value:
    return value


def _cast(prepare: Kernel, finish: Kernel, value: Value) -> Value:
    if isinstance(value, pa.Scalar):  # scalars know fewer casts than arrays
        return _cast(prepare, finish, pa.repeat(value, 1))[0]
    return finish(prepare(value))


def _prepared(given: pa.DataType, wanted: pa.DataType) -> Any:
    if is_text(given):
        if kinds.is_boolean(wanted):
            return lambda value: pc.utf8_lower(pc.utf8_trim_whitespace(value))
        if is_text(wanted) or kinds.is_binary(wanted):
            return _same
        return pc.utf8_trim_whitespace
    if kinds.is_boolean(given) and is_text(wanted):
        return lambda value: pc.if_else(value, pa.scalar("TRUE"), pa.scalar("FALSE"))
    if kinds.is_boolean(given) and kinds.is_decimal(wanted):
        return lambda value: value.cast(pa.int8()).cast(as_decimal(pa.int8()))
    if kinds.is_boolean(given) and kinds.is_floating(wanted):
        return lambda value: value.cast(pa.int8())
    if kinds.is_floating(given) and kinds.is_integer(wanted):
        return pc.trunc
    if kinds.is_decimal(given) and kinds.is_integer(wanted):
        return with_room(pc.trunc, given, rounded_type(given, 0))
    if kinds.is_integer(given) and kinds.is_decimal(wanted):
        return lambda value: value.cast(as_decimal(given))
    if kinds.is_floating(given) and kinds.is_decimal(wanted):
        return partial(pc.round, ndigits=wanted.scale, round_mode=HALVES_UP)
    if kinds.is_decimal(given) and kinds.is_decimal(wanted) and wanted.scale < given.scale:
        return with_room(partial(pc.round, ndigits=wanted.scale, round_mode=HALVES_UP), given, wanted)
    if kinds.is_timestamp(given) and kinds.is_date(wanted):
        return rounding(pc.floor_temporal, "day")
    if kinds.is_timestamp(given) and kinds.is_timestamp(wanted) and not _is_finer(wanted, given):
        return rounding(pc.floor_temporal, _WORDS[wanted.unit])
    return _same


def _finished(given: pa.DataType, wanted: pa.DataType) -> Kernel:
    """The cast itself, of what was prepared."""
    if kinds.is_integer(given) and kinds.is_floating(wanted):
        return lambda value: value.cast(wanted, safe=False)  # the nearest one, as of all that floats hold
    if kinds.is_decimal(given) and is_text(wanted):
        return partial(_written_out, wanted)
    if kinds.is_decimal(wanted) and (kinds.is_decimal(given) or kinds.is_integer(given)):
        return partial(_rescaled, wanted)
    if is_text(given):
        reader: Any = None
        if kinds.is_decimal(wanted):
            reader = partial(_as_decimal, wanted.scale)
        elif kinds.is_integer(wanted):
            reader = _as_integer
        elif kinds.is_timestamp(wanted):
            reader = partial(_as_moment, wanted)
        if reader is not None:
            return partial(_read, reader, wanted)
    return lambda value: value.cast(wanted)


def _rescaled(wanted: pa.DataType, value: pa.Array) -> pa.Array:
    """Decimals with other digits.  Arrow multiplies first, and does not see what overflows 128 bits then."""
    room = wanted.precision - wanted.scale
    if value.type.precision - value.type.scale > room and wanted.scale > value.type.scale:
        most = pc.min_max(value).as_py()
        if most["max"] is not None and max(-most["min"], most["max"]) >= 10**room:
            raise pa.ArrowInvalid(f"Decimal value does not fit in precision {wanted.precision}")
    return value.cast(wanted)


def _written_out(wanted: pa.DataType, value: pa.Array) -> pa.Array:
    """Decimals as texts, also those that Arrow writes with an exponent."""
    found = value.cast(wanted)
    if not pc.any(pc.match_substring(found, "E")).as_py():
        return found
    return pa.array([None if it is None else f"{it:f}" for it in value.to_pylist()], wanted)


def _read(reader: Callable[[str], Any], wanted: pa.DataType, value: pa.Array) -> pa.Array:
    """Texts read by Arrow or, if one of them is written as only SQL has it, each by ``reader``."""
    try:
        return value.cast(wanted)
    except pa.ArrowInvalid:
        once = pc.dictionary_encode(value)
        try:
            found = [None if it is None else reader(it) for it in once.dictionary.to_pylist()]
            return pa.array(found, wanted).take(once.indices)
        except (OverflowError, ValueError) as error:  # more digits than Python or Arrow reads
            raise pa.ArrowInvalid(str(error)) from error


def _as_decimal(scale: int, text: str) -> Decimal:
    """Digits that are too many behind the point are rounded."""
    with localcontext() as context:
        context.prec = 2 * MOST_DIGITS
        try:
            if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
                raise InvalidOperation  # Python reads more: 1_000, NaN, digits of other scripts
            return Decimal(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
        except InvalidOperation:
            raise pa.ArrowInvalid(f"{text!r} is no decimal") from None


def _as_integer(text: str) -> int:
    """With a sign, and with a fraction that is cut off."""
    if not re.fullmatch(r"[+-]?[0-9]+(\.[0-9]*)?", text):
        raise pa.ArrowInvalid(f"{text!r} is no integer")
    return int(text.partition(".")[0])


def _as_moment(wanted: pa.DataType, text: str) -> pa.Scalar:
    """Digits that are too many behind the second are cut off; without a zone it is UTC."""
    digits = 3 * list(_WORDS).index(wanted.unit)
    text = re.sub(rf"(\.[0-9]{{{digits}}})[0-9]+", r"\1" if digits else "", text)
    if wanted.tz is not None and not re.search(r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$", text[10:]):
        text = f"{text}Z" if len(text) > 10 else f"{text} 00:00:00Z"
    return pa.array([text]).cast(wanted)[0]


_WORDS = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def _is_finer(one: pa.DataType, other: pa.DataType) -> bool:
    order = list(_WORDS)
    return order.index(one.unit) >= order.index(other.unit)


def _always_fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    if kinds.is_null(given) or is_text(wanted):
        return True
    if kinds.is_integer(given) and kinds.is_floating(wanted):
        return True
    if kinds.is_integer(given) and kinds.is_integer(wanted) and not kinds.is_unsigned_integer(wanted):
        room = wanted.bit_width - given.bit_width
        return bool(room > 0 or (room == 0 and kinds.is_signed_integer(given)))
    return bool(kinds.is_float32(given) and kinds.is_float64(wanted))


def _or_null(kernel: Kernel, wanted: pa.DataType, value: Value) -> Value:
    """The whole at once, if all of it fits; else value by value."""
    try:
        return kernel(value)
    except pa.ArrowInvalid:
        pass
    if isinstance(value, pa.Scalar):
        return pa.scalar(None, wanted)
    once = pc.dictionary_encode(value)
    converted = pa.array([_one(kernel, it) for it in once.dictionary], wanted)
    return converted.take(once.indices)


def _one(kernel: Kernel, value: pa.Scalar) -> pa.Scalar | None:
    """As Arrow has it: Python has no nanoseconds, and no years of five digits."""
    try:
        return kernel(value)
    except pa.ArrowInvalid:
        return None
