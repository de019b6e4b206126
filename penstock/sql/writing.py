"""``INSERT INTO``: the columns of a query meet those of a table, and its rows a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from penstock.core.errors import ConfigError
from penstock.dataframe import DataFrame, col, lit
from penstock.dataframe.emitting import check_sink
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.expressions.comparing import REQUIRED
from penstock.expressions.face import Expression, call
from penstock.expressions.types import is_number, is_text
from penstock.sql.connectors import sink_of
from penstock.sql.errors import Text
from penstock.sql.relations import Relation
from penstock.sql.tables import TableDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def insert(
    node: exp.Insert, table: TableDefinition, relation: Relation, text: Text, env: Env, name: str
) -> Callable[[], None]:
    """What adds the sink of an INSERT to an environment; all that can be wrong with it is refused before."""
    if node.args.get("overwrite"):
        raise text.refuse(node, "INSERT OVERWRITE is not there; write to another directory")
    named = [it.name for it in node.this.expressions] if isinstance(node.this, exp.Schema) else None
    with text.at(node):
        frame = _fitted(table, relation, named)
        sink = sink_of(table)
        check_sink(frame, sink)

    def add() -> None:
        written = frame.sink_to(sink, env)
        uid, at = f"sink-{table.name}", 1
        while uid in env.graph.uids():
            at += 1
            uid = f"sink-{table.name}-{at}"
        written.name(f"Sink: {name}").uid(uid)

    return add


def _fitted(table: TableDefinition, relation: Relation, named: Sequence[str] | None) -> DataFrame:
    """The query's columns under the names and of the types of the table's."""
    schema = table.written()
    wanted = schema.names if named is None else list(named)
    for name in wanted:
        if wanted.count(name) > 1:
            raise ConfigError(f"column {name!r} is in the list twice")
        if name not in schema.names:
            raise ConfigError(
                f"table {table.name!r} has no column {name!r} to write; it has {', '.join(schema.names)}"
            )
    for it in relation.fields:
        if it.column is None:
            raise ConfigError(f"{it.name} is the time of the clock, and no value that could be written")
    given = relation.fields
    if len(given) != len(wanted):
        raise ConfigError(
            f"the query has {len(given)} columns ({', '.join(it.name for it in given)}), and table "
            f"{table.name!r} "
            f"takes {len(wanted)} ({', '.join(wanted)})"
        )
    source = {name: str(it.column) for name, it in zip(wanted, given, strict=True)}
    chosen = [_column(table, relation.frame, field, source.get(field.name)) for field in schema]
    return relation.frame.select(
        *(made.alias(field.name) for made, field in zip(chosen, schema, strict=True))
    )


def _loses_fractions(kind: pa.DataType, wanted: pa.DataType) -> bool:
    exact = pa.types.is_decimal(wanted) and not pa.types.is_floating(kind)
    return not (pa.types.is_integer(kind) or pa.types.is_floating(wanted) or exact)


def _column(table: TableDefinition, frame: DataFrame, field: pa.Field, source: str | None) -> Expression:
    if source is None:
        if not field.nullable:
            raise ConfigError(
                f"column {field.name!r} of table {table.name!r} is NOT NULL and is not in the list"
            )
        return lit(None, field.type)
    value, kind = col(source), frame.schema.field(source).type
    if not field.nullable and frame.schema.field(source).nullable:
        value = call(REQUIRED, value)
    if kind.equals(field.type):
        return value
    fits = (
        (is_number(kind) and is_number(field.type) and not _loses_fractions(kind, field.type))
        or (is_text(kind) and is_text(field.type))
        or (
            pa.types.is_timestamp(kind)
            and pa.types.is_timestamp(field.type)
            and (kind.tz is None) == (field.type.tz is None)
        )
    )
    if not fits:
        raise ConfigError(
            f"column {source!r} of the query is {kind}, and column {field.name!r} of table {table.name!r} is "
            f"{field.type}; write CAST({source} AS ...)"
        )
    return value.cast(field.type)
