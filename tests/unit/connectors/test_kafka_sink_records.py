"""What arrives in Kafka: topics, keys, values, headers, timestamps and partitions, at every guarantee."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from penstock.common.serialization import RowFieldExtractorSchema, SimpleStringSchema
from penstock.connectors.kafka.sink_records import Headers
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.ids import MIN_TIME
from penstock.core.row import Row
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    FlinkKafkaProducer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaTopicSelector,
    Semantic,
)
from penstock.datastream.connectors.log import Json
from tests.unit.connectors.kafka_sinks import barrier, context, schema_for
from tests.unit.connectors.kafka_topics import new_topic, read


def plain(bootstrap: str, schema: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
    return KafkaSink.builder().set_bootstrap_servers(bootstrap).set_record_serializer(schema)


def written(builder: KafkaSinkBuilder, *batches: Batch) -> None:
    """Write batches and end."""
    sink = builder.build()
    writer = sink.create_writer(context())
    for batch in batches:
        writer.write(batch)
    writer.flush(True)
    writer.close()


class Everything(KafkaRecordSerializationSchema):
    """A record schema in Python that says all there is to say."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def topic(self, value: Any) -> str:
        return self._topic

    def value(self, value: Any) -> bytes | None:
        return None if value == 0 else b"v%d" % value

    def key(self, value: Any) -> bytes | None:
        return b"k%d" % value

    def partition(self, value: Any) -> int | None:
        return None if value == 9 else value % 2

    def headers(self, value: Any) -> Headers | None:
        return None if value == 1 else [("n", b"%d" % value), ("none", None)]

    def timestamp(self, value: Any, event_time: int | None) -> int | None:
        return 5_000 if event_time is None else event_time + 1


def test_a_schema_written_in_python(kafka_server: Any) -> None:
    topic = new_topic(kafka_server.bootstrap)
    written(plain(kafka_server.bootstrap, Everything(topic)), Batch.of_rows([0, 1, 2], [7_000, MIN_TIME, 0]))
    found = {m.key(): m for m in read(kafka_server.bootstrap, topic)}
    assert {key: m.value() for key, m in found.items()} == {b"k0": None, b"k1": b"v1", b"k2": b"v2"}
    assert {key: m.partition() for key, m in found.items()} == {b"k0": 0, b"k1": 1, b"k2": 0}
    assert found[b"k0"].headers() == [("n", b"0"), ("none", None)] and found[b"k1"].headers() is None
    assert [found[key].timestamp()[1] for key in (b"k0", b"k1", b"k2")] == [7_001, 5_000, 1]


def test_topic_selector_keys_and_event_times(kafka_server: Any) -> None:
    """Keys go where a Java producer would put them; all of a key to one partition."""
    even, odd = new_topic(kafka_server.bootstrap), new_topic(kafka_server.bootstrap, partitions=10)

    class EvenOrOdd(KafkaTopicSelector):
        def apply(self, data: Any) -> str:
            return odd if data[0] % 2 else even

    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(EvenOrOdd())
        .set_key_serialization_schema(RowFieldExtractorSchema(1))
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    rows = [Row(n, "21" if n < 4 else "penstock") for n in range(8)]
    written(plain(kafka_server.bootstrap, schema), Batch.of_rows(rows, list(range(100, 108))))
    assert sorted(m.timestamp()[1] for m in read(kafka_server.bootstrap, even)) == [100, 102, 104, 106]
    by_key = {(m.key(), m.partition()) for m in read(kafka_server.bootstrap, odd)}
    # murmur2("21") = -973932308, an example from Kafka's own tests; modulo 10 of its 31 bits
    assert len(by_key) == 2 and (b"21", (-973932308 & 0x7FFFFFFF) % 10) in by_key
    assert schema.topic(Row(1, "a")) == odd and schema.key(Row(1, "a")) == b"a"
    assert schema.serialize(Row(1, "a")) == str(Row(1, "a")).encode()


def test_columns_are_written_as_json_without_rows(kafka_server: Any) -> None:
    topic = new_topic(kafka_server.bootstrap)
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic)
    columns = pa.RecordBatch.from_pydict({"a": list(range(1000)), "b": ["x", None] * 500})
    written(
        plain(kafka_server.bootstrap, schema.set_value_serialization_schema(Json()).build()),
        Batch.of_columns(columns),
    )
    found = [json.loads(m.value()) for m in read(kafka_server.bootstrap, topic)]
    assert sorted(found, key=lambda row: row["a"]) == columns.to_pylist()


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.NONE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_a_full_queue_makes_the_writer_wait(kafka_server: Any, guarantee: DeliveryGuarantee) -> None:
    topic = new_topic(kafka_server.bootstrap)
    builder = plain(kafka_server.bootstrap, schema_for(topic)).set_delivery_guarantee(guarantee)
    builder.set_property("queue.buffering.max.messages", 100).set_property("linger.ms", 0)
    written(builder, Batch.of_rows(list(range(3000))))
    assert len(read(kafka_server.bootstrap, topic)) == 3000


