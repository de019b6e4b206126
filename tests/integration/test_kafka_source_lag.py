"""Lag and offsets of the Kafka source, as its metrics show them, against a real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from local_jobs import until

from penstock.core.clock import SystemClock
from penstock.core.metrics import MetricGroup
from tests.kafka_kit import TestTopic, splits_of


def test_lag_and_offsets_are_those_of_the_brokers(kafka_server: Any) -> None:
    topic = TestTopic(kafka_server.bootstrap, partitions=2)
    topic.send((f"a{i}" for i in range(30)), partition=0)
    source = topic.source().set_group_id(f"lag-{topic.name}").build()
    group, clock = MetricGroup(), SystemClock()
    first, second = (source.open_split(split, None, clock) for split in splits_of(source))
    first.show(group.part("first"))
    second.show(group.part("second"))

    def polled(condition: Callable[[], bool], rows: int = 10) -> Callable[[], bool]:
        """Until that is so, both partitions are read."""
        return lambda: (first.poll(rows), second.poll(rows), condition())[-1]

    def shown(name: str, partition: int = 0) -> float | None:
        for reader in (first, second):
            reader.pending()
        return group.snapshot().get(f"KafkaSourceReader.topic.{topic.name}.partition.{partition}.{name}")

    until(lambda: first.poll(10) is not None, "the first records are there")
    assert (first.position(), first.pending()) == (10, 20)
    assert (shown("records_lag"), shown("currentOffset"), shown("committedOffset")) == (20, 9, -1)
    assert group.snapshot()["KafkaSourceReader.KafkaConsumer.records_lag_max"] == 20
    until(polled(lambda: first.pending() == second.pending() == 0), "all is read")
    assert shown("currentOffset") == 29 and shown("records_lag", 1) == 0
    first.on_checkpoint_complete(first.position())
    until(polled(lambda: shown("committedOffset") == 30), "the broker has accepted it")
    assert group.snapshot()["KafkaSourceReader.commitsSucceeded"] >= 1
    first.close()
    assert first.pending() is None
    second.close()
