"""What a key may be, the one form in which the engine holds it, and its parts as text.

Two keys are one if Python holds them equal, everywhere: to the hash, to both backends, after the wire, after
a restore.  Three kinds of values need help for that, where keys are made (:func:`canonical_keys`):

* NaN is not equal to itself, so all NaN become one object, :data:`NAN`, which stays that when it is pickled;
* scalars of numpy, of which some cannot be compared with a ``Decimal``, become what they are in Python;
* local times at which the clock is put back are equal to times an hour apart, and unequal to the same moment
  in another zone: they become UTC.

A list is taken for the tuple of its elements, as programs of PyFlink have list keys; the log says so once.

What is left to the user's own ``__eq__``, or to the identity of a class that the next run of the program
makes anew, cannot be found again: it is refused at the first record.

Texts are the same for all objects that are equal, in every thread and process.  The hash and RocksDB's row
keys are made of them, so they are part of the snapshot format.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import decimal
import enum
import operator
import uuid
from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.discreet import log_of
from penstock.core.error_codes import Code
from penstock.core.errors import KeyError_
from penstock.core.known_types import is_named
from penstock.core.row import Row

_EXACT = decimal.Context(
    prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, capitals=1, clamp=0, traps=[]
)
"""A thread's own context would round, and write in its own way."""
_LONG_BITS = 13_000
"""Python refuses to write integers of more than 4,300 digits in decimal."""


def is_plain_member(value: Any) -> bool:
    """Whether a value is a member of an Enum that is equal to nothing but itself."""
    return isinstance(value, enum.Enum) and type(value)._member_type_ is object  # type: ignore[attr-defined]


def int_text(number: int) -> str:
    """An integer of any size."""
    return str(number) if number.bit_length() < _LONG_BITS else hex(number)


def number_of(value: decimal.Decimal) -> int | float | str:
    """The integer or double that a decimal number is equal to; its shortest text if there is none."""
    if not value.is_finite():
        return float(value) if value.is_infinite() else float("nan")
    if value == value.to_integral_value(context=_EXACT):
        return int(value)
    if float(value) == value:
        return float(value)
    return _EXACT.to_sci_string(value.normalize(_EXACT))


def time_text(value: dt.date | dt.time | dt.timedelta) -> str:
    """A date, time of day, moment or span."""
    if isinstance(value, dt.datetime):
        return "datetime:" + moment_text(value)
    if isinstance(value, dt.date):
        return "date:" + dt.date.isoformat(value)
    if isinstance(value, dt.time):
        return "time:" + _time_of_day(value)
    nanoseconds = getattr(value, "nanoseconds", 0)
    plain = dt.timedelta(value.days, value.seconds, value.microseconds)
    return f"timedelta:{plain}" + _nanoseconds(nanoseconds)


def moment_text(value: dt.datetime) -> str:
    """A moment: in UTC if it is one of the world's, else as it stands."""
    nanoseconds = getattr(value, "nanosecond", 0)
    plain: dt.datetime = value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value
    if plain.utcoffset() is None:
        return dt.datetime.isoformat(plain.replace(tzinfo=None), " ") + _nanoseconds(nanoseconds)
    return dt.datetime.isoformat(plain.astimezone(dt.UTC)) + _nanoseconds(nanoseconds)


def _time_of_day(value: dt.time) -> str:
    offset = value.utcoffset()
    if offset is None:
        return dt.time.isoformat(value.replace(tzinfo=None))
    seconds = value.hour * 3600 + value.minute * 60 + value.second
    return f"{seconds - offset.days * 86_400 - offset.seconds}s{value.microsecond}"


def _nanoseconds(count: int) -> str:
    """Those of pandas that Python's own types do not have."""
    return f"+{count}ns" if count else ""


class _Nan(float):
    """The one NaN among keys: an object is equal to itself in tuples and dictionaries."""

    __slots__ = ()

    def __reduce__(self) -> str:
        return "NAN"


NAN = _Nan("nan")
"""Every NaN that is a key or in one."""

Canonical = Callable[[Any], Any]
_log = log_of(__name__)

