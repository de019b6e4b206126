"""``DataFrame.over``: aggregates beside each row, over those of its group up to it, in event time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.core.durations import to_millis
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.dataframe.aggregating import ALL_ROWS, Aggregates
from penstock.dataframe.changing import only_appends
from penstock.dataframe.window_bounds import refuse_engine_names
from penstock.dataframe.windows import Size
from penstock.datastream import DataStream
from penstock.datastream._keyed import KeyedStream
from penstock.exchange.partition import Hash
from penstock.expressions.face import Expression, col, lit
from penstock.expressions.nodes import Cast, Column, Node
from penstock.operators.columnar.distinct import Distinct
from penstock.operators.columnar.over import Frame, OverOperator

if TYPE_CHECKING:
    from penstock.dataframe.frame import DataFrame

UNBOUNDED = "unbounded"


class OverDataFrame:
    """Rows and what is before them; :meth:`agg` adds a column for each aggregate."""

    def __init__(self, frame: DataFrame, by: Sequence[Expression], reach: Frame) -> None:
        self._frame = frame
        self._by = by
        self._reach = reach

    def agg(self, *aggregates: Expression) -> DataFrame:
        """All columns, and one for each aggregate; expressions may use the row's own columns, too.

        >>> clicks = from_dict({"user": ["a", "b", "a"], "n": [1, 2, 3], "ts": [1, 2, 3]}, time="ts")
        >>> sums = clicks.over("user").agg(col("n").sum.alias("so_far")).select("user", "so_far")
        >>> sorted(tuple(row.values()) for row in sums.to_pylist())
        [('a', 1), ('a', 4), ('b', 2)]
        """
        frame = self._frame
        refuse_engine_names(frame)
        plan = Aggregates(frame.schema, [col(name) for name in frame.columns], aggregates)
        if any(isinstance(fold, Distinct) for fold in plan.folds):
            raise ConfigError("over has no distinct values; windows have, and group_by")
        inputs, keys = dict(plan.inputs), []
        for number, key in enumerate(self._by):
            node: Node = key.node
            inputs[f"$k{number}"] = node
            keys.append(f"$k{number}")
        if not keys:
            inputs[ALL_ROWS] = lit(0).node
            keys.append(ALL_ROWS)
        prepared = frame._calc("Prepare", None, _hashable(frame, inputs, keys))
        factory = partial(OverOperator, prepared.schema, keys, self._reach, plan.folds)
        factory()

        def over(stream: DataStream[Any]) -> DataStream[Any]:
            links = KeyedStream(stream, Hash(columns=tuple(keys), nulls=True))._links
            return stream._add(
                "Over Aggregate", factory, links=links, keyed=True, stateful=True, in_columns=True
            )

        folds = [field for field in plan.result_schema if field.name in {it.name for it in plan.folds}]
        found = prepared._then(over, pa.schema([*prepared.schema, *folds]))
        shown: dict[str, Node] = {name: Column(name) for name in frame.columns}
        finished = found._calc("Finish", None, {**shown, **plan.results})
        finished._bounds, finished._time = frame._bounds, frame._time
        return finished


def _hashable(frame: DataFrame, inputs: dict[str, Node], keys: Sequence[str]) -> dict[str, Node]:
    """Keys that are moments as numbers, which are hashed all at once."""
    kinds = frame._calc("Prepare", None, inputs).schema
    return {
        name: Cast(node, pa.int64())
        if name in keys and pa.types.is_timestamp(kinds.field(name).type)
        else node
        for name, node in inputs.items()
    }


def over(
    frame: DataFrame,
    partition_by: Any = (),
    order_by: str | None = None,
    rows: int | str | None = None,
    range: Size | None = None,
) -> OverDataFrame:
    """See ``DataFrame.over``."""
    only_appends(frame, "over")
    if not frame.has_event_time:
        raise ConfigError(
            "over goes in order of event time: name its column with time='ts' at the source",
            code=Code.NO_EVENT_TIME,
        )
    if order_by is not None and (not isinstance(order_by, str) or order_by != frame._time):
        known = "its column is not known here" if frame._time is None else f"it is {frame._time!r}"
        raise ConfigError(
            f"over goes in order of event time, not of {order_by!r}: {known}; leave order_by out, or sort "
            "within windows with window(...).top_n",
            code=Code.NO_EVENT_TIME,
        )
    several = (partition_by,) if isinstance(partition_by, str | Expression) else tuple(partition_by)
    return OverDataFrame(frame, [frame._as_expression(key) for key in several], _frame(rows, range))


def _frame(rows: int | str | None, range: Size | None) -> Frame:
    if rows is not None and range is not None:
        raise ConfigError("a frame is of rows or of time: give rows= or range=, not both")
    if rows is not None:
        if rows == UNBOUNDED:
            return Frame(by_rows=True)
        if not isinstance(rows, int) or isinstance(rows, bool):
            raise ConfigError(f"rows is a number of rows before each, or {UNBOUNDED!r}, not {rows!r}")
        return Frame(by_rows=True, rows=rows)
    if range is None or range == UNBOUNDED:
        return Frame(by_rows=False)
    return Frame(by_rows=False, range_ms=to_millis(range))
