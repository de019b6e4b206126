"""The Kafka sink passes the suite for exactly-once sinks, on a real broker."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.kafka.client import client_settings
from penstock.connectors.kafka.transactions import TransactionState
from penstock.connectors.kafka.wire import TransactionClient
from penstock.connectors.sink import Sink
from penstock.datastream.connectors._kafka_sink import KafkaRecordSerializationSchema, KafkaSink
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.testing.conformance.sink_suite import SinkConformance
from tests.unit.connectors.kafka_topics import new_topic, read


class TestKafkaSinkConforms(SinkConformance):
    """Readers are ``read_committed``; what is prepared and open counts as left over."""

    @pytest.fixture(autouse=True)
    def _broker(self, kafka_server: Any) -> None:
        self.bootstrap = kafka_server.bootstrap
        self.prefix = uuid.uuid4().hex[:8]

    def make_sink(self, directory: Path) -> Sink:
        self.topic = new_topic(self.bootstrap)
        schema = KafkaRecordSerializationSchema.builder().set_topic(self.topic)
        return (
            KafkaSink.builder()
            .set_bootstrap_servers(self.bootstrap)
            .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .set_transactional_id_prefix(self.prefix)
            .set_property("transaction.timeout.ms", "60000")
            .set_record_serializer(schema.set_value_serialization_schema(SimpleStringSchema()).build())
            .build()
        )

    def visible(self, sink: Sink, directory: Path) -> list[Any]:
        return [message.value() for message in read(self.bootstrap, self.topic)]

    def leftovers(self, directory: Path) -> list[Any]:
        client = TransactionClient(client_settings({"bootstrap.servers": self.bootstrap}))
        try:
            found = client.unfinished()
        finally:
            client.close()
        mine = [name for name in found if name.startswith(self.prefix)]
        return [name for name in mine if found[name] is TransactionState.ONGOING]
