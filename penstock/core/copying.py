"""Copies of values that can change in place, made where one value gets a second reader.

:func:`copied` gives a value that shares nothing changeable with its argument; what cannot change is given
back as it is.  How a value is copied depends on its type and is found out once per type:

* numbers, texts, bytes, times, enums, functions and the like: never;
* tuples, named tuples and frozen dataclasses: only if something inside must be;
* ``Row``, list, dict, set, arrays and plain classes: field by field, without ``copy``'s bookkeeping;
* everything else, and whatever has ways of its own (``__deepcopy__``, ``__reduce__``): ``copy.deepcopy``;
* what that refuses (locks, sockets): that value is shared, with one warning per type.

Two references to one object within a value become two objects, except in a value that contains itself,
which ``copy.deepcopy`` sees to.  Design note 020.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import decimal
import fractions
import ipaddress
import pathlib
import re
import types
import uuid
from collections.abc import Callable, Iterable
from enum import Enum
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.discreet import log_of
from penstock.core.row import Row

log = log_of(__name__)

Copier = Callable[[Any], Any]

ATOMIC: frozenset[type] = frozenset(
    {
        *(int, float, bool, str, bytes, complex, frozenset, range, slice, type),
        *(type(None), type(...), type(NotImplemented)),
        *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType),
        *(dt.date, dt.datetime, dt.time, dt.timedelta, dt.timezone),
        *(decimal.Decimal, fractions.Fraction, uuid.UUID, re.Pattern),
        *(pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath),
        *(ipaddress.IPv4Address, ipaddress.IPv6Address),
        *(pa.Table, pa.RecordBatch, pa.Schema, pa.ChunkedArray),
    }
)
"""Types whose values cannot change in place."""

_MOST_TYPES = 10_000
"""Types that are remembered: classes may be made at run time without end."""

_WARNED_OF: set[type] = set()
_UNSET: Any = object()

_are_atomic = ATOMIC.issuperset
_new_object = object.__new__
_HOOKS = (
    *("__reduce__", "__reduce_ex__", "__getstate__", "__new__", "__del__"),
    *("__deepcopy__", "__copy__", "__setstate__", "__getnewargs__", "__getnewargs_ex__"),
)


def copied(value: Any) -> Any:
    """``value`` if it cannot change, else a copy that shares nothing that can."""
    kind = type(value)
    if kind in ATOMIC:
        return value
    if kind is tuple:
        for item in value:
            if type(item) not in ATOMIC:
                break
        else:
            return value
    copier = _COPIERS.get(kind, _copied)
    try:
        return copier(value)
    except RecursionError:
        return _whole(value)


def itself(value: Any) -> Any:
    """``value``: stands for :func:`copied` where records are not to be copied."""
    return value


def copied_all(values: list[Any]) -> list[Any]:
    """The same for each of many: the list itself if none of them can change."""
    if are_unchanging(values):
        return values
    return [copied(value) for value in values]


def copied_batch(batch: Batch) -> Batch:
    """A batch with records of its own. Columns, times and keys cannot change."""
    if batch.rows is None:
        return batch
    rows = copied_all(batch.rows)
    return batch if rows is batch.rows else Batch(rows=rows, times=batch.times, keys=batch.keys)


def are_unchanging(values: Iterable[Any]) -> bool:
    """Whether none of the values can change; looks into tuples, but not for what else may be constant."""
    kinds = set(map(type, values))
    if kinds <= ATOMIC:
        return True
    return kinds == {tuple} and _are_atomic(map(type, chain.from_iterable(values)))


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind in ATOMIC:
        return value
    copier = _COPIERS.get(kind)
    if copier is None:
        if len(_COPIERS) >= _MOST_TYPES:
            _COPIERS.clear()
            _COPIERS.update(_BUILT_IN)
        copier = _COPIERS[kind] = _copier_of(kind)
    return copier(value)


def _tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    if _are_atomic(map(type, value)):
        return value
    fresh = tuple(map(_copied, value))
    return value if all(map(_is, fresh, value)) else fresh


def _is(left: Any, right: Any) -> bool:
    return left is right


def _list(value: list[Any]) -> list[Any]:
    return value.copy() if _are_atomic(map(type, value)) else list(map(_copied, value))


def _dict(value: dict[Any, Any]) -> dict[Any, Any]:
    fresh = value.copy()
    for key, item in value.items():
        if type(item) not in ATOMIC:
            fresh[key] = _copied(item)
    return fresh


def _set(value: set[Any]) -> set[Any]:
    return value.copy() if _are_atomic(map(type, value)) else set(map(_copied, value))


def _row(value: Row) -> Row:
    fresh = _new_object(Row)
    fresh._fields, fresh._kind = value._fields, value._kind
    values = value._values
    if not _are_atomic(map(type, values)):
        fresh._values = list(map(_copied, values))
    else:
        fresh._values = values if type(values) is tuple else list(values)
    return fresh


def _array(value: np.ndarray[Any, Any]) -> Any:
    return _deep(value) if value.dtype.hasobject else value.copy()


_BUILT_IN: dict[type, Copier] = {
    tuple: _tuple,
    list: _list,
    dict: _dict,
    set: _set,
    bytearray: bytearray,
    Row: _row,
    np.ndarray: _array,
}
_COPIERS: dict[type, Copier] = dict(_BUILT_IN)


def _copier_of(kind: type) -> Copier:
    if issubclass(kind, Enum | np.generic | type | dt.tzinfo | dt.date | dt.timedelta | pa.Scalar | pa.Array):
        return itself
    if issubclass(kind, tuple) and hasattr(kind, "_make") and _is_plain(kind, {"__new__", "__getnewargs__"}):
        return _named_tuple
    slots = [name for base in kind.__mro__ for name in _slots(base)]
    has_dict = kind.__dictoffset__ and kind.__basicsize__ == _Plain.__basicsize__
    if has_dict and not slots and _is_plain(kind):
        return _by_dict(kind)
    fields = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    if slots and slots == fields and _is_plain(kind, {"__getstate__", "__setstate__"}):
        return _by_slots(kind, slots)
    return _deep


class _Plain:
    """As small as an object with attributes can be: whoever is larger has something else inside."""


def _is_plain(kind: type, own: Iterable[str] = ()) -> bool:
    """Whether a class is copied and pickled as classes are, but for the methods named."""
    return all(name in own or getattr(kind, name, None) is getattr(object, name, None) for name in _HOOKS)


def _slots(base: type) -> tuple[str, ...]:
    found = base.__dict__.get("__slots__", ())
    return (found,) if isinstance(found, str) else tuple(found)


def _named_tuple(value: Any) -> Any:
    if getattr(value, "__dict__", None):
        return _deep(value)
    fresh = _tuple(value)
    return value if fresh is value else type(value)._make(fresh)


def _by_dict(kind: type) -> Copier:
    """For classes whose objects are a dict of attributes, and nothing else."""
    frozen = dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]

    def copy_attributes(value: Any) -> Any:
        held = value.__dict__
        fresh_held = _dict(held)
        if frozen and all(map(_is, fresh_held.values(), held.values())):
            return value
        fresh: Any = object.__new__(kind)
        fresh.__dict__.update(fresh_held)
        return fresh

    return copy_attributes


def _by_slots(kind: type, names: list[str]) -> Copier:
    """For dataclasses whose fields are slots."""
    put = object.__setattr__

    def copy_fields(value: Any) -> Any:
        fresh: Any = object.__new__(kind)
        for name in names:
            item = getattr(value, name, _UNSET)
            if item is not _UNSET:
                put(fresh, name, _copied(item))
        return fresh

    return copy_fields


def _deep(value: Any) -> Any:
    """By ``copy.deepcopy``. What lies too deep for it is left to :func:`copied`, who has the whole value."""
    try:
        return copy.deepcopy(value)
    except RecursionError:
        raise
    except Exception as error:
        return _shared(value, error)


def _whole(value: Any) -> Any:
    """A value that contains itself, or is too deep for the stack."""
    try:
        return copy.deepcopy(value)
    except Exception as error:
        return _shared(value, error)


def _shared(value: Any, error: Exception) -> Any:
    """``value`` itself. Others of its type are tried all the same: it may be a list with a lock in it."""
    kind = type(value)
    if kind not in _WARNED_OF:
        if len(_WARNED_OF) >= _MOST_TYPES:
            _WARNED_OF.clear()
        _WARNED_OF.add(kind)
        log.warning(
            "a value of type %s.%s cannot be copied (%s): steps that read it share it, and see what the "
            "others change in it. Give the class a __deepcopy__ method, or keep it out of records and state",
            kind.__module__,
            kind.__qualname__,
            error,
        )
    return value
