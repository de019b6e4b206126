"""The Kafka sink under PyFlink's names, record schemas written in Python, and the 1.x producer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from penstock.common.serialization import SerializationSchema
from penstock.connectors.kafka.client import BOOTSTRAP
from penstock.connectors.kafka.sink import KafkaRecordSink
from penstock.connectors.kafka.sink_records import Headers, RecordEncoder, Records, SchemaEncoder, event_times
from penstock.connectors.sink import Sink
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError
from penstock.core.ids import MIN_TIME
from penstock.core.wanted import wanted
from penstock.datastream._wrappers import SinkFunction
from penstock.datastream.connectors.base import DeliveryGuarantee, StreamTransformer, SupportsPreprocessing

__all__ = [
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaTopicSelector",
    "Semantic",
]
Semantic = DeliveryGuarantee
"""The guarantees, under their older name."""


class KafkaTopicSelector(ABC):
    """Chooses the topic of each record."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """The topic for this record."""


class KafkaRecordSerializationSchema(SerializationSchema):
    """Makes a Kafka record of each record of the stream.

    ``builder()`` puts one together of a topic and schemas for value and key.  For everything else derive
    from this class: ``topic`` and ``value`` are needed, the others have the defaults below.  All run per
    record on the task's thread; instances travel to the slots by pickling.
    """

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Begins a schema of a topic, a value schema and perhaps a key schema."""
        return KafkaRecordSerializationSchemaBuilder()

    def topic(self, value: Any) -> str:
        """The topic of the record."""
        raise NotImplementedError(f"{type(self).__name__} needs a method topic(self, value)")

    def value(self, value: Any) -> bytes | None:
        """The record's value; ``None`` marks a deletion in a compacted topic."""
        raise NotImplementedError(f"{type(self).__name__} needs a method value(self, value)")

    def key(self, value: Any) -> bytes | None:
        """The record's key, none by default. Equal keys go to the same partition."""
        return None

    def partition(self, value: Any) -> int | None:
        """The partition; by default that of the key, or any if there is no key."""
        return None

    def headers(self, value: Any) -> Headers | None:
        """The record's headers, none by default."""
        return None

    def timestamp(self, value: Any, event_time: int | None) -> int | None:
        """Milliseconds; by default the event time, and the time of sending where there is none."""
        return event_time

    def serialize(self, value: Any) -> bytes:
        return self.value(value) or b""

    def encoder(self) -> RecordEncoder:
        """Called by the sink: what it sends for a batch."""
        return _MethodEncoder(self)


class _MethodEncoder(RecordEncoder):
    """Calls those methods of a schema that its class has written anew."""

    def __init__(self, schema: KafkaRecordSerializationSchema) -> None:
        self._schema = schema

    def encode(self, batch: Batch) -> Records:
        schema, rows = self._schema, batch.to_rows()
        return Records(
            topics=[schema.topic(row) for row in rows],
            values=[schema.value(row) for row in rows],
            keys=[schema.key(row) for row in rows] if self._has("key") else None,
            partitions=[_or(schema.partition(row), -1) for row in rows] if self._has("partition") else -1,
            times=self._times(batch, rows),
            headers=[schema.headers(row) for row in rows] if self._has("headers") else None,
        )

    def _times(self, batch: Batch, rows: list[Any]) -> int | list[int]:
        if not self._has("timestamp"):
            return event_times(batch)
        timestamp = self._schema.timestamp
        pairs = zip(rows, batch.time_list(), strict=True)
        return [_or(timestamp(row, None if time == MIN_TIME else time), 0) for row, time in pairs]

    def _has(self, method: str) -> bool:
        return getattr(type(self._schema), method) is not getattr(KafkaRecordSerializationSchema, method)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


class _BuiltSchema(KafkaRecordSerializationSchema):
    """A topic or selector, a value schema and perhaps a key schema, written by the batch."""

    def __init__(self, topic: str | Callable[[Any], str], value: Any, key: Any) -> None:
        self._encoder = SchemaEncoder(topic, value, key)

    def encoder(self) -> RecordEncoder:
        return self._encoder

    def topic(self, value: Any) -> str:
        topics = self._one(value).topics
        return topics if isinstance(topics, str) else topics[0]

    def value(self, value: Any) -> bytes | None:
        return self._one(value).values[0]

    def key(self, value: Any) -> bytes | None:
        keys = self._one(value).keys
        return None if keys is None else keys[0]

    def _one(self, value: Any) -> Records:
        return self._encoder.encode(Batch.of_rows([value]))


