"""The connectors of ``CREATE TABLE ... WITH ('connector' = ...)``: faces of sources and sinks there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from penstock.connectors.builtin.discard import DiscardingSink
from penstock.core.errors import ConfigError
from penstock.datastream.connectors.base import DeliveryGuarantee, Sink, Source
from penstock.expressions.suggest import nearest
from penstock.sql.datagen import datagen
from penstock.sql.formats import FILES, VALUES, file_sink, file_source, value_reader, value_writer
from penstock.sql.options import Options
from penstock.sql.printing import TablePrintSink
from penstock.sql.tables import TableDefinition

SOURCES = ("datagen", "filesystem", "kafka", "upsert-kafka", "jdbc")
SINKS = ("print", "blackhole", "filesystem", "kafka", "upsert-kafka", "jdbc")
_STARTS = ("earliest-offset", "latest-offset", "group-offsets", "timestamp")

# A table may be read and written: what only the other side asks for is passed over.
_FILES_OUT = ("sink.rolling-policy.file-size", "sink.rolling-policy.rollover-interval")
_KAFKA_IN = ("scan.startup.mode", "scan.startup.timestamp-millis", "scan.bounded.mode")
_KAFKA_OUT = ("sink.delivery-guarantee", "sink.transactional-id-prefix")
_DATABASE_PASSED = ("scan.fetch-size", "scan.partition.lower-bound", "scan.partition.upper-bound")
_DATABASE_IN = ("scan.partition.column", "scan.partition.num")
_DATABASE_OUT = ("sink.buffer-flush.max-rows", "sink.buffer-flush.interval", "sink.max-retries")


def is_read(table: TableDefinition) -> bool:
    """Whether rows can come from it."""
    return table.options.get("connector") in SOURCES


def replaces(table: TableDefinition) -> bool:
    """Whether rows that come from it replace each other by its key."""
    return table.options.get("connector") == "upsert-kafka"


def source_of(table: TableDefinition) -> Source:
    """What reads a table; options are all checked."""
    options = Options(table.name, table.options)
    connector = _connector(options)
    if connector not in SOURCES:
        raise ConfigError(
            f"table {table.name!r} with connector {connector!r} cannot be read; {', '.join(SOURCES)} can"
        )
    build: Callable[[], Source] = _READERS[connector](table, options)
    options.done(connector)
    return build()


def sink_of(table: TableDefinition) -> Sink:
    """What writes a table; options are all checked."""
    options = Options(table.name, table.options)
    connector = _connector(options)
    if connector not in SINKS:
        raise ConfigError(
            f"table {table.name!r} with connector {connector!r} cannot be written; {', '.join(SINKS)} can"
        )
    build: Callable[[], Sink] = _WRITERS[connector](table, options)
    options.done(connector)
    return build()


def _connector(options: Options) -> str:
    found = options.text("connector")
    known = sorted({*SOURCES, *SINKS})
    if found not in known:
        raise ConfigError(
            f"there is no connector {found!r}{nearest(found, known)}; others are had as DataStreams: "
            "session.register(name, from_data_stream(stream, schema))"
        )
    return found


# --- files -----------------------------------------------------------------------------------------------


def _partitions(table: TableDefinition) -> pa.Schema:
    return pa.schema([table.schema.field(name) for name in table.partitioned])


def _read_files(table: TableDefinition, options: Options) -> Callable[[], Source]:
    name = options.one_of("format", FILES)
    builder = file_source(name, options.text("path"), table.schema, options, _partitions(table))
    interval = options.millis("source.monitor-interval")
    options.passed_over(*_FILES_OUT)
    return builder.build if interval is None else builder.monitor_continuously(interval).build


def _write_files(table: TableDefinition, options: Options) -> Callable[[], Sink]:
    name = options.one_of("format", FILES)
    options.passed_over("source.monitor-interval", *_FILES_OUT)
    made: Sink = file_sink(name, options.text("path"), table.schema, options, table.partitioned)
    return lambda: made


# --- Kafka -----------------------------------------------------------------------------------------------


def _read_kafka(table: TableDefinition, options: Options) -> Callable[[], Source]:
    from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource

    builder = KafkaSource.builder().set_properties(options.beginning("properties."))
    pattern = options.maybe("topic-pattern")
    if pattern is None:
        builder.set_topics(*(it.strip() for it in options.text("topic").split(";")))
    else:
        builder.set_topic_pattern(pattern)
    format_ = options.maybe("value.format")
    name = options.one_of("format", VALUES) if format_ is None else options.one_of("value.format", VALUES)
    builder.set_value_only_deserializer(value_reader(name, table.schema, options))
    start = options.one_of("scan.startup.mode", _STARTS, "earliest-offset")
    at = options.number("scan.startup.timestamp-millis")
    if start == "timestamp" and at is None:
        options.text("scan.startup.timestamp-millis")
    starts: dict[str, Any] = {
        "earliest-offset": KafkaOffsetsInitializer.earliest,
        "latest-offset": KafkaOffsetsInitializer.latest,
        "group-offsets": KafkaOffsetsInitializer.committed_offsets,
        "timestamp": lambda: KafkaOffsetsInitializer.timestamp(at or 0),
    }
    builder.set_starting_offsets(starts[start]())
    options.passed_over("sink.partitioner", *_KAFKA_OUT)
    if options.one_of("scan.bounded.mode", ("unbounded", "latest-offset"), "unbounded") == "latest-offset":
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    return builder.build


def _write_kafka(table: TableDefinition, options: Options) -> Callable[[], Sink]:
    from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink

    format_ = options.maybe("value.format")
    name = options.one_of("format", VALUES) if format_ is None else options.one_of("value.format", VALUES)
    writer = value_writer(name, table.schema, options)
    schema = KafkaRecordSerializationSchema.builder().set_topic(options.text("topic"))
    schema.set_value_serialization_schema(writer)
    builder = KafkaSink.builder().set_record_serializer(schema.build())
    for name, value in options.beginning("properties.").items():
        builder.set_property(name, value)
    options.passed_over("sink.partitioner", *_KAFKA_IN)
    wanted = options.one_of(
        "sink.delivery-guarantee", ("none", "at-least-once", "exactly-once"), "at-least-once"
    )
    builder.set_delivery_guarantee(DeliveryGuarantee[wanted.replace("-", "_").upper()])
    prefix = options.maybe("sink.transactional-id-prefix")
    if prefix is not None:
        builder.set_transactional_id_prefix(prefix)
    return builder.build


def _read_upserts(table: TableDefinition, options: Options) -> Callable[[], Source]:
    from penstock.connectors.kafka.upserts import UpsertDecoder
    from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource

    _check_upserts(table, options)
    builder = KafkaSource.builder().set_properties(options.beginning("properties."))
    builder.set_topics(options.text("topic")).set_deserializer(UpsertDecoder(table.schema, table.key))
    # From its beginning: later, a key whose last record is older would be missing.
    builder.set_starting_offsets(KafkaOffsetsInitializer.earliest())
    if options.one_of("scan.bounded.mode", ("unbounded", "latest-offset"), "unbounded") == "latest-offset":
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    return builder.build


def _check_upserts(table: TableDefinition, options: Options) -> None:
    if not table.key:
        raise ConfigError(f"table {table.name!r} with connector 'upsert-kafka' needs a PRIMARY KEY")
    for side in ("key.format", "value.format"):
        options.one_of(side, ("json",))


def _write_upserts(table: TableDefinition, options: Options) -> Callable[[], Sink]:
    from penstock.sql.upsert_kafka import UpsertKafkaSink, UpsertRecords

    _check_upserts(table, options)
    options.passed_over("properties.group.id", "scan.bounded.mode")
    records = UpsertRecords(options.text("topic"), table.schema, table.key)
    properties = options.beginning("properties.")
    return lambda: UpsertKafkaSink(table.key, properties, records)


# --- databases -------------------------------------------------------------------------------------------


def _read_database(table: TableDefinition, options: Options) -> Callable[[], Source]:
    from penstock.datastream.connectors.database import DatabaseSource

    builder = DatabaseSource.builder().set_url(options.text("url")).set_table(options.text("table-name"))
    builder.set_columns(*table.schema.names)
    _login(builder, options)
    column = options.maybe("scan.partition.column")
    if column is not None:
        builder.set_partition_column(column)
    count = options.number("scan.partition.num")
    if count is not None:
        builder.set_ranges(count)
    if table.key:
        builder.set_key_columns(*table.key)
    options.passed_over("driver", *_DATABASE_PASSED, *_DATABASE_OUT)
    return builder.build


def _write_database(table: TableDefinition, options: Options) -> Callable[[], Sink]:
    from penstock.datastream.connectors.database import DatabaseSink

    builder = DatabaseSink.builder().set_url(options.text("url")).set_table(options.text("table-name"))
    builder.set_columns(*table.schema.names)
    _login(builder, options)
    if table.key:
        builder.set_key_columns(*table.key)
    rows = options.number("sink.buffer-flush.max-rows", 5_000)
    interval = options.millis("sink.buffer-flush.interval")
    builder.set_batch(rows or 5_000, 1_000 if interval is None else interval)
    retries = options.number("sink.max-retries")
    if retries is not None:
        builder.set_max_retries(retries)
    options.passed_over("driver", *_DATABASE_PASSED, *_DATABASE_IN)
    return builder.build


def _login(builder: Any, options: Options) -> None:
    user, password = options.maybe("username"), options.maybe("password")
    if user is not None:
        builder.set_user(user)
    if password is not None:
        builder.set_password(password)


def _write_print(table: TableDefinition, options: Options) -> Callable[[], Sink]:
    options.passed_over("standard-error")
    identifier = options.maybe("print-identifier")
    return lambda: TablePrintSink(identifier)


def _generate(table: TableDefinition, options: Options) -> Callable[[], Source]:
    made = datagen(table.schema, options)
    return lambda: made


# Each reads its options and gives what builds the end: a wrong option is said before a wrong value of others.
_READERS: dict[str, Any] = {
    "datagen": _generate,
    "filesystem": _read_files,
    "kafka": _read_kafka,
    "upsert-kafka": _read_upserts,
    "jdbc": _read_database,
}
_WRITERS: dict[str, Any] = {
    "print": _write_print,
    "blackhole": lambda table, options: DiscardingSink,
    "filesystem": _write_files,
    "kafka": _write_kafka,
    "upsert-kafka": _write_upserts,
    "jdbc": _write_database,
}
