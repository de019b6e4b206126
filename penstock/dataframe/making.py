"""Where DataFrames come from: values at hand, files, and streams of the DataStream API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.common import Duration, WatermarkStrategy
from penstock.core.durations import to_millis
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.dataframe.frame import DataFrame
from penstock.dataframe.windows import Size
from penstock.datastream import DataStream
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.connectors.file_system import FileSource


class _RowsOf:
    """Rows of a table by their numbers."""

    def __init__(self, table: pa.Table) -> None:
        self._rows = table.combine_chunks().to_batches()

    def __call__(self, numbers: Any) -> pa.RecordBatch:
        return self._rows[0].take(pa.array(numbers))

    def narrowed(self, columns: Collection[str]) -> _RowsOf:
        """Of some columns: the others need not travel."""
        found = copy(self)
        found._rows = [rows.select([it for it in rows.schema.names if it in columns]) for rows in self._rows]
        return found


def event_time(schema: pa.Schema, time: str | None, max_delay: Size) -> WatermarkStrategy:
    """Watermarks by a column with times (timestamps, or milliseconds since 1970), or none."""
    if time is None:
        return WatermarkStrategy.no_watermarks()
    if time not in schema.names:
        raise ConfigError(
            f"there is no column {time!r} for event time; there are {', '.join(schema.names)}",
            code=Code.UNKNOWN_COLUMN,
        )
    kind = schema.field(time).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
        raise ConfigError(f"column {time!r} is {kind}, and event time is a timestamp or milliseconds")
    delay = Duration.of_millis(to_millis(max_delay))
    return WatermarkStrategy.for_bounded_out_of_orderness(delay).with_timestamp_column(time)


def timed(frame: DataFrame, time: str | None) -> DataFrame:
    """The frame, which knows the column of its event times."""
    frame._time = time
    return frame


def from_arrow(
    table: pa.Table | pa.RecordBatch, time: str | None = None, max_delay: Size = 0, env: Env | None = None
) -> DataFrame:
    """A bounded DataFrame of a table at hand, which travels with the job.

    ``time`` names the column with event times, which may be out of order by at most ``max_delay``.
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        raise ConfigError(f"from_arrow takes a pyarrow.Table or RecordBatch, not {type(table).__name__}")
    strategy = event_time(table.schema, time, max_delay)
    source = DataGeneratorSource(_RowsOf(table), count=table.num_rows, columns=True)

    def build(env: Env) -> DataStream[Any]:
        # One after the other, as they are in the table.
        return env.from_source(source, strategy, "table").set_parallelism(1)

    return timed(DataFrame(build, table.schema, time is not None, env), time)


def from_records(
    records: Sequence[Any], schema: pa.Schema | Sequence[str] | None = None, **more: Any
) -> DataFrame:
    """Of dicts, or of tuples with the names or the schema given."""
    if isinstance(schema, pa.Schema):
        rows = [
            row if isinstance(row, Mapping) else dict(zip(schema.names, row, strict=True)) for row in records
        ]
        return from_arrow(pa.Table.from_pylist(rows, schema=schema), **more)
    if schema is not None:
        records = [dict(zip(schema, row, strict=True)) for row in records]
    if not all(isinstance(row, Mapping) for row in records):
        raise ConfigError("records are dicts, or tuples with names: from_records(rows, ['country', 'price'])")
    if not records:
        raise ConfigError("no records and no schema: say which columns there are, by a pyarrow.Schema")
    return from_arrow(pa.Table.from_pylist(list(records)), **more)


def from_dict(columns: Mapping[str, Any], **more: Any) -> DataFrame:
    """Of lists or arrays by name; ``more`` is described at :func:`from_arrow`."""
    return from_arrow(pa.table(dict(columns)), **more)


def from_pandas(frame: Any, **more: Any) -> DataFrame:
    """Of a pandas DataFrame, without its index; ``more`` is described at :func:`from_arrow`."""
    return from_arrow(pa.Table.from_pandas(frame, preserve_index=False), **more)


def range(start: int, stop: int | None = None, env: Env | None = None) -> DataFrame:
    """Whole numbers from ``start`` up to ``stop``, or from zero up to ``start``, as column ``id``."""
    first, last = (0, start) if stop is None else (start, stop)
    source = DataGeneratorSource(_Numbers(first), count=max(0, last - first), columns=True)
    untimed = WatermarkStrategy.no_watermarks()
    schema = pa.schema({"id": pa.int64()})
    return DataFrame(lambda env: env.from_source(source, untimed, "range"), schema, False, env)


class _Numbers:
    def __init__(self, first: int) -> None:
        self._first = first

    def __call__(self, numbers: Any) -> pa.RecordBatch:
        return pa.record_batch({"id": pa.array(numbers + self._first, pa.int64())})


def read_parquet(
    *paths: str | Path,
    time: str | None = None,
    max_delay: Size = 0,
    schema: pa.Schema | None = None,
    env: Env | None = None,
) -> DataFrame:
    """Parquet files; their columns are those of the first local file, unless a ``schema`` is given."""
    found = schema if schema is not None else _schema_of(paths)
    source, strategy = (
        FileSource.parquet(*map(str, paths), columns=found.names),
        event_time(found, time, max_delay),
    )
    frame = DataFrame(lambda env: env.from_source(source, strategy, "parquet"), found, time is not None, env)
    return timed(frame, time)


def _schema_of(paths: Sequence[str | Path]) -> pa.Schema:
    for path in map(Path, paths):
        files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        for file in files:
            if file.is_file():
                return pq.read_schema(file).remove_metadata()
    raise ConfigError(
        f"no Parquet file to read the columns from in {', '.join(map(str, paths)) or 'nothing'}; "
        "name one that is here, or give schema="
    )


def from_data_stream(stream: DataStream[Any], schema: pa.Schema, has_event_time: bool = False) -> DataFrame:
    """A stream of columns, of rows with names or of dicts, whose fields are those of ``schema``."""
    if not isinstance(schema, pa.Schema):
        raise ConfigError(f"from_data_stream takes a pyarrow.Schema, not {type(schema).__name__}")
    return DataFrame(lambda env: stream, schema, has_event_time, stream.get_execution_environment())
