"""``agg`` of expressions, taken apart: columns before, folds of columns, expressions of the folded.

``(col("price") * 2).sum / col("price").count`` needs the column ``price * 2`` before, a sum and a count
within, and a division behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock.columns import Aggregate, Avg, Count, Max, Min, Sum
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.expressions.aggregates import AggregateCall, count_rows
from penstock.expressions.face import Expression, names_of
from penstock.expressions.nodes import Call, Cast, Column, Node
from penstock.expressions.program import Projection
from penstock.expressions.rewriting import rewritten
from penstock.expressions.types import is_number

WINDOW_START, WINDOW_END = "window_start", "window_end"
_TIME = pa.timestamp("ms")
ALL_ROWS = "$all"
"""The key of all rows, where nothing else is asked for."""


class Aggregates:
    """The parts of ``agg``, checked against the columns it meets."""

    def __init__(
        self, schema: pa.Schema, keys: Sequence[Expression], aggregates: Sequence[Expression]
    ) -> None:
        self.key_names = names_of(keys)
        self.inputs: dict[str, Node] = dict(zip(self.key_names, (key.node for key in keys), strict=True))
        """What goes in: keys and arguments of folds."""
        self.folds: list[Aggregate] = []
        self.results: dict[str, Node] = {}
        """Expressions over what comes out."""
        self._schema = schema
        self._folded: dict[AggregateCall, str] = {}
        for name, aggregate in zip(_names(aggregates), aggregates, strict=True):
            if name in self.results or name in self.inputs or name in (WINDOW_START, WINDOW_END):
                raise ConfigError(
                    f"two columns of agg are called {name!r}; name one with .alias(...)",
                    code=Code.COLUMN_TWICE,
                )
            self.results[name] = with_folds(aggregate.node, self.key_names, self._fold)
        self.result_schema = self._schema_of_results()

    def _fold(self, call: AggregateCall) -> str:
        name = self._folded.get(call)
        if name is not None:
            return name
        name = self._folded[call] = f"__agg{len(self._folded)}"
        if call == count_rows():
            self.folds.append(Count(name))
            return name
        if call.distinct:
            raise ConfigError(
                f"{call}: distinct values of windows are not there yet; group_by without a window"
            )
        if any(isinstance(part, AggregateCall) for part in call.argument.walk()):
            raise ConfigError(f"{call} is an aggregate of an aggregate")
        column = f"{name}_of"
        kind = Projection(self._schema, {column: call.argument}).schema.field(0).type
        if call.function in ("sum", "avg") and not is_number(kind):
            raise ConfigError(f"{call}: a {kind} cannot be summed; cast it to a number")
        if call.function in ("sum", "avg") and pa.types.is_decimal(kind):
            raise ConfigError(f"{call}: sums of decimals are not there yet; cast to double or an integer")
        counted = Cast(Call("is_not_null", (call.argument,)), pa.int64())
        self.inputs[column] = counted if call.function == "count" else call.argument
        self.folds.append(_FOLDS[call.function](column, name))
        return name

    def _schema_of_results(self) -> pa.Schema:
        before = Projection(self._schema, self.inputs).schema
        fields = [before.field(name) for name in self.key_names]
        fields += [pa.field(WINDOW_START, pa.int64()), pa.field(WINDOW_END, pa.int64())]
        for call, name in self._folded.items():
            kind = pa.int64() if call == count_rows() else before.field(f"{name}_of").type
            fields.append(pa.field(name, _folded_type(call.function, kind)))
        return pa.schema(fields)


def with_folds(node: Node, keys: Sequence[str], fold: Callable[[AggregateCall], str]) -> Node:
    """An expression of aggregates, with the columns of ``fold`` in their place; others must be keys."""
    if not any(isinstance(part, AggregateCall) for part in node.walk()):
        raise ConfigError(f"{node} is no aggregate; write {node}.sum, .count, .min, .max or .avg")

    def replace(part: Node) -> Node | None:
        if isinstance(part, AggregateCall):
            return Column(fold(part))
        if isinstance(part, Column) and part.name not in keys:
            raise ConfigError(f"column {part.name!r} in {node} is neither a key nor within an aggregate")
        return None

    return rewritten(node, replace)


def _folded_type(function: str, kind: pa.DataType) -> pa.DataType:
    if function == "count":
        return pa.int64()
    if function == "avg":
        return pa.float64()
    if function == "sum":
        return pa.float64() if pa.types.is_floating(kind) else pa.int64()
    return kind


_FOLDS: dict[str, Callable[[str, str], Aggregate]] = {
    "sum": Sum,
    "min": Min,
    "max": Max,
    "avg": Avg,
    "count": Sum,
}
"""A count of values is the sum of ones where there are values."""


def window_columns(keys: Sequence[str]) -> dict[str, Node]:
    """Keys and bounds of windows, these as timestamps."""
    bounds = {name: Cast(Column(name), _TIME) for name in (WINDOW_START, WINDOW_END)}
    return {**{key: Column(key) for key in keys}, **bounds}


def _names(aggregates: Sequence[Expression]) -> list[str]:
    for aggregate in aggregates:
        if not isinstance(aggregate, Expression):
            raise ConfigError(f"agg takes expressions such as col('price').sum, not {aggregate!r}")
    if not aggregates:
        raise ConfigError("agg needs at least one aggregate")
    return names_of(aggregates)
