"""Kafka to Kafka through twenty ``kill -9``: each record once, or at least once, as the sink promises."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from drivers import Driver
from processes import command_line, descendants, kill
from progress import until

from tests.patience import PATIENCE_S
from tests.unit.connectors.kafka_topics import new_topic, read

pytestmark = [pytest.mark.spark, pytest.mark.kills]

WORKERS, DRIVERS = 17, 3
PAUSE_S = 0.002


class Feeder(threading.Thread):
    """Writes numbers into a topic, some hundred a second, until told to stop."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._topic = topic
        self._over = threading.Event()
        self.count = 0

    def run(self) -> None:
        while not self._over.wait(PAUSE_S):
            self._producer.produce(self._topic, str(self.count), partition=self.count % 2)
            self.count += 1
            self._producer.poll(0)

    def stop(self) -> int:
        """How many were written."""
        self._over.set()
        self.join()
        assert self._producer.flush(PATIENCE_S) == 0
        return self.count


class Committed:
    """Counts what a ``read_committed`` consumer of a topic has seen so far."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings = {"group.id": topic, "isolation.level": "read_committed", "fetch.wait.max.ms": 20}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "enable.auto.commit": False, **settings})
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(2)])
        self.seen = 0

    def wait_for_more(self, driver: Driver, timeout_s: float = PATIENCE_S) -> None:
        """Wait until something more is committed than there is now."""
        while self._read():
            pass
        self.wait_for(self.seen + 1, driver, timeout_s)

    def wait_for(self, count: int, driver: Driver, timeout_s: float = PATIENCE_S) -> None:
        """Wait until that many records are committed."""
        deadline = time.monotonic() + timeout_s
        while self.seen < count:
            assert time.monotonic() < deadline and driver.process.poll() is None, driver.text
            self._read()

    def _read(self) -> int:
        found = sum(message.error() is None for message in self._consumer.consume(10_000, 0.05))
        self.seen += found
        return found


def workers(driver: Driver) -> list[int]:
    """Those that run tasks: not the daemon above them, without which they could not be found."""
    daemons = [pid for pid in driver.pids() if " -m penstock.spark.daemon" in command_line(pid)]
    return sorted({worker for daemon in daemons for worker in descendants(daemon)})


def disturb(work: Path, arguments: tuple[object, ...], committed: Committed, feeder: Feeder) -> None:
    """Kill workers and drivers, each as soon as the job commits again and a random moment has passed."""
    chance = random.Random(20)
    killed = 0
    for _ in range(DRIVERS + 1):
        with Driver(work, "kafka_copy.py", "local[2]", work, *arguments) as driver:
            for _ in range(WORKERS // (DRIVERS + 1) + 1):
                if killed == WORKERS:
                    break
                committed.wait_for_more(driver)
                time.sleep(chance.uniform(0, 0.4))
                kill(chance.choice(until(partial(workers, driver), "there are workers")))
                killed += 1
            committed.wait_for_more(driver)
            if killed == WORKERS:
                committed.wait_for(feeder.stop(), driver)
            else:
                time.sleep(chance.uniform(0, 0.4))
            driver.kill_all()
    assert killed == WORKERS


def test_twenty_kills(tmp_path: Path, kafka_server: Any) -> None:
    bootstrap = kafka_server.bootstrap
    source, once, often = (new_topic(bootstrap) for _ in range(3))
    feeder = Feeder(bootstrap, source)
    feeder.start()
    disturb(tmp_path, (bootstrap, source, once, often), Committed(bootstrap, once), feeder)
    every = Counter(str(number) for number in range(feeder.count))
    assert Counter(m.value().decode() for m in read(bootstrap, once)) == every
    uncommitted = Counter(m.value().decode() for m in read(bootstrap, once, committed=False))
    assert uncommitted > every, "transactions that were cut off are there for those who want to see them"
    assert set(m.value().decode() for m in read(bootstrap, often)) == set(every)