_PLAIN: frozenset[type] = frozenset({int, str, bytes, bool})
_PARTS = _PLAIN | {type(None)}
_NO_NONE = "a key is None; filter such records out or give them a key before key_by"
_MAY_BE = (
    "use a number, string, bytes, date or time, Decimal, UUID, Enum, or a tuple, Row or dataclass of these"
)


def canonical_keys(keys: list[Any], kinds: set[type] | None = None) -> list[Any]:
    """The keys as the engine holds them; refuses what cannot be one. ``kinds``: their types, if known."""
    if kinds is None:
        kinds = set(map(type, keys))
    if kinds <= _PLAIN:
        return keys
    if type(None) in kinds:
        raise KeyError_(_NO_NONE, code=Code.KEY_NULL)
    if kinds == {float}:
        return [NAN if key != key else key for key in keys] if any(map(operator.ne, keys, keys)) else keys
    if kinds == {tuple} and _PARTS.issuperset(map(type, chain.from_iterable(keys))):
        return keys
    return list(map(_canonical, keys))


def canonical_column(values: Any) -> Any:
    """A key column in which values that are one key are the same bits, as Arrow compares them."""
    if not pa.types.is_floating(values.type):
        return values
    # Adding zero makes 0.0 of -0.0.
    values = pc.add(values, pa.scalar(0.0, values.type))
    nans = pc.is_nan(values)
    if pc.any(nans).as_py():
        values = pc.if_else(nans, pa.scalar(float("nan"), values.type), values)
    return values


def is_canonical(values: Any) -> bool:
    """Whether each value of a key column is a key as the engine holds it, by the column's type alone."""
    kind = values.type
    return (pa.types.is_integer(kind) or pa.types.is_string(kind)) and not values.null_count


def _canonical(value: Any) -> Any:
    """A key, or ``None`` or another part of one."""
    kind: Any = type(value)
    return value if kind in _PARTS else _form_of(kind)(value)


@lru_cache(1024)
def _form_of(kind: type) -> Canonical:
    """How values of a class are brought to their form."""
    found: Canonical | None = None
    for base, form in _FORMS:
        if found is None and issubclass(kind, base):
            found = form(kind) if base in _BY_CLASS else form
    if found is None:
        if not hasattr(kind, "__dataclass_fields__"):
            raise KeyError_(
                f"a key of type {kind.__name__} has no stable hash; {_MAY_BE}", code=Code.KEY_UNSTABLE
            )
        found = _of_dataclass(kind)
    if not _compares_as_known(kind):
        raise KeyError_(
            f"keys of class {kind.__qualname__} are compared by an __eq__ or __hash__ of its own, which the "
            "engine cannot follow on disk; key by a tuple of what decides instead",
            code=Code.KEY_UNSTABLE,
        )
    return found


def _compares_as_known(kind: type) -> bool:
    """Whether equality is that of the standard library, of numpy or pandas, or of a generated dataclass."""
    if dataclasses.is_dataclass(kind):
        return _is_generated(kind.__eq__) or _is_known(_definer(kind, "__eq__"))
    return _is_known(_definer(kind, "__eq__")) and _is_known(_definer(kind, "__hash__"))


def _definer(kind: type, method: str) -> type:
    return next(base for base in kind.__mro__ if method in vars(base))


def _is_known(base: type) -> bool:
    return base.__module__.partition(".")[0] in _KNOWN


def _is_generated(method: Any) -> bool:
    method = getattr(method, "__wrapped__", method)
    code = getattr(method, "__code__", None)
    return code is not None and code.co_filename == "<string>"


# --- the forms ----------------------------------------------------------------------------------


def _as_is(value: Any) -> Any:
    return value


def _of_float(value: float) -> Any:
    return NAN if value != value else value


def _of_decimal(value: decimal.Decimal) -> Any:
    return NAN if value.is_nan() else value


_NO_KEYS = (np.datetime64, np.timedelta64, np.longdouble, np.complexfloating, np.void, np.object_)


def _of_numpy(kind: type) -> Canonical:
    if issubclass(kind, _NO_KEYS):
        raise KeyError_(
            f"a key of numpy's type {kind.__name__} has no stable hash; {_MAY_BE} (value.item() of a "
            "datetime64 or timedelta64 is one, if it has no nanoseconds)",
            code=Code.KEY_UNSTABLE,
        )
    if issubclass(kind, bytes):
        return bytes
    return str.__str__ if issubclass(kind, str) else lambda value: _canonical(value.item())


