"""``agg`` of expressions, taken apart: columns before, folds of columns, expressions of the folded.

``(col("price") * 2).sum / col("price").count`` needs the column ``price * 2`` before, a sum and a count
within, and a division behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock.columns import Aggregate, Avg, Count, Max, Min, Sum
from penstock.core.codes import is_comparable
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.expressions.aggregates import AggregateCall, count_rows
from penstock.expressions.face import Expression, names_of
from penstock.expressions.nodes import Call, Cast, Column, Node
from penstock.expressions.program import Projection
from penstock.expressions.rewriting import rewritten
from penstock.expressions.types import is_number, mean_type, sum_type
from penstock.operators.columnar.distinct import Distinct

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
        self._types: dict[str, pa.DataType] = {}
        self._of_distinct: dict[Node, str] = {}
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
        self._types[name] = pa.int64()
        if call == count_rows():
            self.folds.append(Count(name))
            return name
        if any(isinstance(part, AggregateCall) for part in call.argument.walk()):
            raise ConfigError(f"{call} is an aggregate of an aggregate")
        kind = Projection(self._schema, {name: call.argument}).schema.field(0).type
        if call.function in ("sum", "avg"):
            if not is_number(kind):
                raise ConfigError(f"{call}: a {kind} cannot be summed; cast it to a number")
            self._types[name] = sum_type(kind) if call.function == "sum" else mean_type(kind)
        elif call.function in ("min", "max"):
            self._types[name] = kind
        self.folds.append(self._distinct(call, kind, name) or self._plain(call, name))
        return name

    def _plain(self, call: AggregateCall, name: str) -> Aggregate:
        counted = Cast(Call("is_not_null", (call.argument,)), pa.int64())
        column = f"{name}_of"
        self.inputs[column] = counted if call.function == "count" else call.argument
        return _FOLDS[call.function](column, name)

    def _distinct(self, call: AggregateCall, kind: pa.DataType, name: str) -> Aggregate | None:
        """An aggregate of different values; those of one argument are gathered once."""
        if not call.distinct or call.function in ("min", "max"):
            return None
        if not is_comparable(kind.value_type if pa.types.is_dictionary(kind) else kind):
            raise ConfigError(f"{call}: values of type {kind} cannot be compared; take parts of them")
        column = self._of_distinct.setdefault(call.argument, f"{name}_of")
        self.inputs[column] = call.argument
        return Distinct(call.function, column, name)

    def _schema_of_results(self) -> pa.Schema:
        before = Projection(self._schema, self.inputs).schema
        fields = [before.field(name) for name in self.key_names]
        fields += [pa.field(WINDOW_START, pa.int64()), pa.field(WINDOW_END, pa.int64())]
        return pa.schema([*fields, *self._types.items()])


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
