"""``group_by(...).agg(...)`` without windows: results that change with every row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.core.changes import CHANGE_FIELD, ChangeMode
from penstock.core.codes import KEY_HASH, MOST_KEYS, is_comparable, key_schema
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.dataframe.aggregating import with_folds
from penstock.expressions.aggregates import AggregateCall, without_condition
from penstock.expressions.face import Expression, names_of
from penstock.expressions.nodes import Cast, Column, Literal, Node
from penstock.expressions.program import Projection
from penstock.expressions.types import is_number, mean_type, sum_type
from penstock.operators.changes.accumulators import Aggregated
from penstock.operators.changes.group_agg import GroupAggOperator
from penstock.operators.changes.key_hash import KeyHashOperator, hashed_schema

if TYPE_CHECKING:
    from penstock.dataframe.frame import DataFrame
    from penstock.datastream import DataStream


_ROWS = "__rows"


class GroupPlan:
    """``agg`` taken apart: columns before, aggregates of columns, expressions of these."""

    def __init__(
        self, schema: pa.Schema, keys: Sequence[Expression], aggregates: Sequence[Expression]
    ) -> None:
        self.key_names = names_of(keys)
        self.inputs: dict[str, Node] = dict(zip(self.key_names, (key.node for key in keys), strict=True))
        self.aggregates: list[Aggregated] = []
        self.results: dict[str, Node] = {}
        self._schema = schema
        self._folded: dict[AggregateCall, str] = {}
        self._columns: dict[Node, str] = {}
        self._types: dict[str, pa.DataType] = {}
        if len(set(self.key_names)) < len(self.key_names):
            raise ConfigError(
                "group_by has two columns of one name; name one with .alias(...)", code=Code.COLUMN_TWICE
            )
        if not aggregates:
            raise ConfigError("agg needs at least one aggregate, such as count()")
        for name, aggregate in zip(_names(aggregates), aggregates, strict=True):
            if name in self.results or name in self.inputs:
                raise ConfigError(
                    f"two columns of agg are called {name!r}; name one with .alias(...)",
                    code=Code.COLUMN_TWICE,
                )
            self.results[name] = with_folds(aggregate.node, self.key_names, self._fold)
        if not self.inputs:  # a batch without columns has no rows to count
            self.inputs[_ROWS] = Literal(True, pa.bool_())
        self.input_schema = Projection(schema, self.inputs).schema
        for name in self.key_names:
            if name.startswith("__"):
                raise ConfigError(f"the key {name!r} must not begin with two underscores; rename it")
            comparable(self.input_schema.field(name).type, f"key {name!r} of group_by")
        if len(self.key_names) > MOST_KEYS:
            raise ConfigError(f"group_by has {len(self.key_names)} keys, and may have {MOST_KEYS}")

    @property
    def result_schema(self) -> pa.Schema:
        """The keys and the aggregates, before the expressions of these."""
        fields = [*key_schema(self.input_schema, self.key_names)]
        return pa.schema([*fields, *(pa.field(it.name, self._types[it.name]) for it in self.aggregates)])

    def _fold(self, call: AggregateCall) -> str:
        name = self._folded.get(call)
        if name is None:
            if any(isinstance(part, AggregateCall) for part in call.argument.walk()):
                raise ConfigError(f"{call} is an aggregate of an aggregate")
            name = self._folded[call] = f"__agg{len(self._folded)}"
            self.aggregates.append(self._aggregated(call, name))
        return name

    def _aggregated(self, call: AggregateCall, name: str) -> Aggregated:
        function, (argument, condition) = call.function, without_condition(call.argument)
        chosen = None if condition is None else self._column(condition)
        if chosen is not None and not pa.types.is_boolean(self._type(condition)):
            raise ConfigError(
                f"{call}: the condition {condition} is {self._type(condition)}, not true or false"
            )
        self._types[name] = pa.int64()
        constant = isinstance(argument, Literal) and argument.value is not None
        if function == "count" and constant and not call.distinct:
            return Aggregated("count", name, str(call), None, chosen)
        kind = self._type(argument)
        if function in ("sum", "avg"):
            argument = self._summable(call, argument, kind)
            self._types[name] = mean_type(kind) if function == "avg" else sum_type(kind)
        elif function in ("min", "max"):
            comparable(kind, str(call))
            self._types[name] = kind
        elif call.distinct:
            comparable(kind, str(call))
        distinct = call.distinct and function not in ("min", "max")
        where = None if condition is None else str(condition)
        column = self._column(argument)
        return Aggregated(function, name, str(call), column, chosen, distinct, str(argument), where)

    def _summable(self, call: AggregateCall, argument: Node, kind: pa.DataType) -> Node:
        if not is_number(kind):
            raise ConfigError(f"{call}: a {kind} cannot be summed; cast it to a number")
        wanted = sum_type(kind)
        return argument if kind == wanted else Cast(argument, wanted)

    def _type(self, node: Node | None) -> pa.DataType:
        assert node is not None
        kind = Projection(self._schema, {"value": node}).schema.field(0).type
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def _column(self, node: Node) -> str:
        name = self._columns.get(node)
        if name is None:
            name = self._columns[node] = f"__in{len(self._columns)}"
            self.inputs[name] = node
        return name


def comparable(kind: pa.DataType, what: str) -> None:
    """Refuse a column that cannot be a key, an order or a distinct value."""
    if not is_comparable(kind.value_type if pa.types.is_dictionary(kind) else kind):
        raise ConfigError(f"{what} is a {kind}, which cannot be compared; use its parts, or cast it to text")


def _names(aggregates: Sequence[Expression]) -> list[str]:
    for aggregate in aggregates:
        if not isinstance(aggregate, Expression):
            raise ConfigError(f"agg takes expressions such as col('price').sum, not {aggregate!r}")
    return names_of(aggregates)


def partitioned(schema: pa.Schema, keys: Sequence[str], stream: DataStream[Any]) -> Any:
    """The stream, whose rows with equal keys meet, nulls being equal; with the column ``$key``."""
    hashed = stream._add("Hash Keys", partial(KeyHashOperator, schema, tuple(keys)), in_columns=True)
    return hashed.key_by(KEY_HASH)


class RunningGroups:
    """Groups without windows; :meth:`agg` makes one row of each, which changes."""

    def __init__(self, frame: DataFrame, keys: Sequence[Any]) -> None:
        self._frame = frame._as_retract()
        self._keys = [self._frame._as_expression(key) for key in keys]

    def agg(self, *aggregates: Expression) -> DataFrame:
        """The keys and a column for each aggregate: an upsert by the keys.

        >>> clicks = from_dict({"user": ["a", "b", "a"], "page": [1, 1, 1]})
        >>> pages = col("page").count.distinct.alias("pages")
        >>> found = clicks.group_by("user").agg(count().alias("clicks"), pages)
        >>> sorted((row["user"], row["clicks"], row["pages"]) for row in found.to_pylist())
        [('a', 2, 1), ('b', 1, 1)]
        """
        plan = GroupPlan(self._frame.schema, self._keys, aggregates)
        named: dict[str, Node] = {name: Column(name) for name in plan.key_names}
        return self._grouped(plan, False)._calc("Finish", None, {**named, **plan.results})

    def _grouped(self, plan: GroupPlan, before: bool) -> DataFrame:
        """The keys and the aggregates; ``before``: with the old rows, too."""
        prepared = self._frame._calc("Prepare", None, plan.inputs)
        changing = prepared.changes is not ChangeMode.APPEND
        schema = prepared.schema.append(CHANGE_FIELD) if changing else prepared.schema
        factory = partial(GroupAggOperator, hashed_schema(schema), plan.key_names, plan.aggregates, before)

        def build(stream: DataStream[Any]) -> DataStream[Any]:
            keyed = partitioned(schema, plan.key_names, stream)
            found: DataStream[Any] = keyed._keyed("Group Aggregate", factory, in_columns=True)
            return found

        if before:
            return prepared._changed(build, plan.result_schema, ChangeMode.RETRACT)
        found = prepared._changed(build, plan.result_schema, ChangeMode.UPSERT, tuple(plan.key_names))
        found._retracting = lambda: self._grouped(plan, True)
        return found
