"""The formats of connectors, json, csv, avro, parquet and orc, for files and for single values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.core.errors import ConfigError
from penstock.datastream.connectors.file_system import (
    CsvDialect,
    CsvFormat,
    FileSink,
    FileSource,
    FileSourceBuilder,
    JsonLinesFormat,
    OrcFormat,
    ParquetFormat,
)
from penstock.datastream.formats.avro import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
)
from penstock.datastream.formats.avro_files import AvroBulkWriters, AvroFormat
from penstock.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.formats.json_values import Json
from penstock.sql.options import Options
from penstock.sql.row_types import avro_schema, row_type

FILES = ("json", "csv", "parquet", "orc", "avro")
VALUES = ("json", "csv", "avro")


def file_source(
    name: str, path: str, schema: pa.Schema, options: Options, partitions: pa.Schema
) -> FileSourceBuilder:
    """Reads files of a format; ``partitions`` are columns that directories hold."""
    inside = pa.schema([field for field in schema if field.name not in partitions.names])
    builder = FileSource.for_record_stream_format(_reader(name, inside, options), path)
    return builder.with_partition_columns(partitions) if partitions.names else builder


def _reader(name: str, schema: pa.Schema, options: Options) -> Any:
    if name == "json":
        _json(options)
        return JsonLinesFormat(schema)
    if name == "csv":
        return CsvFormat(schema, _dialect(options))
    if name == "parquet":
        return ParquetFormat(schema.names)
    return OrcFormat(schema.names) if name == "orc" else AvroFormat(AvroSchema(avro_schema(schema)))


def file_sink(name: str, path: str, schema: pa.Schema, options: Options, partitions: tuple[str, ...]) -> Any:
    """Writes files of a format, exactly once."""
    if name == "json":
        _json(options)
        return FileSink.json_lines(path, schema, partition_by=partitions)
    if name == "csv":
        delimiter = _dialect(options).delimiter
        return FileSink.csv(path, schema, delimiter=delimiter, partition_by=partitions)
    if name == "parquet":
        return FileSink.parquet(path, schema, partition_by=partitions)
    if name == "orc":
        return FileSink.orc(path, schema, partition_by=partitions)
    if partitions:
        raise ConfigError("Avro files are not partitioned by columns; choose parquet, json or csv")
    writer = AvroBulkWriters.for_generic_record(AvroSchema(avro_schema(schema)))
    return FileSink.for_bulk_format(path, writer).build()


def value_reader(name: str, schema: pa.Schema, options: Options) -> Any:
    """Reads messages of a format."""
    if name == "json":
        _json(options)
        return Json(schema)
    if name == "csv":
        builder = CsvRowDeserializationSchema.Builder(row_type(schema))
        return builder.set_field_delimiter(_dialect(options).delimiter).build()
    return AvroRowDeserializationSchema(avro_schema_string=avro_schema(schema))


def value_writer(name: str, schema: pa.Schema, options: Options) -> Any:
    """Writes messages of a format."""
    if name == "json":
        _json(options)
        return Json(schema)
    if name == "csv":
        builder = CsvRowSerializationSchema.Builder(row_type(schema))
        return builder.set_field_delimiter(_dialect(options).delimiter).build()
    return AvroRowSerializationSchema(avro_schema_string=avro_schema(schema))


def _json(options: Options) -> None:
    """A missing field is null, and a line that is no JSON ends the job: others are refused."""
    for name in ("fail-on-missing-field", "ignore-parse-errors"):
        if options.flag(f"json.{name}") or options.flag(f"value.json.{name}"):
            raise ConfigError(f"option 'json.{name}' of table {options.table!r} is not there")
    standard = options.maybe("json.timestamp-format.standard")
    if standard not in (None, "SQL", "ISO-8601"):
        raise ConfigError("'json.timestamp-format.standard' is SQL or ISO-8601; both are read")


def _dialect(options: Options) -> CsvDialect:
    if options.flag("csv.ignore-parse-errors"):
        raise ConfigError(f"option 'csv.ignore-parse-errors' of table {options.table!r} is not there")
    delimiter = options.text("csv.field-delimiter", ",").replace("\\t", "\t")
    null = options.maybe("csv.null-literal")
    comments = options.flag("csv.allow-comments")
    return CsvDialect(delimiter=delimiter, null_literal=null, comments=comments)
