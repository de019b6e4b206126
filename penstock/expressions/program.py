"""Expressions become programs: typed against a schema, folded where constant, computed once where equal.

Binding checks everything that can be known before data: columns, types, arguments.  A bound part is found
again by its node, so two equal parts are one, and :class:`Rows` computes each once per batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import penstock.expressions.arithmetic
import penstock.expressions.comparing
import penstock.expressions.nested
import penstock.expressions.strings
import penstock.expressions.times  # noqa: F401  # each adds its functions
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, TypeMismatchError
from penstock.expressions.aggregates import AggregateCall
from penstock.expressions.casts import cast_kernel
from penstock.expressions.functions import FUNCTIONS, Arguments, Kernel, Unfit, Value
from penstock.expressions.nodes import Call, Case, Cast, Column, Literal, Node, PythonCall
from penstock.expressions.python_calls import python_kernel
from penstock.expressions.suggest import nearest
from penstock.expressions.types import NoCommonType, common_type, plain

_BOOL = pa.bool_()


@dataclass(frozen=True, eq=False)
class Bound(ABC):
    """A node with its type; ``fails``: it raises for some values."""

    type: pa.DataType
    fails: bool

    @abstractmethod
    def compute(self, rows: Rows) -> Value:
        """Its value for these rows."""


class Rows:
    """The columns of a batch, and what has been computed of them."""

    def __init__(self, columns: Sequence[pa.Array], length: int) -> None:
        self.columns = columns
        self.length = length
        self._known: dict[Bound, Value] = {}

    def value(self, bound: Bound) -> Value:
        """An array as long as the rows, or a scalar."""
        found = self._known.get(bound)
        if found is None:
            found = self._known[bound] = bound.compute(self)
        return found

    def array(self, bound: Bound) -> pa.Array:
        """The same, always as an array."""
        found = self.value(bound)
        return found if isinstance(found, pa.Array) else pa.repeat(found, self.length)

    def where(self, mask: pa.Array) -> Rows:
        """Some of the rows."""
        chosen = [column.filter(mask) for column in self.columns]
        return Rows(chosen, pc.sum(mask).as_py() or 0)


@dataclass(frozen=True, eq=False)
class _Input(Bound):
    index: int

    def compute(self, rows: Rows) -> Value:
        found = rows.columns[self.index]
        return found if found.type.equals(self.type) else found.cast(self.type)


@dataclass(frozen=True, eq=False)
class _Constant(Bound):
    value: pa.Scalar

    def compute(self, rows: Rows) -> Value:
        return self.value


@dataclass(frozen=True, eq=False)
class _Called(Bound):
    kernel: Kernel
    arguments: tuple[Bound, ...]
    text: str

    def compute(self, rows: Rows) -> Value:
        values = [rows.value(argument) for argument in self.arguments]
        try:
            return self.kernel(*values)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
            raise TypeMismatchError(f"{self.text} cannot be computed: {error}") from error


@dataclass(frozen=True, eq=False)
class _OnlyWhereNeeded(Bound):
    """A CASE: each branch is computed for the rows that take it, if it could fail for others."""

    branches: tuple[tuple[Bound, Bound], ...]
    otherwise: Bound

    def compute(self, rows: Rows) -> Value:
        left = pa.repeat(pa.scalar(True), rows.length)
        masks, values = [], []
        for condition, value in self.branches:
            taken = pc.and_(left, pc.fill_null(self._where(rows, left, condition), False))
            left = pc.and_(left, pc.invert(taken))
            masks.append(taken)
            values.append(self._where(rows, taken, value))
        names = [str(index) for index in range(len(masks))]
        last = self._where(rows, left, self.otherwise)
        return pc.case_when(pa.StructArray.from_arrays(masks, names), *values, last)

    def _where(self, rows: Rows, mask: pa.Array, bound: Bound) -> Value:
        if not bound.fails:
            return rows.value(bound)
        some = rows.where(mask)
        if not some.length:  # also a constant part would fail
            return pa.nulls(rows.length, bound.type)
        found = some.array(bound)
        # Where the mask is true, the next of what was found; elsewhere whatever, here null.
        return pc.replace_with_mask(pa.nulls(rows.length, bound.type), mask, found)


@dataclass(frozen=True, eq=False)
class _Shortened(Bound):
    """AND or OR whose second part fails for some values: then not where the first one decides."""

    whole: Bound
    parts: Bound
    """The same as a CASE: of all rows it would cost more."""

    def compute(self, rows: Rows) -> Value:
        try:
            return rows.value(self.whole)
        except TypeMismatchError:
            return rows.value(self.parts)


_DECIDES = {"and": ("is_false", False), "or": ("is_true", True)}
"""What the first part must be, and what the whole is then."""


class Binder:
    """Turns nodes into bound parts, for one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._bound: dict[Node, Bound] = {}

    def bind(self, node: Node) -> Bound:
        """The bound part of a node; raises :class:`ConfigError` that names the part and why not."""
        found = self._bound.get(node)
        if found is None:
            try:
                found = self._bind(node)
            except (Unfit, NoCommonType) as error:
                raise ConfigError(f"{node}: {error}", code=error.code) from error
            self._bound[node] = found
        return found

    def bind_as(self, node: Node, kind: pa.DataType) -> Bound:
        """The same, cast to a type without loss of meaning."""
        return self._as(self.bind(node), kind, str(node))

    def _bind(self, node: Node) -> Bound:
        if isinstance(node, Column):
            return self._column(node.name)
        if isinstance(node, Literal):
            return _constant(pa.scalar(node.value, node.type))
        if isinstance(node, Cast):
            inner = self.bind(node.argument)
            kernel, fails = cast_kernel(inner.type, node.type, node.tolerant)
            return self._call(kernel, (inner,), node.type, fails, str(node))
        if isinstance(node, Case):
            return self._case(node)
        if isinstance(node, PythonCall):
            arguments = tuple(map(self.bind, node.arguments))
            # Never folded: it may look at the world.
            kernel = python_kernel(node)
            return _Called(node.type, True, kernel, arguments, str(node))
        if isinstance(node, AggregateCall):
            raise Unfit("an aggregate is no value of a row: it belongs into agg")
        assert isinstance(node, Call)
        return self._function(node)

    def _column(self, name: str) -> Bound:
        indices = self._schema.get_all_field_indices(name)
        if len(indices) != 1:
            if indices:
                raise ConfigError(
                    f"there are {len(indices)} columns {name!r}; rename all but one", code=Code.COLUMN_TWICE
                )
            known = [it for it in self._schema.names if not it.startswith("$")]
            raise ConfigError(f"there is no column {name!r}{nearest(name, known)}", code=Code.UNKNOWN_COLUMN)
        kind = self._schema.field(indices[0]).type
        return _Input(plain(kind), False, indices[0])

    def _function(self, node: Call) -> Bound:
        function = FUNCTIONS.get(node.function)
        if function is None:
            raise Unfit(f"there is no function {node.function!r}{nearest(node.function, FUNCTIONS)}")
        given = len(node.arguments)
        if given < function.least or (function.most is not None and given > function.most):
            raise Unfit(f"{node.function} has {_range(function.least, function.most)} arguments, not {given}")
        bound = tuple(map(self.bind, node.arguments))
        constants = tuple(it.value if isinstance(it, _Constant) else None for it in bound)
        overload = function.resolve(Arguments(tuple(it.type for it in bound), constants))
        arguments = tuple(
            self._as(it, kind, str(part))
            for it, kind, part in zip(bound, overload.takes, node.arguments, strict=True)
        )
        found = self._call(overload.kernel, arguments, overload.gives, overload.fails, str(node))
        if node.function in _DECIDES and arguments[1].fails:
            return self._shortened(node, found)
        return found

    def _shortened(self, node: Call, whole: Bound) -> Bound:
        function, value = _DECIDES[node.function]
        decides = self.bind(Call(function, node.arguments[:1]))
        parts = _OnlyWhereNeeded(_BOOL, True, ((decides, _constant(pa.scalar(value))),), whole)
        return _Shortened(_BOOL, True, whole, parts)

    def _case(self, node: Case) -> Bound:
        values = [self.bind(value) for _, value in node.branches] + [self.bind(node.otherwise)]
        kind = reduce(common_type, (value.type for value in values))
        *cast, last = (self._as(value, kind, str(node)) for value in values)
        conditions = [self.bind_as(condition, _BOOL) for condition, _ in node.branches]
        fails = any(it.fails for it in (*conditions, *cast, last))
        return _OnlyWhereNeeded(kind, fails, tuple(zip(conditions, cast, strict=True)), last)

    def _as(self, bound: Bound, kind: pa.DataType, text: str) -> Bound:
        if bound.type.equals(kind):
            return bound
        if not (pa.types.is_null(bound.type) or _widens(bound.type, kind)):
            raise Unfit(f"{text} is {bound.type}, where {kind} is wanted; cast it")
        kernel, fails = cast_kernel(bound.type, kind, False)
        return self._call(kernel, (bound,), kind, fails, text)

    def _call(
        self, kernel: Kernel, arguments: tuple[Bound, ...], kind: pa.DataType, fails: bool, text: str
    ) -> Bound:
        called = _Called(kind, fails or any(it.fails for it in arguments), kernel, arguments, text)
        if arguments and all(isinstance(it, _Constant) for it in arguments):
            try:
                return _constant(called.compute(Rows((), 1)))
            except TypeMismatchError:
                return called  # in a branch that no row takes it must not matter
        return called


