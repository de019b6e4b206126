"""PyFlink's ``table.table``: a face of a DataFrame with the Table API's most used methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.core.errors import ConfigError
from penstock.dataframe import DataFrame, col
from penstock.dataframe.states import name_states
from penstock.expressions.aggregates import AggregateCall
from penstock.expressions.face import Expression, count
from penstock.sql.relations import Relation
from penstock.table.table_result import TableResult

if TYPE_CHECKING:
    from penstock.table.table_environment import TableEnvironment

__all__ = ["GroupedTable", "Table"]


class Table:
    """A query: made by ``sql_query``, ``from_path`` and its like; it runs when its rows are asked for."""

    def __init__(self, relation: Relation, t_env: TableEnvironment) -> None:
        self._relation = relation
        self._t_env = t_env

    @property
    def _frame(self) -> DataFrame:
        return self._relation.frame

    def _of(self, frame: DataFrame) -> Table:
        times = [name for name, past in self._relation.times.items() if name in frame.columns and not past]
        return Table(Relation.of(frame, None, self._relation.made, times), self._t_env)

    def __getattr__(self, name: str) -> Expression:
        """A column, as in ``table.price``."""
        relation = self.__dict__.get("_relation")
        if relation is None or name not in relation.frame.columns:
            raise AttributeError(f"'Table' object has no attribute or column {name!r}")
        return col(name)

    # --- columns and rows --------------------------------------------------------------------------

    def select(self, *fields: Any) -> Table:
        """These columns and expressions; aggregates alone are aggregates of everything."""
        named = _named(fields)
        if any(map(_is_aggregate, named)):
            return GroupedTable(self, []).select(*named)
        return self._of(self._frame.select(*named))

    def filter(self, predicate: Expression) -> Table:
        """The rows for which it is true."""
        return self._of(self._frame.filter(predicate))

    where = filter

    def alias(self, field: str, *fields: str) -> Table:
        """With other names, in their order."""
        new = (field, *fields)
        old = self._frame.columns
        if len(new) > len(old):
            raise ConfigError(f"{len(new)} names for {len(old)} columns")
        return self._of(self._frame.rename(dict(zip(old, new, strict=False))))

    def add_columns(self, *fields: Expression) -> Table:
        """With more columns."""
        named = _named(fields)
        for it in named:
            if it.name in self._frame.columns:
                raise ConfigError(
                    f"there is a column {it.name!r} already; add_or_replace_columns takes its place"
                )
        return self.add_or_replace_columns(*named)

    def add_or_replace_columns(self, *fields: Expression) -> Table:
        """With more columns, or others in the place of some."""
        return self._of(self._frame.with_columns({str(it.name): it for it in _named(fields)}))

    def drop_columns(self, *fields: Any) -> Table:
        """Without these columns."""
        return self._of(self._frame.drop(*(str(getattr(it, "name", it)) for it in fields)))

    def rename_columns(self, *fields: Expression) -> Table:
        """With other names: ``col("a").alias("b")``."""
        return self._of(self._frame.rename({str(it.node): str(it.name) for it in fields}))

    def union_all(self, right: Table) -> Table:
        """All rows of both."""
        return self._of(self._frame.union(right._frame))

    def distinct(self) -> Table:
        """Each row once."""
        frame = self._frame.drop_duplicates(*self._frame.columns)
        return self._of(name_states(frame, "distinct", self._relation.made))

    def group_by(self, *fields: Any) -> GroupedTable:
        """Groups; :meth:`GroupedTable.select` makes a row of each."""
        return GroupedTable(self, _named(fields))

    # --- results -----------------------------------------------------------------------------------

    def execute(self) -> TableResult:
        """What ``print()`` and ``collect()`` then run."""
        return TableResult(self._frame)

    def execute_insert(self, table_path_or_descriptor: Any, overwrite: bool = False) -> TableResult:
        """Start a job that writes the rows into a table."""
        return (
            self._t_env.create_statement_set().add_insert(table_path_or_descriptor, self, overwrite).execute()
        )

    def to_pandas(self) -> Any:
        """Run the query and get all rows; it must end."""
        return self._frame.to_pandas()

    def to_dataframe(self) -> DataFrame:
        """The same as a DataFrame, with all its methods."""
        return self._frame

    def get_schema(self) -> Any:
        """Names and types of the columns, as Arrow has them."""
        return self._frame.schema

    get_resolved_schema = get_schema

    def print_schema(self) -> None:
        """Print names and types of the columns."""
        for field in self._frame.schema:
            print(f"{field.name}: {field.type}")

    def explain(self, *extra_details: Any) -> str:
        """The plan."""
        return self._t_env._explained(self)

    def __str__(self) -> str:
        return self._t_env._name_of(self)


class GroupedTable:
    """Groups of a table."""

    def __init__(self, table: Table, keys: list[Expression]) -> None:
        self._table = table
        self._keys = keys

    def select(self, *fields: Any) -> Table:
        """Keys and aggregates."""
        named = _named(fields)
        folds = [it for it in named if _is_aggregate(it)] or [count().alias("$rows")]
        frame = self._table._frame.group_by(*self._keys).agg(*folds)
        made = (
            f"{self._table._relation.made} by {', '.join(map(str, self._keys))}: {', '.join(map(str, folds))}"
        )
        name_states(frame, "group", made)
        chosen = [col(str(it.name)) if _is_aggregate(it) else it for it in named]
        return self._table._of(frame.select(*chosen))


def _is_aggregate(expression: Expression) -> bool:
    return any(isinstance(part, AggregateCall) for part in expression.node.walk())


def _named(fields: tuple[Any, ...]) -> list[Expression]:
    """Expressions, each with a name: its own, or ``_c0`` as PyFlink has it."""
    found = []
    for at, field in enumerate(fields):
        made = col(field) if isinstance(field, str) else field
        if not isinstance(made, Expression):
            raise ConfigError(f"a column is a name or an expression, not {field!r}")
        found.append(made if made.name is not None else made.alias(f"_c{at}"))
    return found


_ELSEWHERE = {
    "join": "DataFrame.join(other, on=..., how='inner')",
    "left_outer_join": "DataFrame.join(other, on=..., how='left')",
    "right_outer_join": "DataFrame.join(other, on=..., how='right')",
    "full_outer_join": "DataFrame.join(other, on=..., how='full')",
    "join_lateral": "flat_map on to_data_stream(table)",
    "left_outer_join_lateral": "flat_map on to_data_stream(table)",
    "window": "DataFrame.window(Tumble('1 min')).group_by(...).agg(...), or TUMBLE in SQL",
    "over_window": "DataFrame.over(...), or OVER in SQL",
    "aggregate": "DataFrame.group_by(...).agg(...)",
    "flat_aggregate": "a ProcessWindowFunction on to_data_stream(table)",
    "map": "DataFrame.map_batches(function, schema), or select with a udf",
    "flat_map": "flat_map on to_data_stream(table)",
    "order_by": "DataFrame.top_n(n, by=...), or ORDER BY with LIMIT in SQL",
    "fetch": "DataFrame.take(n)",
    "limit": "DataFrame.take(n)",
    "offset": "DataFrame.top_n(n, by=..., rank='n') and a filter",
    "minus": "DataFrame.join(other, on=..., how='anti')",
    "minus_all": "DataFrame.join(other, on=..., how='anti')",
    "intersect": "DataFrame.join(other, on=..., how='semi')",
    "intersect_all": "DataFrame.join(other, on=..., how='semi')",
    "union": "union_all(other).distinct()",
    "create_temporal_table_function": "DataFrame.join_temporal(versions, on=...), or FOR SYSTEM_TIME AS "
    "OF in SQL",
    "insert_into": "execute_insert(name)",
    "as_argument": "DataFrame.map_batches(function, schema), or a ProcessFunction on to_data_stream(table)",
    "partition_by": "a KeyedProcessFunction on to_data_stream(table)",
    "process": "a ProcessFunction on to_data_stream(table)",
}
"""Methods of PyFlink's Table that are not here, and the way to the same."""


def _refusal(name: str, way: str) -> Callable[..., NoReturn]:
    def refuse(self: Table, *_: Any, **__: Any) -> NoReturn:
        raise ConfigError(f"Table.{name} is not there: use {way}; table.to_dataframe() is the DataFrame")

    refuse.__name__ = name
    refuse.__qualname__ = f"Table.{name}"
    refuse.__doc__ = f"Refused; the same is {way}."
    return refuse


for _name, _way in _ELSEWHERE.items():
    setattr(Table, _name, _refusal(_name, _way))
