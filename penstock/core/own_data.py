"""Classes of Penstock that are plain data, as the data format knows them: by name, field by field.

A dataclass or named tuple is its fields by name, an enum its member's name.  What was stored is made again
without calling anything of the class: a field that it lacks has its default.  A class of ours that decides
itself how it is pickled is none of these.

Names (of these, and of the fields of rows) are JSON.  There are few of them, asked for again and again, so
both ways are remembered.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from enum import Enum, Flag
from functools import lru_cache
from typing import Any, NamedTuple

from penstock.core.known_types import OWN, is_named
from penstock.core.plain_scalars import UnfitError
from penstock.core.row import RowKind
from penstock.core.unpickling import resolved

PACKAGE = "penstock."
Parts = Callable[[Any], list[Any]]


class Form(NamedTuple):
    """How objects of a class of ours are taken apart."""

    names: tuple[str, ...]
    """Module and name of the class, and the names of its fields."""
    parts: Parts
    """The values of these fields."""


def is_member(kind: type) -> bool:
    """Whether it is an enum of ours; several flags at once have no name."""
    ours = issubclass(kind, Enum) and kind.__module__.startswith(PACKAGE)
    return ours and not issubclass(kind, Flag) and is_named(kind)


def form_of(kind: type) -> Form | None:
    """The form of a class; ``None`` if it is none of ours, or more than data."""
    if not kind.__module__.startswith(PACKAGE) or issubclass(kind, Enum) or not is_named(kind):
        return None
    if (kind.__module__, kind.__qualname__) in OWN:
        return Form((kind.__module__, kind.__qualname__), lambda value: [])
    names = _fields(kind)
    if names is None or _has_ways_of_its_own(kind):
        return None
    parts: Parts = list if issubclass(kind, tuple) else lambda value: [getattr(value, name) for name in names]
    return Form((kind.__module__, kind.__qualname__, *names), parts)


@lru_cache(1024)
def maker_of(names: tuple[Any, ...]) -> Callable[[list[Any]], Any]:
    """From the values of fields to the object; raises if there is no such class, or not with these fields."""
    module, name, *stored = names
    kind = _class(module, name)
    if (module, name) in OWN:
        return lambda values: kind() if not values else _wrong(f"{name} has no fields")
    known = _fields(kind)
    if known is None or _has_ways_of_its_own(kind) or len(set(stored)) != len(stored):
        raise ValueError(f"{module}.{name} is not stored as data")
    unknown = [field for field in stored if field not in known]
    if unknown:
        raise ValueError(f"{module}.{name} has no field {unknown[0]!r}")
    if tuple(stored) == known:
        return _exact_maker(kind, known)
    lacking = {field: _default(kind, field) for field in known if field not in stored}
    make = _exact_maker(kind, known)

    def completed(values: list[Any]) -> Any:
        found = dict(zip(stored, values, strict=True))
        return make([found[field] if field in found else lacking[field]() for field in known])

    return completed


@lru_cache(1024)
def member_of(module: str, name: str, member: str) -> Any:
    """A member of an enum of ours."""
    kind = _class(module, name)
    if not issubclass(kind, Enum):
        raise ValueError(f"{module}.{name} is no enum")
    return kind[member]


def _class(module: Any, name: Any) -> Any:
    if not isinstance(module, str) or not isinstance(name, str) or not module.startswith(PACKAGE):
        raise ValueError(f"{module!r} is no module of Penstock")
    found = resolved(module, name)
    if not isinstance(found, type):
        raise ValueError(f"{module}.{name} is no class")
    return found


def _fields(kind: Any) -> tuple[str, ...] | None:
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    named = getattr(kind, "_fields", None)
    return tuple(named) if issubclass(kind, tuple) and named is not None else None


def _has_ways_of_its_own(kind: Any) -> bool:
    """Whether pickle would not simply take the fields; a generated ``__getstate__`` does that."""
    if kind.__reduce__ is not object.__reduce__ or kind.__reduce_ex__ is not object.__reduce_ex__:
        return True
    state = kind.__getstate__
    return state is not object.__getstate__ and state is not getattr(dataclasses, "_dataclass_getstate", None)


def _default(kind: Any, field: str) -> Callable[[], Any]:
    """What makes the default of a field, anew for each object."""
    if issubclass(kind, tuple):
        if field in kind._field_defaults:
            return lambda: kind._field_defaults[field]
    else:
        found = next(each for each in dataclasses.fields(kind) if each.name == field)
        if found.default is not dataclasses.MISSING:
            return lambda: found.default
        if found.default_factory is not dataclasses.MISSING:
            return found.default_factory
    raise ValueError(f"{kind.__module__}.{kind.__qualname__} is stored without its field {field!r}")


def _exact_maker(kind: Any, names: tuple[str, ...]) -> Callable[[list[Any]], Any]:
    if issubclass(kind, tuple):
        new, count = tuple.__new__, len(names)
        return lambda values: new(kind, values) if len(values) == count else _wrong("a field too few or many")

    def made(values: list[Any], put: Any = object.__setattr__) -> Any:
        found = object.__new__(kind)
        for name, value in zip(names, values, strict=True):
            put(found, name, value)
        return found

    return made


def _wrong(what: str) -> Any:
    raise ValueError(what)


_MOST = 1024


@lru_cache(_MOST)
def row_head(fields: tuple[str, ...] | None, kind: RowKind) -> bytes:
    """The names of a row's fields, and what it does to a table."""
    if fields is not None and not {str}.issuperset(map(type, fields)):
        raise UnfitError("a row with names that are no texts")
    return _dumped([kind.value, fields])


@lru_cache(_MOST)
def read_row_head(head: bytes) -> tuple[tuple[str, ...] | None, RowKind]:
    """What :func:`row_head` was given."""
    number, fields = json.loads(head)
    return None if fields is None else _texts(fields), RowKind(number)


@lru_cache(_MOST)
def own_head(kind: type) -> tuple[bytes, Callable[[Any], list[Any]]]:
    """Module, name and fields of a class of ours, and what gives their values."""
    form = form_of(kind)
    assert form is not None
    return _dumped(form.names), form.parts


@lru_cache(_MOST)
def own_maker(head: bytes) -> Callable[[list[Any]], Any]:
    """From the values of its fields to an object of the class."""
    return maker_of(_texts(json.loads(head)))


@lru_cache(_MOST, typed=True)
def member_head(value: Any) -> bytes:
    """A member of an enum of ours; of two that are numbers, equal ones are still two."""
    kind = type(value)
    return _dumped([kind.__module__, kind.__qualname__, value.name])


@lru_cache(_MOST)
def member(head: bytes) -> Any:
    """What :func:`member_head` was given."""
    return member_of(*_texts(json.loads(head)))


def _dumped(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _texts(found: Any) -> tuple[str, ...]:
    if type(found) is not list or not {str}.issuperset(map(type, found)):
        raise ValueError("names are no texts")
    return tuple(found)
