"""PyFlink's ``datastream.formats.parquet``. Row types are ``Types.ROW_NAMED(...)`` or Arrow schemas."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.common.configuration import Configuration
from penstock.common.serialization import BulkWriterFactory, RowDataBulkWriterFactory
from penstock.connectors.files.column_types import schema_of
from penstock.connectors.files.parquet import ParquetFormat
from penstock.connectors.files.parquet_writer import ParquetWriterFactory
from penstock.core.typeinfo import RowTypeInfo
from penstock.datastream.connectors.file_system import BulkFormat, StreamFormat
from penstock.datastream.formats.avro_parquet import AvroParquetFactory, AvroParquetFormat
from penstock.datastream.formats.avro_schema import AvroSchema

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
]
# PyFlink has these here, too, from its other modules.
__all__ += [
    "AvroSchema",
    "BulkFormat",
    "BulkWriterFactory",
    "Configuration",
    "RowDataBulkWriterFactory",
    "StreamFormat",
]


class AvroParquetReaders:
    """Reads Parquet files into Avro records."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> AvroParquetFormat:
        """For ``FileSource.for_record_stream_format``; records are dictionaries."""
        return AvroParquetFormat(schema)


class AvroParquetWriters:
    """Writes Avro records into Parquet files."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> AvroParquetFactory:
        """For ``FileSink.for_bulk_format``; records are dictionaries or rows with the fields' names."""
        return AvroParquetFactory(schema)


class ParquetColumnarRowInputFormat(ParquetFormat):
    """Reads the columns of ``row_type``. The other arguments are accepted and have no meaning here."""

    def __init__(
        self,
        row_type: RowTypeInfo | pa.Schema,
        hadoop_config: Any | None = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        super().__init__(list(_schema(row_type).names))


class ParquetBulkWriters:
    """Writes Parquet files: ``FileSink.for_bulk_format(path, ParquetBulkWriters.for_row_type(row_type))``."""

    @staticmethod
    def for_row_type(
        row_type: RowTypeInfo | pa.Schema, hadoop_config: Any | None = None, utc_timestamp: bool = False
    ) -> ParquetWriterFactory:
        """For rows, tuples, dictionaries and columns of this type."""
        return ParquetWriterFactory(_schema(row_type))


def _schema(row_type: RowTypeInfo | pa.Schema) -> pa.Schema:
    return schema_of(row_type) if isinstance(row_type, RowTypeInfo) else row_type
