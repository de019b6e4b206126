"""Where a Kafka source starts, which partitions it takes, and what it says if it cannot."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.kafka import admin
from penstock.connectors.source import AtOffset, AtTime
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.ids import MIN_TIME
from penstock.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from penstock.testing.servers import KafkaServer
from penstock.testing.servers.process import free_port
from tests.kafka_kit import T0, TestTopic, read_all, read_split, splits_of
from tests.patience import PATIENCE_S
from tests.servers import skip_without

EARLIEST, LATEST, NONE = (
    KafkaOffsetResetStrategy.EARLIEST,
    KafkaOffsetResetStrategy.LATEST,
    KafkaOffsetResetStrategy.NONE,
)


@pytest.fixture(scope="module")
def topic(kafka_server: Any) -> TestTopic:
    """Ten records in partition 0, a second apart, and four in partition 1."""
    made = TestTopic(kafka_server.bootstrap, partitions=2)
    made.send((str(i) for i in range(10)), 0, times=range(T0, T0 + 10_000, 1000))
    made.send("abcd", 1, times=range(T0, T0 + 4000, 1000))
    return made


@pytest.fixture(scope="module")
def group(topic: TestTopic) -> str:
    """A group that has committed 7 in partition 0, and nothing in partition 1."""
    name = uuid.uuid4().hex
    consumer = Consumer({"bootstrap.servers": topic.bootstrap, "group.id": name})
    consumer.commit(offsets=[TopicPartition(topic.name, 0, 7)], asynchronous=False)
    consumer.close()
    return name


def starts(builder: KafkaSourceBuilder, start: KafkaOffsetsInitializer) -> list[int]:
    return [split.info.start for split in splits_of(builder.set_starting_offsets(start).build())]


def test_earliest_latest_and_a_time(topic: TestTopic) -> None:
    assert starts(topic.source(), KafkaOffsetsInitializer.earliest()) == [0, 0]
    assert starts(topic.source(), KafkaOffsetsInitializer.latest()) == [10, 4]
    assert starts(topic.source(), KafkaOffsetsInitializer.timestamp(T0 + 2001)) == [3, 3]
    assert starts(topic.source(), KafkaOffsetsInitializer.timestamp(T0 + 5000)) == [5, 4]
    assert [split.info.start for split in splits_of(topic.source().build())] == [0, 0]


def test_committed_offsets_and_what_to_do_without(topic: TestTopic, group: str) -> None:
    committed = KafkaOffsetsInitializer.committed_offsets
    assert starts(topic.source().set_group_id(group), committed(EARLIEST)) == [7, 0]
    assert starts(topic.source().set_group_id(group), committed(LATEST)) == [7, 4]
    with pytest.raises(ConnectorError, match="partition 1 has no offset to start from"):
        starts(topic.source().set_group_id(group), committed())
    assert starts(topic.source(), committed(EARLIEST)) == [0, 0]


def test_given_offsets(topic: TestTopic, group: str) -> None:
    zero, one = KafkaTopicPartition(topic.name, 0), KafkaTopicPartition(topic.name, 1)
    assert starts(topic.source(), KafkaOffsetsInitializer.offsets({zero: 3, one: 4})) == [3, 4]
    assert starts(topic.source().set_group_id(group), KafkaOffsetsInitializer.offsets({one: 2})) == [7, 2]
    assert starts(topic.source(), KafkaOffsetsInitializer.offsets({one: 2}, LATEST)) == [10, 2]


def test_offsets_out_of_range_are_reset_or_refused(topic: TestTopic) -> None:
    beyond = {KafkaTopicPartition(topic.name, 0): 11, KafkaTopicPartition(topic.name, 1): 0}
    assert starts(topic.source(), KafkaOffsetsInitializer.offsets(beyond)) == [0, 0]
    assert starts(topic.source(), KafkaOffsetsInitializer.offsets(beyond, LATEST)) == [10, 0]
    strict = topic.source().set_starting_offsets(KafkaOffsetsInitializer.offsets(beyond, NONE)).build()
    with pytest.raises(ConnectorError, match=r"offset 11 is out of range \(the partition holds 0 to 10\)"):
        strict.check()


def test_latest_counts_only_what_may_be_read(kafka_server: Any) -> None:
    topic = TestTopic(kafka_server.bootstrap)
    topic.send(["a"])
    left_open = topic.begin([(0, "open")])
    topic.send(["behind"])
    latest = KafkaOffsetsInitializer.latest()
    assert starts(topic.source(), latest) == [1]
    assert starts(topic.source().set_property("isolation.level", "read_uncommitted"), latest) == [3]
    left_open.abort_transaction(10)


def test_topics_patterns_and_partitions(topic: TestTopic, kafka_server: Any) -> None:
    other = TestTopic(kafka_server.bootstrap, partitions=3)

    def ids(choose: Any) -> list[str]:
        builder = KafkaSource.builder().set_bootstrap_servers(topic.bootstrap)
        choose(builder.set_value_only_deserializer(SimpleStringSchema()))
        return [split.id for split in splits_of(builder.build())]

    both = sorted([f"{topic.name}-{i}" for i in range(2)] + [f"{other.name}-{i}" for i in range(3)])
    assert ids(lambda b: b.set_topics(topic.name, other.name)) == both
    assert ids(lambda b: b.set_topic_pattern(f"({topic.name}|{other.name[:-1]}.)")) == both
    assert ids(lambda b: b.set_topic_pattern(topic.name[:-1])) == []
    assert ids(lambda b: b.set_partitions({KafkaTopicPartition(other.name, 2)})) == [f"{other.name}-2"]


def test_partitions_found_later_are_read_from_their_beginning(kafka_server: Any) -> None:
    topic = TestTopic(kafka_server.bootstrap)
    topic.send(["old"])
    source = topic.source().set_starting_offsets(KafkaOffsetsInitializer.latest()).build()
    assert source.discovery_interval_ms == 300_000
    enumerator = source.create_enumerator(1)
    assert [(split.id, split.info.start) for split in enumerator.discover()] == [(f"{topic.name}-0", 1)]
    topic.grow(2)
    topic.send(["new"], 1)
    restored = source.create_enumerator(1)
    restored.restore(enumerator.snapshot())
    for each in (enumerator, restored):
        deadline = time.monotonic() + PATIENCE_S
        found: list[Any] = []
        while not found and time.monotonic() < deadline:
            found = [(split.id, split.info.start) for split in each.discover()]
        assert found == [(f"{topic.name}-1", 0)]
        assert list(each.discover()) == []


def test_discovery_is_off_on_demand_and_in_bounded_sources(topic: TestTopic) -> None:
    interval = "partition.discovery.interval.ms"
    assert topic.source().set_property(interval, "0").build().discovery_interval_ms is None
    assert topic.source().set_property(interval, "1000").build().discovery_interval_ms == 1000
    assert topic.bounded().set_property(interval, "1000").build().discovery_interval_ms is None


def test_the_consumer_of_old_starts_where_its_group_is(topic: TestTopic, group: str) -> None:
    properties = {"bootstrap.servers": topic.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = FlinkKafkaConsumer(topic.name, SimpleStringSchema(), properties)
    assert [split.info.start for split in splits_of(consumer.source)] == [7, 0]
    assert consumer.source.discovery_interval_ms is None
    assert [s.info.start for s in splits_of(consumer.set_start_from_latest().source)] == [10, 4]
    assert [s.info.start for s in splits_of(consumer.set_start_from_earliest().source)] == [0, 0]
    assert [s.info.start for s in splits_of(consumer.set_start_from_timestamp(T0 + 1000).source)] == [1, 1]


def test_a_job_without_checkpoints_goes_on_at_the_end(topic: TestTopic) -> None:
    source = topic.bounded().build()
    assert [source.from_end(split).info.start for split in splits_of(source)] == [10, 4]
    early = topic.source().set_bounded(KafkaOffsetsInitializer.timestamp(T0 + 1000)).build()
    assert [early.from_end(split).info.start for split in splits_of(early)] == [1, 1]
    assert read_all(early) == ["0", "a"]


def test_a_piece_of_the_past_is_read_between_offsets_and_times(topic: TestTopic) -> None:
    source = topic.source().build()
    split = splits_of(source)[0]
    assert source.end_offset(split) == 10
    assert read_split(source, source.between(split, AtTime(T0 + 4000), 6)) == ["4", "5"]
    assert read_split(source, source.between(split, AtOffset(8), source.end_offset(split))) == ["8", "9"]
    assert read_split(source, source.between(split, None, 1)) == ["0"]
    late = topic.source().set_starting_offsets(KafkaOffsetsInitializer.latest()).build()
    split = splits_of(late)[0]
    assert split.info.start == 10
    assert read_split(late, late.between(split, AtTime(MIN_TIME), 2)) == ["0", "1"], "the first there is"


def test_a_missing_topic_or_partition_is_named(topic: TestTopic) -> None:
    with pytest.raises(ConnectorError, match="there is no Kafka topic 'no-such-topic'"):
        topic.source().set_topics("no-such-topic").build().check()
    partitions = KafkaSource.builder().set_bootstrap_servers(topic.bootstrap)
    partitions.set_partitions([KafkaTopicPartition(topic.name, 5)])
    source = partitions.set_value_only_deserializer(SimpleStringSchema()).build()
    with pytest.raises(ConnectorError, match="has no partition 5; it has 2"):
        source.check()
    pattern = KafkaSource.builder().set_bootstrap_servers(topic.bootstrap).set_topic_pattern("no-.*-such")
    pattern.set_value_only_deserializer(SimpleStringSchema())
    pattern.build().check()  # a matching topic may come
    with pytest.raises(ConfigError, match="no topics like 'no-.\\*-such'"):
        pattern.set_bounded(KafkaOffsetsInitializer.latest()).build().check()


def test_brokers_that_do_not_answer_are_named_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_PATIENCE_S", 10_000.0)  # who waits for it does not come back
    source = KafkaSource.builder().set_bootstrap_servers("127.0.0.1:1").set_topics("t")
    with pytest.raises(ConnectorError, match=r"brokers at 127\.0\.0\.1:1 do not answer .*refused"):
        source.set_value_only_deserializer(SimpleStringSchema()).build().check()


class GuardedKafka(KafkaServer):
    """A broker that wants a password at a port of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.guarded = f"{self.host}:{free_port()}"
        places = f"PLAINTEXT://{self.bootstrap},LOGIN://{self.guarded}"
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        self._settings = {
            "listeners": f"{places},CONTROLLER://{self.host}:{self._controller}",
            "advertised.listeners": places,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": f'{login} user_alice="alice-secret";',
        }


