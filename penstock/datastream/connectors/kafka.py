"""Kafka, under the names of ``pyflink.datastream.connectors.kafka``.

Sources that change clusters while they run (PyFlink's ``dynamic_kafka``) do not exist here.
"""

from penstock.common import typeinfo
from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types import Row
from penstock.datastream.connectors._kafka_sink import (
    FlinkKafkaProducer,
    FlinkKafkaProducerBase,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaTopicSelector,
    Semantic,
)
from penstock.datastream.connectors._kafka_source import (
    Diverted,
    FlinkKafkaConsumer,
    FlinkKafkaConsumerBase,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
    OnError,
)
from penstock.datastream.connectors.base import (
    DeliveryGuarantee,
    Sink,
    Source,
    StreamTransformer,
    SupportsPreprocessing,
)
from penstock.datastream.functions import SinkFunction, SourceFunction

__all__ = [
    "Diverted",
    "FlinkKafkaConsumer",
    "FlinkKafkaConsumerBase",
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecord",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "OnError",
    "Semantic",
]

# PyFlink has these here, too, from its other modules.
__all__ += [
    "DeliveryGuarantee",
    "DeserializationSchema",
    "Row",
    "SerializationSchema",
    "Sink",
    "SinkFunction",
    "Source",
    "SourceFunction",
    "StreamTransformer",
    "SupportsPreprocessing",
    "TypeInformation",
    "Types",
    "typeinfo",
]