class KafkaRecordSerializationSchemaBuilder:
    """Collects topic and schemas.

    A schema has ``serialize(record)``, or is ``Json()``, ``Text()`` or ``Raw()``, which write columns without
    going through rows.
    """

    def __init__(self) -> None:
        self._topic: str | Callable[[Any], str] | None = None
        self._value: Any = None
        self._key: Any = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """All records go to this topic."""
        self._choose(topic)
        return self

    def set_topic_selector(
        self, topic_selector: KafkaTopicSelector | Callable[[Any], str]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """The topic of each record is chosen by a selector or a function."""
        self._choose(
            topic_selector.apply if isinstance(topic_selector, KafkaTopicSelector) else topic_selector
        )
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: Any
    ) -> KafkaRecordSerializationSchemaBuilder:
        """What makes keys of records; without it they have none."""
        self._key = key_serialization_schema
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: Any
    ) -> KafkaRecordSerializationSchemaBuilder:
        """What makes values of records."""
        self._value = value_serialization_schema
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """The schema."""
        if self._topic is None:
            raise ConfigError("a Kafka record schema needs set_topic(...) or set_topic_selector(...)")
        if self._value is None:
            raise ConfigError(
                "a Kafka record schema needs set_value_serialization_schema(...), for example "
                "SimpleStringSchema()"
            )
        return _BuiltSchema(self._topic, self._value, self._key)

    def _choose(self, topic: str | Callable[[Any], str]) -> None:
        if self._topic is not None:
            raise ConfigError("the topic of a Kafka record schema is set already: choose it once")
        self._topic = topic


class KafkaSink(KafkaRecordSink, SupportsPreprocessing):
    """Writes a stream to Kafka. Made by ``KafkaSink.builder()``."""

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Begins a sink."""
        return KafkaSinkBuilder()

    def get_transformer(self) -> StreamTransformer | None:
        """``None``: topics are chosen as records are written, no step before that is needed."""
        return None


class KafkaSinkBuilder:
    """Collects the settings of a :class:`KafkaSink`. Without a word on it there is no delivery guarantee."""

    def __init__(self) -> None:
        self._properties: dict[str, Any] = {}
        self._guarantee = DeliveryGuarantee.NONE
        self._prefix: str | None = None
        self._schema: KafkaRecordSerializationSchema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Addresses of some brokers, ``host:port`` with commas between."""
        return self.set_property(BOOTSTRAP, bootstrap_servers)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """How often a record may be in the topic when the job fails and recovers."""
        self._guarantee = wanted(DeliveryGuarantee, delivery_guarantee)
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """What the ids of transactions begin with; needed for ``EXACTLY_ONCE``."""
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        """What makes Kafka records of the stream's records."""
        self._schema = record_serializer
        return self

    def set_property(self, key: str, value: Any) -> KafkaSinkBuilder:
        """A property of Kafka's producer, under its Java name or librdkafka's."""
        self._properties[key] = value
        return self

    def build(self) -> KafkaSink:
        """The sink."""
        if self._schema is None:
            raise ConfigError("a Kafka sink needs set_record_serializer(...)")
        return KafkaSink(self._properties, self._schema.encoder(), self._guarantee, self._prefix)


class FlinkKafkaProducerBase(SinkFunction):
    """What producers share. Settings make another ``sink``, so they come before ``add_sink``."""

    def __init__(self, topic: str, value: Any, properties: Mapping[str, Any], semantic: Semantic) -> None:
        self._topic = topic
        self._value = value
        self._properties = dict(properties)
        self._semantic = semantic
        self._timestamps = False
        super().__init__(self._made())

    def _made(self) -> Sink:
        encoder = SchemaEncoder(self._topic, self._value, with_times=self._timestamps)
        return KafkaSink(self._properties, encoder, self._semantic, self._topic)

    def set_log_failures_only(self, log_failures_only: bool) -> None:
        """Whether records that cannot be delivered are only logged: not here, they fail the job."""
        if log_failures_only:
            raise ConfigError(
                "set_log_failures_only(True) is not supported: a record that Kafka does not take fails the "
                "job, at every guarantee"
            )

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> None:
        """Whether checkpoints wait for acknowledgements. Without that there is no guarantee."""
        if not flush_on_checkpoint and self._semantic is Semantic.AT_LEAST_ONCE:
            self._semantic = Semantic.NONE
            self.sink = self._made()

    def set_write_timestamp_to_kafka(self, write_timestamp_to_kafka: bool) -> None:
        """Whether Kafka's timestamps are the event times; if not, the time of sending."""
        self._timestamps = write_timestamp_to_kafka
        self.sink = self._made()


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """Writes values to one topic. Its transactional ids begin with the topic's name.

    There is no pool of producers to size: as many transactions are open as there are uncommitted checkpoints.
    """

    def __init__(
        self,
        topic: str,
        serialization_schema: Any,
        producer_config: Mapping[str, Any],
        kafka_producer_pool_size: int = 5,
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ) -> None:
        super().__init__(topic, serialization_schema, producer_config, semantic)

    def ignore_failures_after_transaction_timeout(self) -> FlinkKafkaProducer:
        """Nothing to change: a transaction that timed out is logged as a loss, and the job goes on."""
        return self
