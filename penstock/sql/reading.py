"""Tables become DataFrames: the source, computed columns, event time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from penstock.common import Duration, WatermarkStrategy
from penstock.core.errors import ConfigError
from penstock.dataframe import DataFrame, col
from penstock.dataframe.states import name_states
from penstock.dataframe.upserted import upserted
from penstock.datastream import DataStream
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.sql.connectors import replaces, source_of
from penstock.sql.expressions import Expressions
from penstock.sql.relations import Field, Relation
from penstock.sql.tables import TableDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.sql.expressions import PythonFunction


def read(table: TableDefinition, env: Env | None, functions: Mapping[str, PythonFunction]) -> Relation:
    """The relation of a table that a connector reads."""
    source = source_of(table)
    early = table.time is not None and table.time in table.schema.names
    strategy = _strategy(table) if early else WatermarkStrategy.no_watermarks()

    def build(env: Env) -> DataStream[Any]:
        return env.from_source(source, strategy, table.name)

    if replaces(table):
        if table.time is not None:
            raise ConfigError(
                f"table {table.name!r} has WATERMARK FOR {table.time!r}, and its rows replace each other: "
                "rows that change have no event time; leave WATERMARK out"
            )
        frame = upserted(build, table.schema, table.key, env, f"table {table.name}")
    else:
        frame = name_states(DataFrame(build, table.schema, early, env), "source", f"table {table.name}")
    relation = Relation.of(frame, table.name, table.name, [table.time] if early and table.time else [])
    if table.computed:
        relation = _computed(table, relation, functions)
    if table.time is not None and not early:
        relation = _timed(table, relation)
    return relation


def _strategy(table: TableDefinition) -> WatermarkStrategy:
    assert table.time is not None
    _check(table.name, table.time, table.schema.field(table.time).type)
    delay = Duration.of_millis(table.delay_ms)
    return WatermarkStrategy.for_bounded_out_of_orderness(delay).with_timestamp_column(table.time)


def _check(table: str, time: str, kind: pa.DataType) -> None:
    if not pa.types.is_timestamp(kind):
        raise ConfigError(
            f"WATERMARK FOR {time!r} of table {table!r} is {kind}, and event time is TIMESTAMP(3): add a "
            "column "
            f"ts AS TO_TIMESTAMP_LTZ({time}, 3) if these are milliseconds"
        )


def _computed(
    table: TableDefinition, relation: Relation, functions: Mapping[str, PythonFunction]
) -> Relation:
    makers = Expressions(relation, table.text, functions)
    made = {}
    clocks = set()
    for name, node in table.computed.items():
        if isinstance(node, exp.Anonymous) and node.name.upper() == "PROCTIME":
            clocks.add(name)
            continue
        with table.text.at(node):
            made[name] = makers.make(node)
    order = [name for name in table.columns if name not in clocks]
    with table.text.at(next(iter(table.computed.values()))):
        chosen = [made[name].alias(name) if name in made else col(name) for name in order]
        frame = relation.frame.select(*chosen) if made else relation.frame
    nullable = {it.name: it.nullable for it in relation.fields}
    fields = tuple(
        Field(table.name, name, None if name in clocks else name, nullable.get(name, True))
        for name in table.columns
    )
    return replace(relation, frame=frame, fields=fields)


def _timed(table: TableDefinition, relation: Relation) -> Relation:
    """Event time of a computed column: known only behind the source."""
    assert table.time is not None
    inner = relation.frame
    found = relation.find(table.time)
    if not found or found[0].column is None:
        raise ConfigError(
            f"WATERMARK FOR {table.time!r} of table {table.name!r}: the clock's time needs none"
        )
    _check(table.name, table.time, inner.schema.field(table.time).type)
    delay = Duration.of_millis(table.delay_ms)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(delay).with_timestamp_column(table.time)

    def build(env: Env) -> DataStream[Any]:
        return inner._in(env).assign_timestamps_and_watermarks(strategy)

    frame = DataFrame(build, inner.schema, True, inner._env)
    name_states(frame, "time", f"time of {table.name}")
    return replace(relation, frame=frame, times={table.time: 0})
