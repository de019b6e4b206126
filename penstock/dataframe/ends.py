"""How DataFrames end: files and topics for their rows, plans, data frames of other kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.core.errors import ConfigError
from penstock.dataframe.row_types import row_type_of
from penstock.datastream import DataStream, DataStreamSink
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.datastream.connectors.base import DeliveryGuarantee, Sink
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from penstock.datastream.formats.json import JsonRowSerializationSchema


class Ends(ABC):
    """What a DataFrame has for its end.

    The ``write_`` methods run the program and wait for its end.  With ``env`` they only add the sink to that
    environment: call ``env.execute()`` when all is there.
    """

    schema: pa.Schema

    @abstractmethod
    def to_data_stream(self, env: Env | None = None) -> DataStream[Any]:
        """The stream of columns."""

    @abstractmethod
    def _stream(self, env: Env | None = None) -> DataStream[Any]:
        """The same, of changes if there are any."""

    @abstractmethod
    def sink_to(self, sink: Sink, env: Env | None = None) -> DataStreamSink:
        """Add a sink."""

    @abstractmethod
    def take(self, n: int = 10, timeout: float | str = 30.0) -> list[dict[str, Any]]:
        """Some rows."""

    @abstractmethod
    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows."""

    def to_arrow(self) -> pa.Table:
        """Run the program and get all rows, as a table."""
        return pa.Table.from_pylist(self.to_pylist(), schema=self.schema)

    def to_pandas(self) -> Any:
        """Run the program and get all rows, as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def show(self, n: int = 10, timeout: float | str = 30.0) -> None:
        """Print some rows, as a table; see :meth:`take`."""
        found = pa.Table.from_pylist(self.take(n, timeout), schema=self.schema)
        print(found.to_pandas().to_string(index=False))

    def write_to(self, sink: Sink, env: Env | None = None) -> Any:
        """Into any sink of ``penstock.datastream.connectors`` that takes rows as these change."""
        if env is not None:
            return self.sink_to(sink, env)
        own = self._stream().get_execution_environment()
        self.sink_to(sink, own)
        return own.execute()

    def write_parquet(self, path: str | Path, env: Env | None = None, **more: Any) -> Any:
        """Parquet files in a directory; ``more`` is that of ``FileSink.parquet``: ``partition_by``."""
        return self.write_to(FileSink.parquet(path, self.schema, **more), env)

    def write_csv(self, path: str | Path, env: Env | None = None, header: bool = True, **more: Any) -> Any:
        """CSV files in a directory; ``more`` is that of ``FileSink.csv``."""
        return self.write_to(FileSink.csv(path, self.schema, header=header, **more), env)

    def write_json(self, path: str | Path, env: Env | None = None, **more: Any) -> Any:
        """Files of one JSON object per line in a directory; ``more`` is that of ``FileSink.json_lines``."""
        return self.write_to(FileSink.json_lines(path, self.schema, **more), env)

    def write_kafka(
        self,
        topic: str,
        bootstrap_servers: str,
        env: Env | None = None,
        transactional_id_prefix: str | None = None,
        **properties: Any,
    ) -> Any:
        """A JSON object for each row into a topic; exactly once with a ``transactional_id_prefix``.

        ``properties`` are those of the Kafka client, with ``_`` for the dots.
        """
        values = JsonRowSerializationSchema.builder().with_type_info(row_type_of(self.schema)).build()
        records = KafkaRecordSerializationSchema.builder().set_topic(topic)
        builder = KafkaSink.builder().set_bootstrap_servers(bootstrap_servers)
        builder.set_record_serializer(records.set_value_serialization_schema(values).build())
        if transactional_id_prefix is not None:
            builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
            builder.set_transactional_id_prefix(transactional_id_prefix)
        for name, value in properties.items():
            builder.set_property(name.replace("_", "."), value)
        return self.write_to(builder.build(), env)

    def to_polars(self) -> Any:
        """Run the program and get all rows, as a polars DataFrame."""
        try:
            import polars
        except ImportError as error:
            raise ConfigError("to_polars needs polars: pip install polars, or take to_arrow()") from error
        return polars.from_arrow(self.to_arrow())

    def to_dataframe(self, spark: Any = None, env: Env | None = None) -> Any:
        """Run the program, which must end, and get all rows as a Spark DataFrame."""
        return self.to_data_stream(env).to_dataframe(spark, schema=self.schema)

    def describe(self) -> Any:
        """Run the program, which must end, and get counts, means and extremes, as a pandas DataFrame."""
        stream = self._stream()
        graph = stream.get_execution_environment().graph
        for node in graph.nodes_if_read(link.source for link in stream._links):
            if node.source is not None and not node.source.bounded:
                raise ConfigError(
                    f"describe reads all rows, and step {node.name!r} has no end; look at some with take(n)"
                )
        return self.to_arrow().to_pandas().describe(include="all")

    def explain(self) -> str:
        """The plan in words: the columns, which steps share a task, and how rows travel between tasks."""
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return f"columns: {columns}\n{self._stream().get_execution_environment().explain()}"
