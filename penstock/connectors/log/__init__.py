"""The embedded transport: a persistent, partitioned, replayable log on the local file system.

What a user without Kafka gets.  Any number of processes may append to and read a topic at once, without
a server.  :class:`LogSource` and :class:`LogSink` join it to jobs, exactly once;
:class:`Producer` and :class:`Consumer` to everything else.

Read ``frame.py`` first (the bytes), then ``segment.py`` and ``partition.py`` (appending), ``reader.py``
(reading), ``staging.py`` (transactions), ``source.py`` and ``sink.py``.
"""

from __future__ import annotations

from penstock.connectors.log.client import Consumer, HashPartitioner, Producer
from penstock.connectors.log.errors import CorruptLogError, DecodeError, OffsetTruncatedError
from penstock.connectors.log.offsets import LogOffsets
from penstock.connectors.log.partition import PartitionWriter
from penstock.connectors.log.reader import PartitionReader
from penstock.connectors.log.sink import LogCommitter, LogSink
from penstock.connectors.log.source import LogSource
from penstock.connectors.log.staging import Committable, commit_staged
from penstock.connectors.log.topic import Log, PartitionDescription, Topic, TopicDescription
from penstock.connectors.source import OnTruncated
from penstock.formats.json_values import Json
from penstock.formats.value_format import Raw, SchemaFormat, Text, ValueFormat

__all__ = [
    "Committable",
    "Consumer",
    "CorruptLogError",
    "DecodeError",
    "HashPartitioner",
    "Json",
    "Log",
    "LogCommitter",
    "LogOffsets",
    "LogSink",
    "LogSource",
    "OffsetTruncatedError",
    "OnTruncated",
    "PartitionDescription",
    "PartitionReader",
    "PartitionWriter",
    "Producer",
    "Raw",
    "SchemaFormat",
    "Text",
    "Topic",
    "TopicDescription",
    "ValueFormat",
    "commit_staged",
]
