"""Data frames of others: polars' and Spark's."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.core.errors import ConfigError
from penstock.dataframe.frame import DataFrame
from penstock.dataframe.making import event_time, from_arrow, timed
from penstock.dataframe.windows import Size
from penstock.datastream import DataStream
from penstock.datastream import StreamExecutionEnvironment as Env


def from_polars(frame: Any, **more: Any) -> DataFrame:
    """Of a polars DataFrame; ``more`` is described at :func:`from_arrow`."""
    if not hasattr(frame, "to_arrow"):
        raise ConfigError(f"from_polars takes a polars DataFrame, not {type(frame).__name__}")
    table = frame.to_arrow()
    return from_arrow(table.cast(pa.schema([(it.name, _plain(it.type)) for it in table.schema])), **more)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Layouts that polars prefers as those that files and formats know."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return pa.list_(_plain(kind.value_type)) if pa.types.is_large_list(kind) else kind


def from_dataframe(
    frame: Any,
    time: str | None = None,
    max_delay: Size | None = None,
    directory: str | None = None,
    env: Env | None = None,
) -> DataFrame:
    """Of a Spark DataFrame, which Spark reads when the job begins.

    Rows come in order of ``time``, unless ``max_delay`` says how much they may be out of order.
    ``directory``: where a streaming job keeps them, by default below the checkpoint directory.
    """
    if not hasattr(frame, "sparkSession"):
        raise ConfigError(f"from_dataframe takes a Spark DataFrame, not {type(frame).__name__}")
    schema = frame.limit(0).toArrow().schema.remove_metadata()
    strategy = None if max_delay is None else event_time(schema, time, max_delay)
    event_time(schema, time, 0)

    def build(env: Env) -> DataStream[Any]:
        return env.from_dataframe(frame, strategy, "DataFrame", time, directory)

    return timed(DataFrame(build, schema, time is not None, env), time)