def _constant(value: pa.Scalar) -> _Constant:
    return _Constant(value.type, False, value)


def _widens(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a function may cast this for an argument: to a common type, and any integer to another."""
    if pa.types.is_integer(given) and pa.types.is_integer(wanted):
        return True
    if pa.types.is_decimal(given) and pa.types.is_floating(wanted):
        return True
    try:
        return bool(common_type(given, wanted).equals(wanted)) or _is_same_text(given, wanted)
    except ConfigError:
        return False


def _is_same_text(given: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(given) and pa.types.is_string(wanted))


def _range(least: int, most: int | None) -> str:
    if most is None:
        return f"{least} or more"
    return str(least) if least == most else f"{least} to {most}"


class Projection:
    """Named expressions over batches of one schema.

    >>> from penstock.expressions.face import col
    >>> double = Projection(pa.schema({"price": pa.int64()}), {"double": (col("price") * 2).node})
    >>> double.apply(pa.record_batch({"price": [1, None]})).to_pydict()
    {'double': [2, None]}
    """

    def __init__(self, schema: pa.Schema, named: Mapping[str, Node]) -> None:
        binder = Binder(schema)
        self._parts = [binder.bind(node) for node in named.values()]
        self._unchanged = [
            schema.get_field_index(node.name) if isinstance(node, Column) else None for node in named.values()
        ]
        self.schema = pa.schema(
            [
                schema.field(index).with_name(name) if index is not None else pa.field(name, part.type)
                for name, part, index in zip(named, self._parts, self._unchanged, strict=True)
            ]
        )

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns for the rows of a batch; columns that only change their name are not touched."""
        rows = Rows(batch.columns, batch.num_rows)
        columns = [
            rows.array(part) if index is None else batch.column(index)
            for part, index in zip(self._parts, self._unchanged, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class Predicate:
    """A condition over batches of one schema."""

    def __init__(self, schema: pa.Schema, node: Node) -> None:
        binder = Binder(schema)
        bound = binder.bind(node)
        if not (pa.types.is_boolean(bound.type) or pa.types.is_null(bound.type)):
            raise ConfigError(f"{node} is {bound.type}, and a condition is true or false")
        self._part = binder.bind_as(node, _BOOL)

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Which rows are wanted: where it is unknown, they are not."""
        found: Any = Rows(batch.columns, batch.num_rows).array(self._part)
        return pc.fill_null(found, False)
