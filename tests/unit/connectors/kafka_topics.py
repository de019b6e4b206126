"""Topics for tests of the Kafka sink, and what readers see in them."""

from __future__ import annotations

import uuid
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.patience import PATIENCE_S


def new_topic(bootstrap: str, partitions: int = 2) -> str:
    """A topic nobody else has."""
    name = f"sink-{uuid.uuid4().hex[:10]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        made.result(PATIENCE_S)
    return name


def read(bootstrap: str, topic: str, committed: bool = True) -> list[Any]:
    """All messages a reader sees now, as the client gives them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
        }
    )
    partitions = list(consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    found: list[Any] = []
    at_end: set[int] = set()
    while len(at_end) < len(partitions):
        for message in consumer.consume(10_000, 0.1):
            if message.error() is None:
                found.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                at_end.add(message.partition())
    consumer.close()
    return found
