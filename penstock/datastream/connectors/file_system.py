"""Files, under the names of ``pyflink.datastream.connectors.file_system``.

``StreamingFileSink`` is the older name of the same sink.  Compaction does not exist here.
"""

from penstock.connectors.files.buckets import BucketAssigner
from penstock.connectors.files.formats import BulkFormat
from penstock.connectors.files.naming import OutputFileConfig
from penstock.connectors.files.parquet import ParquetFormat
from penstock.connectors.files.parquet_writer import ParquetWriterFactory
from penstock.connectors.files.parts import JsonLinesEncoder
from penstock.connectors.files.rolling import DefaultRollingPolicy, OnCheckpointRollingPolicy, RollingPolicy
from penstock.connectors.files.sink import FileSink
from penstock.connectors.files.source import FileSource, FileSourceBuilder
from penstock.connectors.files.text import StreamFormat

StreamingFileSink = FileSink

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "DefaultRollingPolicy",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "JsonLinesEncoder",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "ParquetFormat",
    "ParquetWriterFactory",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]
