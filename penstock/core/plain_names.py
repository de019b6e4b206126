"""Names in the data format: fields of rows, classes of Penstock and members of its enums, as JSON.

There are few of them, asked for again and again, so both ways are remembered.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from penstock.core.own_data import form_of, maker_of, member_of
from penstock.core.plain_scalars import UnfitError
from penstock.core.row import RowKind

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
