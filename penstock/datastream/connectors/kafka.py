"""Kafka, under the names of ``pyflink.datastream.connectors.kafka``.

Sources that change clusters while they run (PyFlink's ``dynamic_kafka``) do not exist here.
"""

from penstock.datastream.connectors._kafka_producer import (
    FlinkKafkaProducer,
    FlinkKafkaProducerBase,
    Semantic,
)
from penstock.datastream.connectors._kafka_sink import (
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaTopicSelector,
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
