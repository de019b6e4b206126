"""How far behind the readers of one consumer are: what is known, without waiting for brokers.

Brokers say with every fetch where a partition ends, and the client remembers it.  A client that fetches no
more, because nobody takes what it has, hears nothing: then they are asked, now and then, on another thread.
"""

from __future__ import annotations

import contextlib
from threading import Lock, Thread
from typing import Any

from penstock.connectors.kafka.offsets import KafkaTopicPartition
from penstock.core.optional import require

_QUIET_LOOKS = 10
"""So often in a row the end of a partition that has more may be the same before brokers are asked."""
_LOOKUP_S = 10.0
NEVER = -1
"""Flink's committed offset before there is one."""


class ConsumerLag:
    """Of one consumer. Readers look about once a second, on the task's thread."""

    def __init__(self, consumer: Any) -> None:
        self._partition = require("confluent_kafka", "kafka").TopicPartition
        self._consumer = consumer
        self._records: dict[KafkaTopicPartition, int] = {}
        self._seen: dict[KafkaTopicPartition, tuple[int, int]] = {}
        """The end as of the last fetch, and in how many looks it was the same."""
        self._asked: dict[KafkaTopicPartition, tuple[int, int]] = {}
        """What brokers answered, and the end as of the last fetch at that time."""
        self._committed: dict[KafkaTopicPartition, int] = {}
        self._alive = Lock()
        self._asking = False
        self._closed = False
        self.commits_succeeded = 0
        self.commits_failed = 0

    def look(self, where: KafkaTopicPartition, offset: int, stop: int | None) -> int | None:
        """How many records there are from ``offset`` on, up to ``stop``; ``None`` if it is not known yet."""
        _, end = self._consumer.get_watermark_offsets(self._partition(*where), cached=True)
        if end < 0 or offset < 0:
            return None
        last, quiet = self._seen.get(where, (end, 0))
        self._seen[where] = end, quiet + 1 if last == end else 0
        answer, fetched = self._asked.get(where, (end, end))
        known = answer if fetched == end else end
        if stop is not None:
            known = min(known, stop)
        lag: int = max(0, known - offset)
        self._records[where] = lag
        if lag and quiet >= _QUIET_LOOKS and (stop is None or known < stop) and not self._asking:
            self._seen[where] = end, 0
            self._asking = True
            Thread(target=self._ask, args=(where, end), name="kafka-lag", daemon=True).start()
        return lag

    def records(self, where: KafkaTopicPartition) -> int | None:
        """What the last look found."""
        return self._records.get(where)

    def most(self) -> int | None:
        """The most of any partition."""
        return max(list(self._records.values()), default=None)

    def forget(self, where: KafkaTopicPartition) -> None:
        """The partition is read no more."""
        for known in (self._records, self._seen, self._asked, self._committed):
            known.pop(where, None)

    def committed(self, where: KafkaTopicPartition) -> int:
        """The offset that brokers have accepted last."""
        return self._committed.get(where, NEVER)

    def on_commit(self, error: Any, partitions: list[Any]) -> None:
        """Brokers have answered a commit."""
        if error is None:
            self.commits_succeeded += 1
            for one in partitions:
                if one.error is None:
                    self._committed[KafkaTopicPartition(one.topic, one.partition)] = one.offset
        else:
            self.commits_failed += 1

    def close(self) -> None:
        """Close the consumer, when nobody asks it any more. Waits."""
        with self._alive:
            self._closed = True
            self._consumer.close()

    def _ask(self, where: KafkaTopicPartition, fetched: int) -> None:
        kafka = require("confluent_kafka", "kafka")
        with self._alive, contextlib.suppress(kafka.KafkaException, RuntimeError):
            if not self._closed:
                at = self._partition(*where)
                _, end = self._consumer.get_watermark_offsets(at, timeout=_LOOKUP_S)
                if where in self._seen:
                    self._asked[where] = end, fetched
        self._asking = False
