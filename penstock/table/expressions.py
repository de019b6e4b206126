"""PyFlink's ``table.expressions``: what expressions of columns begin with."""

from __future__ import annotations

from typing import Any

from penstock.expressions.face import Expression, call, coalesce, if_then_else
from penstock.expressions.face import col as _col
from penstock.expressions.face import lit as _lit
from penstock.table.types import arrow_of

__all__ = [
    "Expression",
    "and_",
    "call",
    "coalesce",
    "col",
    "concat",
    "if_then_else",
    "lit",
    "not_",
    "null_of",
    "or_",
]


def col(name: str) -> Expression:
    """The column ``name``."""
    return _col(name)


def lit(v: Any, data_type: Any = None) -> Expression:
    """A constant, of a type if one is given."""
    return _lit(v, None if data_type is None else arrow_of(data_type))


def null_of(data_type: Any) -> Expression:
    """No value, of a type."""
    return _lit(None, arrow_of(data_type))


def and_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression:
    """All are true."""
    found = call("and", predicate0, predicate1)
    for more in predicates:
        found = call("and", found, more)
    return found


def or_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression:
    """One is true."""
    found = call("or", predicate0, predicate1)
    for more in predicates:
        found = call("or", found, more)
    return found


def not_(expression: Expression) -> Expression:
    """It is false."""
    return ~expression


def concat(first: Any, *others: Any) -> Expression:
    """Texts, one behind the other."""
    found: Any = first
    for more in others:
        found = call("concat", found, more)
    return found if isinstance(found, Expression) else _lit(found)
