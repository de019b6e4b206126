"""Topics for tests of the Kafka sink, and what readers see in them."""

from __future__ import annotations

import time
import uuid
from contextlib import closing
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient

from tests.patience import PATIENCE_S


def new_topic(bootstrap: str, partitions: int = 2) -> str:
    """A topic nobody else has."""
    name = f"sink-{uuid.uuid4().hex[:10]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        made.result(PATIENCE_S)
    return name


def await_marks(bootstrap: str) -> None:
    """Until transactions that were ended are so for readers: the coordinator answers before it marks them."""
    deadline = time.monotonic() + PATIENCE_S
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        while any(admin.list_transactions(state_filters=["PrepareCommit", "PrepareAbort"]).values()):
            assert time.monotonic() < deadline, "the marks of transactions are missing"
            time.sleep(0.01)


def read(bootstrap: str, topic: str, committed: bool = True) -> list[Any]:
    """All messages a reader sees once what was ended before is marked, as the client gives them."""
    if committed:
        await_marks(bootstrap)
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
