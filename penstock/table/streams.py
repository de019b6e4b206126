"""Streams of values become tables: rows by their type, or by a schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.common import Duration, Row, WatermarkStrategy
from penstock.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from penstock.connectors.files.column_types import schema_of
from penstock.core.errors import ConfigError
from penstock.dataframe import DataFrame, from_data_stream
from penstock.datastream import DataStream
from penstock.table.schema import Schema
from penstock.table.table_descriptor import define


class _Named:
    """A value as a row with names; what is no row is its only field."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def __call__(self, value: Any) -> Row:
        if isinstance(value, dict):
            return Row(**{name: value.get(name) for name in self._names})
        if isinstance(value, Row) and value._has_all(self._names):  # in whatever order they are there
            return Row(**dict(zip(self._names, value.get_fields_by_names(self._names), strict=True)))
        values = list(value) if isinstance(value, Row | tuple | list) else [value]
        return Row(**dict(zip(self._names, values, strict=True)))


def frame_of(stream: DataStream[Any], schema: Schema | None) -> tuple[DataFrame, list[str]]:
    """The DataFrame of a stream, and the columns with its event time."""
    kind = stream.get_type()
    table = None if schema is None else define("stream", schema, {"connector": "stream"})
    if table is not None and table.computed:
        raise ConfigError("a stream has no computed columns: select them from the table")
    columns = _schema(kind) if table is None or not table.schema.names else table.schema
    named = stream.map(_Named(columns.names))
    if table is None or table.time is None:
        return from_data_stream(named, columns), []
    delay = Duration.of_millis(table.delay_ms)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(delay).with_timestamp_column(table.time)
    timed = from_data_stream(named, columns).select(*columns.names).to_data_stream()
    return from_data_stream(timed.assign_timestamps_and_watermarks(strategy), columns, True), [table.time]


def _schema(kind: TypeInformation[Any] | None) -> pa.Schema:
    """The columns of a type: its fields, or ``f0``."""
    if isinstance(kind, RowTypeInfo):
        return schema_of(kind)
    if isinstance(kind, TupleTypeInfo):
        return schema_of(RowTypeInfo(kind.field_types))
    if kind is not None:
        return schema_of(RowTypeInfo([kind]))
    raise ConfigError(
        "the stream has no type, so its columns are not known: give output_type to the step before, or a "
        "Schema "
        "with .column(name, type)"
    )
