"""How far behind a consumer is: what the last fetch said, and what brokers say when nothing is fetched."""

import threading
import time

import pytest

pytest.importorskip("confluent_kafka")

from penstock.connectors.kafka.lag import ConsumerLag
from penstock.connectors.kafka.offsets import KafkaTopicPartition

P0, P1 = KafkaTopicPartition("t", 0), KafkaTopicPartition("t", 1)


class FakeConsumer:
    def __init__(self):
        self.fetched, self.real, self.asked, self.closed = {}, {}, threading.Event(), False

    def get_watermark_offsets(self, at, timeout=None, cached=False):
        assert not self.closed
        if cached:
            return 0, self.fetched.get(at.partition, -1001)
        self.asked.set()
        return 0, self.real[at.partition]

    def close(self):
        self.closed = True


def test_lag_is_unknown_until_something_was_fetched():
    consumer = FakeConsumer()
    lag = ConsumerLag(consumer)
    assert lag.look(P0, 5, None) is None and lag.records(P0) is None and lag.most() is None
    consumer.fetched = {0: 20, 1: 9}
    assert (lag.look(P0, 5, None), lag.look(P1, 9, None)) == (15, 0)
    assert lag.look(P0, 5, 8) == 3, "what is behind the end of a bounded read is not pending"
    assert lag.look(P0, 25, None) == 0
    lag.look(P0, 5, None)
    assert lag.records(P0) == lag.most() == 15
    lag.forget(P0)
    assert lag.records(P0) is None and lag.most() == 0


def test_brokers_are_asked_when_nothing_is_fetched_any_more():
    consumer = FakeConsumer()
    lag = ConsumerLag(consumer)
    consumer.fetched, consumer.real = {0: 20}, {0: 500}
    while not consumer.asked.is_set():
        assert lag.look(P0, 5, None) in (15, 495)
    while lag._asking:
        time.sleep(0.001)
    assert lag.look(P0, 5, None) == 495
    consumer.fetched = {0: 30}
    assert lag.look(P0, 5, None) == 25, "a newer fetch knows better"
    lag.close()
    assert consumer.closed


def test_nobody_is_asked_where_nothing_is_pending():
    consumer = FakeConsumer()
    lag = ConsumerLag(consumer)
    consumer.fetched = {0: 20}
    for _ in range(100):
        lag.look(P0, 20, None)
        lag.look(P1, 3, 3)
    assert not consumer.asked.is_set()


class Committed:
    def __init__(self, partition, offset, error=None):
        self.topic, self.partition, self.offset, self.error = "t", partition, offset, error


def test_commits_are_counted_and_remembered():
    lag = ConsumerLag(FakeConsumer())
    assert lag.committed(P0) == -1
    lag.on_commit(None, [Committed(0, 12), Committed(1, 7, error="no")])
    lag.on_commit("broken", [Committed(0, 30)])
    assert (lag.committed(P0), lag.committed(P1)) == (12, -1)
    assert (lag.commits_succeeded, lag.commits_failed) == (1, 1)
