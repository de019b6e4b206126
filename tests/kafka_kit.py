"""Topics with known contents, and Kafka sources to read them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.source import EndOfSplit, Source, Split
from penstock.core.clock import SystemClock
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource, KafkaSourceBuilder
from tests.patience import PATIENCE_S

TIMEOUT_S = PATIENCE_S
T0 = 1_700_000_000_000


class TestTopic:
    """A topic nobody else has."""

    __test__ = False

    def __init__(self, bootstrap: str, partitions: int = 1) -> None:
        self.bootstrap = bootstrap
        self.name = f"source-{uuid.uuid4().hex[:10]}"
        self._producer: Producer | None = None
        # The records of tests are old, and the broker must not take that for a reason to delete them.
        topic = NewTopic(self.name, partitions, 1, config={"retention.ms": "-1"})
        # Not kept: it would go on to look for the broker when the tests are over.
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([topic])[self.name].result(TIMEOUT_S)

    def grow(self, partitions: int) -> None:
        """More partitions."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_partitions([NewPartitions(self.name, partitions)])[self.name].result(TIMEOUT_S)

    def delete_before(self, offset: int, partition: int = 0) -> None:
        """Let records go, as retention does."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for done in admin.delete_records([TopicPartition(self.name, partition, offset)]).values():
            done.result(TIMEOUT_S)

    def make_anew(self, partitions: int = 1) -> None:
        """Delete the topic and create one of the same name."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.delete_topics([self.name])[self.name].result(TIMEOUT_S)
        while True:
            try:
                topic = NewTopic(self.name, partitions, 1, config={"retention.ms": "-1"})
                admin.create_topics([topic])[self.name].result(TIMEOUT_S)
                break
            except KafkaException as error:  # the brokers take a moment to forget it
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
        while self.name not in admin.list_topics(timeout=TIMEOUT_S).topics:
            time.sleep(0.01)  # created is not yet told to everybody

    def send(
        self,
        values: Iterable[bytes | str | None],
        partition: int = 0,
        times: Iterable[int] | None = None,
        **more: Any,
    ) -> None:
        """Records, outside any transaction, at T0 and the following milliseconds."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0})
        stamps = iter(times) if times is not None else iter(range(T0, T0 + 1_000_000_000))
        for value in values:
            producer.produce(self.name, value, partition=partition, timestamp=next(stamps), **more)
        assert producer.flush(TIMEOUT_S) == 0

    def transaction(self, values: Sequence[tuple[int, str]], commit: bool) -> None:
        """Pairs of partition and value, committed or aborted."""
        if self._producer is None:
            self._producer = self.transactional()
        producer = self.begin(values, self._producer)
        if commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)

    def transactional(self) -> Producer:
        """A producer for transactions. Making one takes a while; many may be at work."""
        settings = {"transactional.id": uuid.uuid4().hex, "transaction.timeout.ms": int(TIMEOUT_S * 1000)}
        producer = Producer({"bootstrap.servers": self.bootstrap, **settings})
        producer.init_transactions(TIMEOUT_S)
        return producer

    def begin(self, values: Sequence[tuple[int, str]], producer: Producer | None = None) -> Producer:
        """Pairs of partition and value in a transaction that stays open."""
        producer = producer or self.transactional()
        producer.begin_transaction()
        for index, (partition, value) in enumerate(values):
            producer.produce(self.name, value, partition=partition, timestamp=T0 + index)
        assert producer.flush(TIMEOUT_S) == 0
        return producer

    def source(self) -> KafkaSourceBuilder:
        """A builder for this topic's text."""
        return (
            KafkaSource.builder()
            .set_bootstrap_servers(self.bootstrap)
            .set_topics(self.name)
            .set_value_only_deserializer(SimpleStringSchema())
        )

    def bounded(self) -> KafkaSourceBuilder:
        """The same up to what is there now."""
        return self.source().set_bounded(KafkaOffsetsInitializer.latest())


def splits_of(source: Source) -> list[Split]:
    """All splits."""
    return list(source.create_enumerator(1).discover())


def read_split(source: Source, split: Split, max_rows: int = 1000) -> list[Any]:
    """All records of a split, in real time."""
    reader = source.open_split(split, None, SystemClock())
    found: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while time.monotonic() < deadline:
            batch = reader.poll(max_rows)
            if batch is None:
                time.sleep(0.001)
            else:
                found += batch.to_rows()
    except EndOfSplit:
        return found
    finally:
        reader.close()
    raise AssertionError(f"{split} has no end; so far {found}")


def read_all(source: Source) -> list[Any]:
    """All records of a bounded source, split by split."""
    return [record for split in splits_of(source) for record in read_split(source, split)]
