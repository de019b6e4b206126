"""Expressions over named columns: ``col("price") * col("quantity") - 1``.

An expression is data, so it is compared, hashed and shipped like any value.  It is evaluated on whole
columns, or on one record where a step works row by row; both give the same, and null where a part is null.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import ConfigError
from penstock.core.row import Row

_VECTOR: dict[str, Callable[[Any, Any], Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
_SCALAR: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


class Expression(ABC):
    """A value computed from named columns. Made by :func:`col`, joined with ``+``, ``-`` and ``*``.

    >>> str(col("price") * col("quantity") - 1)
    '((price * quantity) - 1)'
    """

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The columns it reads."""

    @abstractmethod
    def of_columns(self, columns: pa.RecordBatch) -> Any:
        """Its value for each record of a batch."""

    @abstractmethod
    def of_row(self, row: Any) -> Any:
        """Its value for one record with named fields."""

    def __add__(self, other: Expression | float) -> Expression:
        return _Joined("+", self, _operand(other))

    def __radd__(self, other: float) -> Expression:
        return _Joined("+", _operand(other), self)

    def __sub__(self, other: Expression | float) -> Expression:
        return _Joined("-", self, _operand(other))

    def __rsub__(self, other: float) -> Expression:
        return _Joined("-", _operand(other), self)

    def __mul__(self, other: Expression | float) -> Expression:
        return _Joined("*", self, _operand(other))

    def __rmul__(self, other: float) -> Expression:
        return _Joined("*", _operand(other), self)


@dataclass(frozen=True)
class _Column(Expression):
    name: str

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def of_columns(self, columns: pa.RecordBatch) -> Any:
        return columns.column(self.name)

    def of_row(self, row: Any) -> Any:
        return field_of(row, self.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class _Constant(Expression):
    value: float

    @property
    def names(self) -> tuple[str, ...]:
        return ()

    def of_columns(self, columns: pa.RecordBatch) -> Any:
        return pa.scalar(self.value)

    def of_row(self, row: Any) -> Any:
        return self.value

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class _Joined(Expression):
    sign: str
    left: Expression
    right: Expression

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.left.names, *self.right.names)))

    def of_columns(self, columns: pa.RecordBatch) -> Any:
        try:
            return _VECTOR[self.sign](self.left.of_columns(columns), self.right.of_columns(columns))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
            raise ConfigError(
                f"the expression {self} cannot be computed ({e}); cast its columns first"
            ) from e

    def of_row(self, row: Any) -> Any:
        left, right = self.left.of_row(row), self.right.of_row(row)
        return None if left is None or right is None else _SCALAR[self.sign](left, right)

    def __str__(self) -> str:
        return f"({self.left} {self.sign} {self.right})"


def col(name: str) -> Expression:
    """The column ``name``, as part of an expression, as in ``Sum(col("price") * 2, "double")``."""
    return _Column(name)


def as_expression(column: str | Expression) -> Expression:
    """The expression itself, or the one that is a column's name."""
    return _Column(column) if isinstance(column, str) else column


def _operand(value: Expression | float) -> Expression:
    if isinstance(value, Expression):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(
            f"an expression over columns takes numbers and columns, not {value!r}; "
            f"write col({value!r}) for a column of that name"
        )
    return _Constant(value)


def field_of(row: Any, name: str) -> Any:
    """A named field of a ``Row``, a dict or an object with attributes."""
    try:
        return row[name] if isinstance(row, Row | dict) else getattr(row, name)
    except (KeyError, AttributeError, ValueError) as e:
        raise ConfigError(
            f"agg or key_by asks for the field {name!r}, which the record {row!r} does not have; give the "
            "records names (Row, dict, dataclass) in the step before"
        ) from e