@pytest.fixture(scope="module")
def guarded() -> Iterator[GuardedKafka]:
    skip_without(GuardedKafka)
    with GuardedKafka() as server:
        yield server


def test_a_refused_login_says_so_and_shows_no_password(
    guarded: GuardedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    def source(password: str) -> KafkaSource:
        builder = KafkaSource.builder().set_bootstrap_servers(guarded.guarded).set_topic_pattern(".*")
        jaas = f'org.apache...PlainLoginModule required username="alice" password="{password}";'
        builder.set_property("security.protocol", "SASL_PLAINTEXT").set_property("sasl.mechanism", "PLAIN")
        builder.set_property("sasl.jaas.config", jaas)
        return builder.set_value_only_deserializer(SimpleStringSchema()).build()

    source("alice-secret").check()
    monkeypatch.setattr(admin, "_PATIENCE_S", 10_000.0)  # who waits for it does not come back
    with pytest.raises(ConnectorError, match="refused the login .*Check security.protocol") as error:
        source("guessed-wrong").check()
    assert "guessed-wrong" not in f"{error.value!r}{source('guessed-wrong')!r}"


def test_a_broker_that_dies_is_waited_for(guarded: GuardedKafka) -> None:
    """The last test here, since it kills the broker: reading goes on where it was."""
    topic = TestTopic(guarded.bootstrap)
    topic.send(["a", "b"])
    source = topic.source().build()
    enumerator = source.create_enumerator(1)
    [split] = enumerator.discover()
    reader = source.open_split(split, None, SystemClock())
    found: list[str] = []

    def read(until: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < until and time.monotonic() < deadline:
            batch = reader.poll(100)
            found.extend(batch.to_rows() if batch is not None else [])
            time.sleep(0.001)

    read(until=2)
    guarded.kill()
    for _ in range(100):
        assert reader.poll(100) is None
        time.sleep(0.005)
    assert list(enumerator.discover()) == []
    guarded.restart()
    topic.send(["c"])
    read(until=3)
    reader.close()
    assert found == ["a", "b", "c"]
