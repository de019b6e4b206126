"""The Kafka sink of Flink 1.x, for programs that still have it; new ones take ``KafkaSink``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.connectors.kafka.sink_records import SchemaEncoder
from penstock.connectors.sink import Sink
from penstock.core.errors import ConfigError
from penstock.datastream._wrappers import SinkFunction
from penstock.datastream.connectors._kafka_sink import KafkaSink
from penstock.datastream.connectors.base import DeliveryGuarantee

__all__ = ["FlinkKafkaProducer", "FlinkKafkaProducerBase", "Semantic"]


Semantic = DeliveryGuarantee
"""The guarantees, under their older name."""


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
