"""What kind of key a key is: keys of different kinds are never equal.

A kind is a word, or for keys with parts a tuple of a word and the kinds of the parts.  The kind of ``None``,
which a part may be now and then, fits every other.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import uuid
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import pyarrow as pa

from penstock.core.keys import compared_fields, is_plain_member
from penstock.core.row import Row

Kind = str | tuple[Any, ...]

NONE = "None"
MOST_KINDS = 50
"""Keys of more kinds than that are of any kind."""
_ZONED = " with a time zone"
_WORDS: tuple[tuple[Any, str], ...] = (
    (pa.types.is_null, NONE),
    (pa.types.is_boolean, "number"),
    (pa.types.is_integer, "number"),
    (pa.types.is_floating, "number"),
    (pa.types.is_decimal, "number"),
    (pa.types.is_string, "str"),
    (pa.types.is_large_string, "str"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
    (pa.types.is_fixed_size_binary, "bytes"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time"),
    (pa.types.is_duration, "timedelta"),
)


def kinds_of(keys: Iterable[Any]) -> frozenset[Kind]:
    """The kinds of these keys."""
    samples: dict[Any, Any] = {}
    for key in keys:
        samples.setdefault(_shape(key), key)
    return frozenset(map(_kind, samples.values()))


def column_kind(kind: pa.DataType) -> Kind:
    """The kind of the keys in a column of this type; of types that nobody keys by, their name."""
    if pa.types.is_dictionary(kind):
        return column_kind(kind.value_type)
    if pa.types.is_timestamp(kind):
        return "datetime" + (_ZONED if kind.tz is not None else "")
    return next((word for test, word in _WORDS if test(kind)), str(kind))


def columns_kind(kinds: Sequence[pa.DataType]) -> Kind:
    """The kind of the keys in columns of these types, whose values may be null."""
    first, *more = map(column_kind, kinds)
    return ("tuple", first, *more) if more else first


def fits(one: Kind, other: Kind) -> bool:
    """Whether keys of these kinds may be equal."""
    if one == other or NONE in (one, other):
        return True
    if isinstance(one, str) or isinstance(other, str):
        return False
    return len(one) == len(other) and one[0] == other[0] and all(map(fits, one[1:], other[1:]))


def is_one_kind(kinds: frozenset[Kind]) -> bool:
    """Whether keys of all these kinds may be equal to each other."""
    return all(fits(one, other) for one, other in combinations(kinds, 2))


def outlines(kinds: Iterable[Kind]) -> frozenset[Kind]:
    """The kinds without those of parts: the word, and how many parts there are."""
    return frozenset(kind if isinstance(kind, str) else (kind[0], len(kind)) for kind in kinds)


def in_words(kinds: Iterable[Kind]) -> str:
    """The kinds, for people."""
    return ", ".join(sorted(map(_words, kinds)))


def _words(kind: Kind) -> str:
    if isinstance(kind, str):
        return kind
    return f"{kind[0]} of ({', '.join(map(_words, kind[1:]))})"


def _shape(key: Any) -> Any:
    """The same for keys of one kind, but not only for those: cheap."""
    if isinstance(key, tuple | Row):
        return type(key), *map(_shape, key)
    if isinstance(key, dt.datetime | dt.time):
        return type(key), key.tzinfo is None
    kind: Any = type(key)
    if hasattr(kind, "__dataclass_fields__"):
        return kind, *(_shape(getattr(key, name)) for name in compared_fields(kind))
    return kind


def _kind(key: Any) -> Kind:
    kind = type(key)
    if key is None:
        return NONE
    if is_plain_member(key):
        return f"{kind.__module__}.{kind.__qualname__}"
    if dataclasses.is_dataclass(kind):
        parts = (_kind(getattr(key, name)) for name in compared_fields(kind))
        return f"{kind.__module__}.{kind.__qualname__}", *parts
    if isinstance(key, tuple | Row):
        return "Row" if isinstance(key, Row) else "tuple", *map(_kind, key)
    if isinstance(key, int | float | decimal.Decimal):
        return "number"
    if isinstance(key, dt.datetime | dt.time):
        word = "datetime" if isinstance(key, dt.datetime) else "time"
        return word + (_ZONED if key.utcoffset() is not None else "")
    for base in (str, bytes, dt.date, dt.timedelta, uuid.UUID):
        if isinstance(key, base):
            return base.__name__
    return kind.__qualname__
