"""Casts as SQL has them: what does not fit is an error or, with TRY_CAST, null; fractions are cut off.

Texts are read and written as SQL writes values: ``TRUE``, ``2026-01-31 12:00:00.5``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from penstock.expressions.functions import Kernel, Unfit, Value
from penstock.expressions.types import is_text


def cast_kernel(given: pa.DataType, wanted: pa.DataType, tolerant: bool) -> tuple[Kernel, bool]:
    """How to cast one type to another, and whether that fails for some values."""
    if given.equals(wanted):
        return _same, False
    kernel = partial(_cast, _prepared(given, wanted), wanted)
    try:
        kernel(pa.nulls(1, given))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise Unfit(f"{given} cannot be cast to {wanted}") from error
    if tolerant:
        return partial(_or_null, kernel, wanted), False
    return kernel, not _always_fits(given, wanted)


def _same(value: Value) -> Value:
    return value


def _cast(prepare: Kernel, wanted: pa.DataType, value: Value) -> Value:
    if isinstance(value, pa.Scalar):  # scalars know fewer casts than arrays
        return _cast(prepare, wanted, pa.repeat(value, 1))[0]
    return prepare(value).cast(wanted)


def _prepared(given: pa.DataType, wanted: pa.DataType) -> Any:
    if is_text(given):
        if kinds.is_boolean(wanted):
            return lambda value: pc.utf8_lower(pc.utf8_trim_whitespace(value))
        if is_text(wanted) or kinds.is_binary(wanted):
            return _same
        return pc.utf8_trim_whitespace
    if kinds.is_boolean(given) and is_text(wanted):
        return lambda value: pc.if_else(value, pa.scalar("TRUE"), pa.scalar("FALSE"))
    if kinds.is_boolean(given) and (kinds.is_decimal(wanted) or kinds.is_floating(wanted)):
        return lambda value: value.cast(pa.int8())
    if kinds.is_floating(given) and kinds.is_integer(wanted):
        return pc.trunc
    if kinds.is_decimal(given) and kinds.is_integer(wanted):
        return pc.trunc
    if kinds.is_decimal(given) and kinds.is_decimal(wanted) and wanted.scale < given.scale:
        return partial(pc.round, ndigits=wanted.scale, round_mode="half_towards_infinity")
    if kinds.is_timestamp(given) and kinds.is_date(wanted):
        return lambda value: pc.floor_temporal(value, unit="day")
    if kinds.is_timestamp(given) and kinds.is_timestamp(wanted) and not _is_finer(wanted, given):
        return lambda value: pc.floor_temporal(value, unit=_WORDS[wanted.unit])
    return _same


_WORDS = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def _is_finer(one: pa.DataType, other: pa.DataType) -> bool:
    order = list(_WORDS)
    return order.index(one.unit) >= order.index(other.unit)


def _always_fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    if kinds.is_null(given) or is_text(wanted):
        return True
    if kinds.is_integer(given) and kinds.is_floating(wanted):
        return bool(given.bit_width <= 32)
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


def _one(kernel: Kernel, value: pa.Scalar) -> Any:
    try:
        return kernel(value).as_py()
    except pa.ArrowInvalid:
        return None
