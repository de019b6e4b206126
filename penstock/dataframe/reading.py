"""DataFrames of files and topics.  ``time`` names the column with event times, as in :func:`from_arrow`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson

from penstock.core.errors import ConfigError
from penstock.dataframe.frame import DataFrame
from penstock.dataframe.making import event_time, timed
from penstock.dataframe.row_types import row_type_of
from penstock.dataframe.windows import Size
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.datastream.connectors.base import Source
from penstock.datastream.connectors.file_system import FileSource
from penstock.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
)
from penstock.datastream.formats.json import JsonRowDeserializationSchema


def read_from(
    source: Source,
    schema: pa.Schema,
    time: str | None = None,
    max_delay: Size = 0,
    env: Env | None = None,
    name: str = "source",
) -> DataFrame:
    """Of any source of columns or of rows with names."""
    strategy = event_time(schema, time, max_delay)
    frame = DataFrame(lambda env: env.from_source(source, strategy, name), schema, time is not None, env)
    return timed(frame, time)


def read_csv(
    *paths: str | Path,
    schema: pa.Schema | None = None,
    header: bool = True,
    time: str | None = None,
    max_delay: Size = 0,
    env: Env | None = None,
    **dialect: Any,
) -> DataFrame:
    """CSV files; ``dialect`` is that of ``FileSource.csv``.

    Without ``schema`` the columns are those of the first local file, which then needs a header; their types
    are guessed from its beginning.
    """
    if schema is None:
        if not header:
            raise ConfigError("CSV files without a header do not name their columns; give schema=")
        with (found := _first(paths, "*.csv")).open("rb") as file:
            parse = pacsv.ParseOptions(delimiter=dialect.get("delimiter", ","))
            schema = _known(pacsv.open_csv(file, parse_options=parse).schema, found)
    source = FileSource.csv(*map(str, paths), schema=schema, header=header, **dialect)
    return read_from(source, schema, time, max_delay, env, "csv")


def read_json(
    *paths: str | Path,
    schema: pa.Schema | None = None,
    time: str | None = None,
    max_delay: Size = 0,
    env: Env | None = None,
    **more: Any,
) -> DataFrame:
    """Files of one JSON object per line; ``more`` is that of ``FileSource.json_lines``.

    Without ``schema`` the columns are those of the first local file.
    """
    if schema is None:
        with (found := _first(paths, "*.json*")).open("rb") as file:
            schema = _known(pajson.read_json(file).schema, found)
    source = FileSource.json_lines(*map(str, paths), schema=schema, **more)
    return read_from(source, schema, time, max_delay, env, "json")


def read_kafka(
    *topics: str,
    bootstrap_servers: str,
    schema: pa.Schema,
    time: str | None = None,
    max_delay: Size = 0,
    group_id: str = "penstock",
    bounded: bool = False,
    env: Env | None = None,
    **properties: Any,
) -> DataFrame:
    """Topics of JSON objects, from their beginning, or from where the ``group_id`` was.

    ``bounded``: up to where the topics end when the job begins.  ``properties`` are those of the Kafka
    client, with ``_`` for the dots.
    """
    values = JsonRowDeserializationSchema.builder().type_info(row_type_of(schema)).build()
    start = KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)
    builder = KafkaSource.builder().set_bootstrap_servers(bootstrap_servers).set_topics(*topics)
    builder.set_group_id(group_id).set_value_only_deserializer(values).set_starting_offsets(start)
    if bounded:
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    for name, value in properties.items():
        builder.set_property(name.replace("_", "."), value)
    return read_from(builder.build(), schema, time, max_delay, env, "kafka")


def _known(schema: pa.Schema, path: Path) -> pa.Schema:
    for field in schema:
        if pa.types.is_null(field.type):
            raise ConfigError(f"{path.name} has no value of column {field.name!r}; give schema=")
    return schema


def _first(paths: Any, pattern: str) -> Path:
    for path in map(Path, paths):
        for file in sorted(path.rglob(pattern)) if path.is_dir() else [path]:
            if file.is_file():
                return file
    raise ConfigError(
        f"no file to read the columns from in {', '.join(map(str, paths)) or 'nothing'}; name one "
        "that is here, or give schema="
    )
