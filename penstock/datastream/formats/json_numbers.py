"""Numbers that Python's ``json`` module would change: decimals of many digits, and what is no number.

Reading: a number becomes a float before anybody can make a decimal of it, so it keeps its text where a type
has decimals.  Writing: the module knows no decimals, so one that no float equals is written as text behind a
mark, which is taken away with its quotes.  NaN and the infinities are no JSON; as in Flink they are text.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from penstock.core.typeinfo import BasicType, BasicTypeInfo, MapTypeInfo, TupleTypeInfo, TypeInformation

_MARK = secrets.token_hex(16)
"""Drawn by each process: no text of a user's begins with it."""
_MARKED = re.compile(f'"{_MARK}([^"]*)"')
_LONGEST = 4000
"""Digits of a whole number that Python turns into text without being told that it may."""
_NAMES = {math.inf: "Infinity", -math.inf: "-Infinity"}


class WrittenFloat(float):
    """A float that knows how it was written."""

    text: str

    def __new__(cls, text: str) -> WrittenFloat:
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return (float, (float(self),))


def has_decimals(kind: TypeInformation) -> bool:
    """Whether values of this type have decimals in them."""
    if isinstance(kind, BasicTypeInfo):
        return kind.basic_type is BasicType.BIG_DEC
    if isinstance(kind, TupleTypeInfo):
        return any(map(has_decimals, kind.get_field_types()))
    if isinstance(kind, MapTypeInfo):
        return has_decimals(kind.value_type)
    element = getattr(kind, "element_type", None)
    return element is not None and has_decimals(element)


def read_decimal(value: Any) -> Decimal:
    """The decimal that was written."""
    return Decimal(value.text if isinstance(value, WrittenFloat) else str(value))


def write_decimal(value: Decimal) -> Any:
    """A number for the ``json`` module, or text for :func:`encoded` to take the mark from."""
    if not value.is_finite():
        return str(value)
    if value == value.to_integral_value():
        # A few characters, such as 1E+999999999, may stand for more digits than there is memory.
        return int(value) if value.adjusted() < _LONGEST else f"{_MARK}{value}"
    number = float(value)
    return number if Decimal(repr(number)) == value else f"{_MARK}{value}"


def encoded(found: Any, encode: Callable[[Any], str]) -> str:
    """JSON of what :func:`write_decimal` and others made; ``encode`` must refuse what is no number."""
    try:
        text = encode(found)
    except ValueError:
        text = encode(_named(found))
    return _MARKED.sub(r"\1", text) if _MARK in text else text


def _named(found: Any) -> Any:
    """The same with the names of those that are no numbers."""
    if isinstance(found, dict):
        return {key: _named(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [_named(value) for value in found]
    return found if not isinstance(found, float) or math.isfinite(found) else _NAMES.get(found, "NaN")
