"""``drop_duplicates`` and ``top_n``: some rows of each group, by an order or by their arrival."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.core.changes import ChangeMode, with_change
from penstock.core.errors import ConfigError
from penstock.dataframe.grouping import comparable, partitioned
from penstock.dataframe.ordering import sort_nodes
from penstock.expressions.face import Expression
from penstock.expressions.nodes import Column, Node
from penstock.expressions.ordering import Ordering
from penstock.operators.changes.first_rows import FirstRowsOperator
from penstock.operators.changes.key_hash import hashed_schema
from penstock.operators.changes.rank_state import Ranking
from penstock.operators.changes.top_rows import TopRowsOperator

if TYPE_CHECKING:
    from penstock.dataframe.frame import DataFrame
    from penstock.datastream import DataStream

MOST_RANKS = 1_000_000
_BY = "__by"
OrderLike = str | Expression | Ordering


def deduplicated(
    frame: DataFrame, columns: Sequence[str], keep: str, order_by: OrderLike | None
) -> DataFrame:
    """One row of each key; see ``DataFrame.drop_duplicates``."""
    if keep not in ("first", "last"):
        raise ConfigError(f"drop_duplicates keeps the 'first' or the 'last' row, not {keep!r}")
    keys = tuple(columns) or tuple(frame.columns)
    if keep == "first" and order_by is None and frame.changes is ChangeMode.APPEND:
        return _first(frame, keys)
    by = [] if order_by is None else [order_by]
    if keep == "last":
        by = [_reversed(frame, it) for it in by]
    return _ranked(frame._as_retract(), 1, by, keys, None, latest_first=keep == "last")


def topped(
    frame: DataFrame,
    n: int,
    by: Any,
    partition_by: str | Sequence[str],
    rank: str | None,
) -> DataFrame:
    """The first rows of each group; see ``DataFrame.top_n``."""
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= MOST_RANKS:
        raise ConfigError(f"top_n takes a number of rows from 1 to {MOST_RANKS}, not {n!r}")
    keys = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    if rank is not None and rank in frame.columns:
        raise ConfigError(f"there is a column {rank!r} already; call the rank by another name")
    orders = [Ordering(Expression(node), down) for node, down in sort_nodes(frame, by)]
    return _ranked(frame._as_retract(), n, orders, keys, rank, latest_first=False)


def _first(frame: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    _check(frame, keys)
    factory = partial(FirstRowsOperator, hashed_schema(frame.schema), keys)

    def build(stream: DataStream[Any]) -> DataStream[Any]:
        keyed = partitioned(frame.schema, keys, stream)
        found: DataStream[Any] = keyed._keyed("First Rows", factory, in_columns=True)
        return found

    return frame._then(build, frame.schema)


def _ranked(
    frame: DataFrame,
    n: int,
    by: Sequence[OrderLike],
    keys: tuple[str, ...],
    rank: str | None,
    latest_first: bool,
) -> DataFrame:
    _check(frame, keys)
    orders = [_ordering(frame, it) for it in by]
    hidden = {
        f"{_BY}{place}": it.expression
        for place, it in enumerate(orders)
        if not isinstance(it.expression.node, Column)
    }
    taken = sorted(hidden.keys() & set(frame.columns))
    if taken:
        raise ConfigError(f"the column {taken[0]!r} is in the way of an expression to order by; rename it")
    wide = frame.with_columns(hidden) if hidden else frame
    named = []
    for place, it in enumerate(orders):
        node = it.expression.node
        name = node.name if isinstance(node, Column) else f"{_BY}{place}"
        comparable(wide.schema.field(name).type, str(it))
        named.append((name, it.descending))
    found = _top(wide, Ranking(n, tuple(named), latest_first), keys, rank, False)
    if not hidden:
        return found
    left: dict[str, Node] = {it: Column(it) for it in found.columns if it not in hidden}
    return found._calc("Finish", None, left)


def _top(
    frame: DataFrame, ranking: Ranking, keys: tuple[str, ...], rank: str | None, before: bool
) -> DataFrame:
    changing = frame.changes is not ChangeMode.APPEND
    schema = with_change(frame.schema) if changing else frame.schema
    placed = rank is not None or ranking.n == 1
    factory = partial(TopRowsOperator, hashed_schema(schema), keys, ranking, rank, before or not placed)

    def build(stream: DataStream[Any]) -> DataStream[Any]:
        keyed = partitioned(schema, keys, stream)
        found: DataStream[Any] = keyed._keyed("Top Rows", factory, in_columns=True)
        return found

    result = frame.schema if rank is None else frame.schema.append(pa.field(rank, pa.int64()))
    if before or not placed:
        return frame._changed(build, result, ChangeMode.RETRACT)
    key = keys if rank is None or ranking.n == 1 else (*keys, rank)
    found = frame._changed(build, result, ChangeMode.UPSERT, key)
    found._retracting = lambda: _top(frame, ranking, keys, rank, True)
    return found


def _check(frame: DataFrame, keys: tuple[str, ...]) -> None:
    for name in keys:
        frame[name]
        comparable(frame.schema.field(name).type, f"column {name!r}")


def _ordering(frame: DataFrame, it: OrderLike) -> Ordering:
    if isinstance(it, Ordering):
        return it
    return Ordering(frame._as_expression(it), False)


def _reversed(frame: DataFrame, it: OrderLike) -> Ordering:
    order = _ordering(frame, it)
    return Ordering(order.expression, not order.descending)