def _of_datetime(value: dt.datetime) -> Any:
    if value != value:
        raise KeyError_(
            "a key is NaT, which is no time; filter such records out before key_by", code=Code.KEY_NULL
        )
    zone = value.tzinfo
    if zone is None or isinstance(zone, dt.timezone):
        return value
    if value.replace(fold=0).utcoffset() == value.replace(fold=1).utcoffset():
        return value
    return value.astimezone(dt.UTC)


def _of_tuple(value: tuple[Any, ...]) -> Any:
    items = list(map(_canonical, value))
    if all(map(operator.is_, items, value)):
        return value
    return tuple.__new__(type(value), items)


def _of_lists(kind: type) -> Canonical:
    """Called once per class, so that what it says is said once."""
    _log.warning(
        "a key, or a part of one, is a %s, which can change: it is taken for the tuple of its elements, and "
        "get_current_key() gives that",
        kind.__name__,
    )
    return lambda value: tuple(map(_canonical, value))


def _of_row(value: Row) -> Any:
    items = list(map(_canonical, value))
    if all(map(operator.is_, items, value)):
        return value
    (row,) = Row.many(value.field_names(), [items])
    row.set_row_kind(value.get_row_kind())
    return row


def _of_dataclass(kind: type) -> Canonical:
    """Dataclasses are equal if their class is the same one: it must be found under its name again."""
    if kind.__hash__ is None:
        raise KeyError_(
            f"a key of class {kind.__qualname__} can change, so it has no hash; "
            "write @dataclass(frozen=True)",
            code=Code.KEY_UNSTABLE,
        )
    if _definer(kind, "__eq__") is object:
        raise KeyError_(
            f"two keys of class {kind.__qualname__} are never equal; leave eq=False out of its @dataclass",
            code=Code.KEY_UNSTABLE,
        )
    _check_name(kind)
    names = compared_fields(kind)

    def canonical(value: Any) -> Any:
        changed = {}
        for name in names:
            part = getattr(value, name)
            if isinstance(part, list):
                raise KeyError_(
                    f"field {name!r} of {kind.__qualname__}, a key, is a list; use a tuple",
                    code=Code.KEY_UNSTABLE,
                )
            form = _canonical(part)
            if form is not part:
                changed[name] = form
        if not changed:
            return value
        made = copy.copy(value)
        for name, form in changed.items():
            object.__setattr__(made, name, form)
        return made

    return canonical


def _of_enum(kind: type) -> Canonical:
    if _definer(kind, "__eq__") is object:
        _check_name(kind)
    return _as_is


def _check_name(kind: type) -> None:
    if is_named(kind):
        return
    raise KeyError_(
        f"keys of class {kind.__module__}.{kind.__qualname__} would not be found again after a restart: the "
        "class is not under that name in its module, so the next run makes another one. Define it at the top "
        "level of the program or of a module, or key by a tuple of its fields or by the name of the member",
        code=Code.KEY_UNSTABLE,
    )


@lru_cache(1024)
def compared_fields(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass that decide whether two of its objects are equal."""
    return tuple(field.name for field in dataclasses.fields(kind) if field.compare)


_KNOWN = frozenset({"builtins", "datetime", "decimal", "enum", "uuid", "numpy", "pandas", "penstock"})
"""Modules whose classes compare their objects as the hash and RocksDB's row keys do."""
_BY_CLASS: frozenset[type] = frozenset({np.generic, enum.Enum, list})
_FORMS: tuple[tuple[type, Any], ...] = (
    (_Nan, _as_is),
    (np.generic, _of_numpy),
    (enum.Enum, _of_enum),
    (int, _as_is),
    (float, _of_float),
    (str, _as_is),
    (bytes, _as_is),
    (tuple, _of_tuple),
    (list, _of_lists),
    (Row, _of_row),
    (decimal.Decimal, _of_decimal),
    (dt.datetime, _of_datetime),
    (dt.timedelta, _as_is),
    (dt.date, _as_is),
    (dt.time, _as_is),
    (uuid.UUID, _as_is),
)
