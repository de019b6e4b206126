"""Sources and sinks under the module names that PyFlink programs import from.

The package itself has the names, too, that PyFlink's keeps from the time when all of them stood in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.elsewhere import found_in
from penstock.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]

_FILES = """
    BucketAssigner Encoder FileEnumeratorProvider FileSink FileSource FileSourceBuilder
    FileSplitAssignerProvider OutputFileConfig RollingPolicy StreamFormat StreamingFileSink
"""
_KAFKA = """
    DeserializationSchema FlinkKafkaConsumer FlinkKafkaConsumerBase FlinkKafkaProducer FlinkKafkaProducerBase
    KafkaRecordDeserializationSchema KafkaSource Semantic SerializationSchema SinkFunction SourceFunction
    TypeInformation typeinfo
"""
if not TYPE_CHECKING:  # else a typing error in any name would pass for one of these
    __getattr__ = found_in(
        __name__,
        {
            "penstock.common": "ConfigOption Duration ExecutionConfig",
            "penstock.common.typeinfo": "RowTypeInfo",
            "penstock.datastream.connectors.file_system": _FILES,
            "penstock.datastream.connectors.jdbc": "JdbcConnectionOptions JdbcExecutionOptions JdbcSink",
            "penstock.datastream.connectors.kafka": _KAFKA,
            "penstock.datastream.connectors.number_seq": "NumberSequenceSource",
        },
        below="file_system jdbc kafka number_seq",
    )
