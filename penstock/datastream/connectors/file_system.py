"""Files, under the names of ``pyflink.datastream.connectors.file_system``.

``StreamingFileSink`` is the older name of the same sink.  Formats that PyFlink has elsewhere are in
``penstock.datastream.formats``; the short forms (``FileSource.csv``, ``FileSink.parquet``) are our own.
"""

from penstock.common.serialization import BulkWriterFactory, Encoder, RowDataBulkWriterFactory
from penstock.common.time import Duration
from penstock.connectors.files.buckets import BucketAssigner
from penstock.connectors.files.compact import FileCompactor, FileCompactStrategy
from penstock.connectors.files.csv import CsvDialect, CsvFormat
from penstock.connectors.files.discovery import FileEnumeratorProvider, FileSplitAssignerProvider
from penstock.connectors.files.formats import BulkFormat
from penstock.connectors.files.json_lines import JsonLinesFormat
from penstock.connectors.files.lines import StreamFormat
from penstock.connectors.files.orc import OrcFormat
from penstock.connectors.files.parquet import ParquetFormat
from penstock.connectors.files.parquet_writer import ParquetWriterFactory
from penstock.connectors.files.part_files import (
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from penstock.connectors.files.parts import JsonLinesEncoder
from penstock.connectors.files.sink import FileSink
from penstock.connectors.files.source import FileSource, FileSourceBuilder
from penstock.datastream.connectors.base import Sink, Source, StreamTransformer, SupportsPreprocessing
from penstock.datastream.functions import SinkFunction

StreamingFileSink = FileSink

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "CsvDialect",
    "CsvFormat",
    "DefaultRollingPolicy",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "JsonLinesEncoder",
    "JsonLinesFormat",
    "OnCheckpointRollingPolicy",
    "OrcFormat",
    "OutputFileConfig",
    "ParquetFormat",
    "ParquetWriterFactory",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]

# PyFlink has these here, too, from its other modules.
__all__ += [
    "BulkWriterFactory",
    "Duration",
    "Encoder",
    "RowDataBulkWriterFactory",
    "Sink",
    "SinkFunction",
    "Source",
    "StreamTransformer",
    "SupportsPreprocessing",
]