def test_at_least_once_is_acknowledged_on_the_barrier(kafka_server: Any) -> None:
    topic = new_topic(kafka_server.bootstrap)
    builder = plain(kafka_server.bootstrap, schema_for(topic)).set_property("linger.ms", 60_000)
    sink = builder.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build()
    assert sink.create_committer() is None and sink.get_transformer() is None
    writer = sink.create_writer(context())
    writer.write(Batch.of_rows(["a"]))
    assert read(kafka_server.bootstrap, topic) == []
    assert barrier(writer, 1) == []
    assert [m.value() for m in read(kafka_server.bootstrap, topic)] == [b"a"]
    writer.close()


@pytest.mark.parametrize("guarantee", list(DeliveryGuarantee))
def test_a_record_that_is_not_delivered_fails_the_job(
    kafka_server: Any, guarantee: DeliveryGuarantee
) -> None:
    """With the topic and the reason, whatever the guarantee."""
    topic = new_topic(kafka_server.bootstrap)
    builder = plain(kafka_server.bootstrap, schema_for(topic)).set_delivery_guarantee(guarantee)
    builder.set_transactional_id_prefix(topic).set_property("transaction.timeout.ms", 60_000)
    writer = builder.set_property("max.request.size", 3_000_000).build().create_writer(context())
    writer.write(Batch.of_rows(["x" * 2_000_000]))
    with pytest.raises(ConnectorError, match=rf"{topic}.*too large.*max\.request\.size"):
        writer.flush(True)
    writer.close()


def test_a_record_larger_than_the_client_allows(kafka_server: Any) -> None:
    writer = plain(kafka_server.bootstrap, schema_for("t")).build().create_writer(context())
    with pytest.raises(ConnectorError, match=r"max\.request\.size"):
        writer.write(Batch.of_rows(["x" * 2_000_000]))
    writer.close()


def test_what_a_builder_needs() -> None:
    schema = KafkaRecordSerializationSchema.builder
    with pytest.raises(ConfigError, match="set_topic"):
        schema().set_value_serialization_schema(SimpleStringSchema()).build()
    with pytest.raises(ConfigError, match="set_value_serialization_schema"):
        schema().set_topic("t").build()
    with pytest.raises(ConfigError, match="choose it once"):
        schema().set_topic("t").set_topic_selector(lambda row: "t")
    with pytest.raises(ConfigError, match="set_record_serializer"):
        KafkaSink.builder().build()
    with pytest.raises(ConfigError, match="set_bootstrap_servers"):
        KafkaSink.builder().set_record_serializer(schema_for("t")).build()
    once = plain("x:1", schema_for("t")).set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    with pytest.raises(ConfigError, match="set_transactional_id_prefix"):
        once.build()
    with pytest.raises(ConfigError, match="set_transactional_id_prefix"):
        plain("x:1", schema_for("t")).set_property("transactional.id", "mine").build()
    with pytest.raises(NotImplementedError, match="topic"):
        KafkaRecordSerializationSchema().topic("x")


def test_the_producer_of_flink_1(kafka_server: Any) -> None:
    """Times of sending unless event times are asked for; no guarantee without flushes."""
    topic = new_topic(kafka_server.bootstrap)
    servers = {"bootstrap.servers": kafka_server.bootstrap}
    producer = FlinkKafkaProducer(topic, SimpleStringSchema(), servers)
    for with_times in (False, True):
        producer.set_write_timestamp_to_kafka(with_times)
        writer = producer.sink.create_writer(context())
        writer.write(Batch.of_rows([str(with_times)], [5]))
        writer.flush(False)
        writer.close()
    found = {m.value(): m.timestamp()[1] for m in read(kafka_server.bootstrap, topic)}
    assert found[b"True"] == 5 and found[b"False"] > 10**12
    once = FlinkKafkaProducer(topic, SimpleStringSchema(), servers, semantic=Semantic.EXACTLY_ONCE)
    assert once.ignore_failures_after_transaction_timeout().sink.create_committer() is not None
    with pytest.raises(ConfigError, match="not supported"):
        producer.set_log_failures_only(True)


def test_writing_without_flushes_is_no_guarantee(kafka_server: Any) -> None:
    topic = new_topic(kafka_server.bootstrap)
    late = {"bootstrap.servers": kafka_server.bootstrap, "linger.ms": 60_000}
    producer = FlinkKafkaProducer(topic, SimpleStringSchema(), late)
    producer.set_flush_on_checkpoint(False)
    writer = producer.sink.create_writer(context())
    writer.write(Batch.of_rows(["a"]))
    assert barrier(writer, 1) == [] and read(kafka_server.bootstrap, topic) == []
    writer.close()
    # A job that was stopped does not come back for them, and nothing had failed.
    assert [message.value() for message in read(kafka_server.bootstrap, topic)] == [b"a"]
