"""Fields of records by their names, whatever a record is."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import TypeMismatchError
from penstock.core.row import Row

_SHOWN = 100


def field_of(record: Any, name: str) -> Any:
    """The field of a ``Row``, a dict, or anything that has attributes."""
    try:
        return record[name] if isinstance(record, (Row, dict)) else getattr(record, name)
    except (KeyError, AttributeError):
        if hasattr(type(record), name):  # what it computes has failed, which is another matter
            raise
        raise no_field(record, name) from None


def no_field(record: Any, field: int | str) -> TypeMismatchError:
    """The error if a record has no such field: what it has, and the way out."""
    shown = repr(record)
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
    return TypeMismatchError(
        f"field {field!r} was asked for, but the record is a {type(record).__name__}{_what_it_has(record)}: "
        f"{shown}. Use a function of the record (lambda r: r[0]), or give its fields names: Rows or dicts, "
        "or the type Types.ROW_NAMED(names, types) for the step that makes it"
    )


def _what_it_has(record: Any) -> str:
    names = record.field_names() if isinstance(record, Row) else getattr(record, "_fields", None)
    if isinstance(record, dict):
        names = [str(key) for key in record]
    if names:
        return f" with the fields {', '.join(map(str, names))}"
    return f" of {len(record)} fields without names" if isinstance(record, (tuple, list, Row)) else ""
