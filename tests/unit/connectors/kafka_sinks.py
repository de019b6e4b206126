"""Sinks, writers and barriers for tests of the Kafka sink."""

from __future__ import annotations

import uuid
from typing import Any

from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.kafka.client import client_settings
from penstock.connectors.kafka.transactions import TransactionState
from penstock.connectors.kafka.wire import TransactionClient
from penstock.connectors.sink import CommitOutcome, Sink, SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.core.clock import SystemClock
from penstock.core.ids import Epoch
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkBuilder,
)
from tests.unit.connectors.kafka_topics import new_topic

ONGOING = TransactionState.ONGOING


def schema_for(topic: str) -> KafkaRecordSerializationSchema:
    """Text to one topic."""
    builder = KafkaRecordSerializationSchema.builder().set_topic(topic)
    return builder.set_value_serialization_schema(SimpleStringSchema()).build()


def exactly_once(bootstrap: str, topic: str, prefix: str | None = None) -> KafkaSinkBuilder:
    """A builder of sinks of text."""
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(bootstrap)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(prefix or uuid.uuid4().hex[:8])
        .set_property("transaction.timeout.ms", "60000")
        .set_record_serializer(schema_for(topic))
    )


def context(subtask: int = 0, parallelism: int = 1, generation: int = 1, job: str = "job") -> WriterContext:
    """A place for a writer."""
    return WriterContext(
        job, "sink", subtask, parallelism, generation, None, (), True, SystemClock(), lambda _: None
    )


def barrier(writer: SinkWriter, epoch: int) -> list[Any]:
    """What the writer prepares on a barrier."""
    writer.flush(False)
    prepared = writer.prepare_commit(Epoch(epoch))
    writer.snapshot(Epoch(epoch))
    return prepared


def epoch_of(writer: SinkWriter, epoch: int, *values: Any) -> list[Any]:
    """Write some records and take a barrier."""
    writer.write(Batch.of_rows(list(values)))
    return barrier(writer, epoch)


def commit(sink: Sink, prepared: list[Any]) -> list[CommitOutcome]:
    """The outcomes of a new committer."""
    committer = sink.create_committer()
    assert committer is not None
    try:
        return list(committer.commit(prepared))
    finally:
        committer.close()


class Bench:
    """A topic, a sink into it, and a client that looks at transactions."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topic = new_topic(bootstrap)
        self.prefix = uuid.uuid4().hex[:8]
        self.sink = exactly_once(bootstrap, self.topic, self.prefix).build()
        self.client = TransactionClient(client_settings({"bootstrap.servers": bootstrap}))

    def open_ids(self) -> list[str]:
        """Ids of this bench with an open transaction."""
        found = self.client.unfinished()
        return [name for name in found if name.startswith(self.prefix) and found[name] is ONGOING]
