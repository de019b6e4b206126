"""``INSERT INTO``: the columns of a query meet those of a table, and its rows a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from penstock.core.errors import ConfigError
from penstock.dataframe import DataFrame, col, lit
from penstock.datastream import DataStreamSink
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.datastream.connectors.base import Sink
from penstock.expressions.face import Expression
from penstock.expressions.types import is_number, is_text
from penstock.sql.connectors import sink_of
from penstock.sql.errors import Text
from penstock.sql.relations import Relation
from penstock.sql.tables import TableDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def insert(
    node: exp.Insert, table: TableDefinition, relation: Relation, text: Text, env: Env, name: str
) -> None:
    """Add the sink of an INSERT to an environment."""
    if node.args.get("overwrite"):
        raise text.refuse(node, "INSERT OVERWRITE is not there; write to another directory")
    named = [it.name for it in node.this.expressions] if isinstance(node.this, exp.Schema) else None
    with text.at(node):
        frame = _fitted(table, relation, named)
        sink = sink_of(table)
        written = _sunk(frame, sink, env)
        uid, at = f"sink-{table.name}", 1
        while uid in env.graph.uids():
            at += 1
            uid = f"sink-{table.name}-{at}"
        written.name(f"Sink: {name}").uid(uid)


def _sunk(frame: DataFrame, sink: Sink, env: Env) -> DataStreamSink:
    """Rows into the sink; a frame whose rows change says whether the sink can take that."""
    sink_to: Callable[[Sink, Env], DataStreamSink] | None = getattr(frame, "sink_to", None)
    return frame.to_data_stream(env).sink_to(sink) if sink_to is None else sink_to(sink, env)


def _fitted(table: TableDefinition, relation: Relation, named: Sequence[str] | None) -> DataFrame:
    """The query's columns under the names and of the types of the table's."""
    schema = table.written()
    wanted = schema.names if named is None else list(named)
    for name in wanted:
        if name not in schema.names:
            raise ConfigError(
                f"table {table.name!r} has no column {name!r} to write; it has {', '.join(schema.names)}"
            )
    given = [it for it in relation.fields if it.column is not None]
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


def _column(table: TableDefinition, frame: DataFrame, field: pa.Field, source: str | None) -> Expression:
    if source is None:
        if not field.nullable:
            raise ConfigError(
                f"column {field.name!r} of table {table.name!r} is NOT NULL and is not in the list"
            )
        return lit(None, field.type)
    kind = frame.schema.field(source).type
    if kind.equals(field.type):
        return col(source)
    fits = (
        (is_number(kind) and is_number(field.type))
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
    return col(source).cast(field.type)
