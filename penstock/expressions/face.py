"""What users write: ``col("price") * 2 > lit(10)``, with the names of PyFlink's expressions.

An :class:`Expression` only builds a node.  Nothing is checked before the expression meets the columns of a
stream, and then all of it is, at submission.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import pyarrow as pa

from penstock.core.errors import ConfigError
from penstock.expressions.aggregates import count_rows, where
from penstock.expressions.methods import ExpressionMethods, Operand
from penstock.expressions.nodes import Call, Case, Cast, Column, Literal, Node, PythonCall
from penstock.expressions.ordering import Ordering
from penstock.expressions.types import literal_type


def node_of(value: Operand) -> Node:
    """The node of an expression, or of a constant."""
    if isinstance(value, Expression):
        return value.node
    return Literal(value, literal_type(value))


class Expression(ExpressionMethods):
    """A value computed from columns, batch by batch.  Made by :func:`col` and :func:`lit`.

    >>> str((col("price") * col("quantity") - 1).alias("rest"))
    '((price * quantity) - 1) AS rest'

    ``==``, ``<``, ``&``, ``|`` and ``~`` build expressions, too, so an expression is neither true nor false:
    ``a and b`` is an error, ``a & b`` is meant.
    """

    __slots__ = ("name", "node")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, node: Node, name: str | None = None) -> None:
        self.node = node
        self.name = name

    def __str__(self) -> str:
        return str(self.node) if self.name is None else f"{self.node} AS {self.name}"

    __repr__ = __str__

    def __bool__(self) -> NoReturn:
        raise ConfigError(f"{self} has no truth before there is data: write & for and, | for or, ~ for not")

    def alias(self, name: str) -> Expression:
        """The same under another name."""
        return Expression(self.node, name)

    def _call(self, function: str, *others: Operand) -> Expression:
        return call(function, self, *others)

    def _of(self, node: Node) -> Expression:
        return Expression(node)

    # --- arithmetic and comparing -------------------------------------------------------------

    def __add__(self, other: Operand) -> Expression:
        return self._call("add", other)

    def __radd__(self, other: Operand) -> Expression:
        return call("add", other, self)

    def __sub__(self, other: Operand) -> Expression:
        return self._call("subtract", other)

    def __rsub__(self, other: Operand) -> Expression:
        return call("subtract", other, self)

    def __mul__(self, other: Operand) -> Expression:
        return self._call("multiply", other)

    def __rmul__(self, other: Operand) -> Expression:
        return call("multiply", other, self)

    def __truediv__(self, other: Operand) -> Expression:
        return self._call("divide", other)

    def __rtruediv__(self, other: Operand) -> Expression:
        return call("divide", other, self)

    def __mod__(self, other: Operand) -> Expression:
        return self._call("modulo", other)

    def __rmod__(self, other: Operand) -> Expression:
        return call("modulo", other, self)

    def __pow__(self, other: Operand) -> Expression:
        return self._call("power", other)

    def __neg__(self) -> Expression:
        return self._call("negate")

    def __eq__(self, other: Operand) -> Expression:  # type: ignore[override]
        return self._call("equal", other)

    def __ne__(self, other: Operand) -> Expression:  # type: ignore[override]
        return self._call("not_equal", other)

    def __lt__(self, other: Operand) -> Expression:
        return self._call("less", other)

    def __le__(self, other: Operand) -> Expression:
        return self._call("less_equal", other)

    def __gt__(self, other: Operand) -> Expression:
        return self._call("greater", other)

    def __ge__(self, other: Operand) -> Expression:
        return self._call("greater_equal", other)

    def __and__(self, other: Operand) -> Expression:
        return self._call("and", other)

    def __rand__(self, other: Operand) -> Expression:
        return call("and", other, self)

    def __or__(self, other: Operand) -> Expression:
        return self._call("or", other)

    def __ror__(self, other: Operand) -> Expression:
        return call("or", other, self)

    def __invert__(self) -> Expression:
        return self._call("not")

    def __getitem__(self, key: Operand) -> Expression:
        """``list[1]`` (the first), ``map["key"]``, ``struct["field"]``."""
        return self._call("element_at", key)

    def desc(self) -> Ordering:
        """To order by: the largest first."""
        return Ordering(self, True)

    def asc(self) -> Ordering:
        """To order by: the smallest first."""
        return Ordering(self, False)

    def filter(self, condition: Operand) -> Expression:
        """In agg, of an aggregate: only of the rows for which a condition is true."""
        return Expression(where(self.node, node_of(condition)))

    def between(self, lower: Operand, upper: Operand) -> Expression:
        """Both ends belong to it."""
        return call("and", self >= lower, self <= upper)

    def in_(self, *values: Operand) -> Expression:
        """Equal to one of them; takes values or one list of them."""
        flat = values[0] if len(values) == 1 and isinstance(values[0], list | tuple | set) else values
        if not flat:
            raise ConfigError(f"{self} in_ needs at least one value")
        return self._call("in", *flat)

    # --- null, true, casts ----------------------------------------------------------------------

    @property
    def is_null(self) -> Expression:
        """True where there is no value."""
        return self._call("is_null")

    @property
    def is_not_null(self) -> Expression:
        """True where there is a value."""
        return self._call("is_not_null")

    def if_null(self, other: Operand) -> Expression:
        """Itself or, where that is null, another."""
        return coalesce(self, other)

    def cast(self, data_type: pa.DataType) -> Expression:
        """As another Arrow type; a value that does not fit ends the job."""
        return Expression(Cast(self.node, _type(data_type)))

    def try_cast(self, data_type: pa.DataType) -> Expression:
        """As another Arrow type; a value that does not fit becomes null."""
        return Expression(Cast(self.node, _type(data_type), tolerant=True))

    # --- functions by PyFlink's names -------------------------------------------------------------

    def like(self, pattern: str) -> Expression:
        """``%`` is any text, ``_`` any one character."""
        return self._call("like", pattern)

    def substring(self, begin: Operand, length: Operand | None = None) -> Expression:
        """From a position, counted from one."""
        return self._call("substring", begin) if length is None else self._call("substring", begin, length)

    def get(self, name: str) -> Expression:
        """A field of a struct."""
        return self._call("field", name)

    def at(self, index: Operand) -> Expression:
        """An element of a list, from one, or of a map, by its key."""
        return self._call("element_at", index)

    def extract(self, unit: str) -> Expression:
        """``"hour"``, ``"day"``, ... of a time, as a number."""
        return call("extract", unit, self)

    def floor(self, unit: str | None = None) -> Expression:
        """Down to a whole number, or a time down to a unit."""
        return self._call("floor") if unit is None else call("floor_time", unit, self)

    def ceil(self, unit: str | None = None) -> Expression:
        """Up to a whole number, or a time up to a unit."""
        return self._call("ceil") if unit is None else call("ceil_time", unit, self)


def _type(data_type: Any) -> pa.DataType:
    if not isinstance(data_type, pa.DataType):
        raise ConfigError(f"a cast takes a type such as pyarrow.int64(), not {data_type!r}")
    return data_type


def call(function: str, *arguments: Operand) -> Expression:
    """A built-in function by name, as in ``call("regexp_extract", col("url"), "id=([0-9]+)", 1)``."""
    return Expression(Call(function, tuple(map(node_of, arguments))))


def col(name: str) -> Expression:
    """The column ``name``."""
    if not isinstance(name, str):
        raise ConfigError(f"col takes a column's name, not {name!r}")
    return Expression(Column(name), name)


def lit(value: Any, data_type: pa.DataType | None = None) -> Expression:
    """A constant; of a type, if one is given."""
    kind = literal_type(value) if data_type is None else _type(data_type)
    try:
        pa.scalar(value, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ConfigError(f"{value!r} is no {kind}: {error}") from error
    return Expression(Literal(value, kind))


def count() -> Expression:
    """In agg: the number of rows."""
    return Expression(count_rows())


class When:
    """An unfinished CASE: ``when(a, 1).when(b, 2).otherwise(3)``."""

    def __init__(self, branches: tuple[tuple[Node, Node], ...]) -> None:
        self._branches = branches

    def when(self, condition: Operand, value: Operand) -> When:
        """Another branch, for rows that took none before."""
        return When((*self._branches, (node_of(condition), node_of(value))))

    def otherwise(self, value: Operand) -> Expression:
        """For rows that took no branch."""
        return Expression(Case(self._branches, node_of(value)))

    def end(self) -> Expression:
        """Null for rows that took no branch."""
        return self.otherwise(None)


def when(condition: Operand, value: Operand) -> When:
    """Begins a CASE."""
    return When(((node_of(condition), node_of(value)),))


def if_then_else(condition: Operand, value: Operand, otherwise: Operand) -> Expression:
    """One of two values."""
    return when(condition, value).otherwise(otherwise)


def coalesce(*values: Operand) -> Expression:
    """The first that is not null; the others are not computed where they are not needed."""
    if not values:
        raise ConfigError("coalesce needs at least one value")
    *first, last = map(node_of, values)
    branches = tuple((Call("is_not_null", (node,)), node) for node in first)
    return Expression(Case(branches, last)) if branches else Expression(last)


def udf(
    function: Callable[..., Any] | None = None,
    *,
    result_type: pa.DataType,
    func_type: str = "general",
    name: str | None = None,
) -> Any:
    """Makes a Python function part of expressions: ``"general"`` gets plain values, ``"arrow"`` whole arrays.

    >>> @udf(result_type=pa.int64())
    ... def letters(text):
    ...     return len(set(text))
    >>> str(letters(col("name")))
    'letters(name)'
    """
    if func_type not in ("general", "arrow"):
        raise ConfigError(f"a function is 'general' or 'arrow', not {func_type!r}")
    if function is None:
        return functools.partial(udf, result_type=result_type, func_type=func_type, name=name)
    called = str(name or getattr(function, "__name__", type(function).__name__))
    promised = _type(result_type)

    @functools.wraps(function)
    def build(*arguments: Operand) -> Expression:
        nodes = tuple(map(node_of, arguments))
        return Expression(PythonCall(function, nodes, promised, func_type == "arrow", called))

    return build


def names_of(expressions: Sequence[Expression]) -> list[str]:
    """The names of result columns: given, or the text of the expression."""
    return [expression.name or str(expression.node) for expression in expressions]
