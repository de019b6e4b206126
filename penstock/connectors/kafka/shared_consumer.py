"""One consumer for all partitions that a subtask reads.

A consumer has threads, connections and a prefetch queue of its own, so there is one and not one per
partition (measured in docs/design/014-kafka.md).  Messages are sorted into a lane per partition.  A lane
that its reader does not empty, because watermark alignment holds the split back, is paused at the consumer:
it must not stand in the way of the others, nor grow.
"""

from __future__ import annotations

from threading import Thread
from typing import Any

from penstock.connectors.kafka.client import BOOTSTRAP, ClientKind, ClientSettings, Trouble, log, new_client
from penstock.connectors.kafka.lag import ConsumerLag
from penstock.connectors.kafka.offsets import KafkaTopicPartition
from penstock.core.optional import require

_PATIENCE = 8
"""For how many rounds a full lane may be passed over before it is paused."""


class _PartitionBuffer:
    __slots__ = ("messages", "passed_over", "paused")

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.passed_over = 0
        self.paused = False


class SharedConsumer:
    """Messages of several partitions out of one consumer. Used by the readers of one task, on its thread."""

    def __init__(self, settings: ClientSettings) -> None:
        self._partition = require("confluent_kafka", "kafka").TopicPartition
        self._servers = settings[BOOTSTRAP]
        self._trouble = Trouble()
        self._consumer = new_client(
            ClientKind.CONSUMER, ClientSettings(settings, on_commit=self._committed), self._trouble
        )
        self.lag = ConsumerLag(self._consumer)
        self._not_committed: str | None = None
        self._lanes: dict[KafkaTopicPartition, _PartitionBuffer] = {}
        self._waiting = 0
        """Messages in all lanes that are not paused."""
        self._refusals = 0
        self._only: _PartitionBuffer | None = None
        """The lane, as long as there has been only one: then nothing is to be sorted."""
        self._to_commit: dict[KafkaTopicPartition, int] = {}
        self.is_closed = False

    def __contains__(self, where: KafkaTopicPartition) -> bool:
        return where in self._lanes

    def add(self, where: KafkaTopicPartition, offset: int) -> None:
        """Begin to read a partition."""
        lane = _PartitionBuffer()
        self._only = lane if self._only is None and not self._lanes else None
        self._lanes[where] = lane
        self._consumer.incremental_assign([self._partition(*where, offset)])

    def remove(self, where: KafkaTopicPartition) -> None:
        """Read a partition no more; with the last one the consumer is closed."""
        lane = self._lanes.pop(where)
        self.lag.forget(where)
        if not lane.paused:
            self._waiting -= len(lane.messages)
        if not self._lanes:
            self._commit()
            # Closing waits for the answer to a commit: 45 s, if the brokers are gone.
            Thread(target=self.lag.close, name="kafka-close", daemon=True).start()
            self.is_closed = True
        else:
            self._consumer.incremental_unassign([self._partition(*where)])

    def move(self, where: KafkaTopicPartition, offset: int) -> None:
        """Go on reading a partition at another place."""
        self._consumer.incremental_unassign([self._partition(*where)])
        self._consumer.incremental_assign([self._partition(*where, offset)])

    def bounds(self, where: KafkaTopicPartition, timeout_s: float) -> tuple[int, int]:
        """First offset of a partition and the one behind its last. Blocks."""
        kafka = require("confluent_kafka", "kafka")
        try:
            first, end = self._consumer.get_watermark_offsets(self._partition(*where), timeout=timeout_s)
        except kafka.KafkaException as e:
            raise self._trouble.explain("offsets cannot be looked up", self._servers, e.args[0]) from None
        return first, end

    def take(self, where: KafkaTopicPartition, max_rows: int) -> list[Any]:
        """The next messages of a partition, errors and ends among them; never blocks."""
        lane = self._lanes[where]
        lane.passed_over = 0
        if not lane.messages:
            self._fill(max_rows)
        elif lane.paused:
            lane.paused = False
            self._waiting += len(lane.messages)
            self._consumer.resume([self._partition(*where)])
        messages = lane.messages
        if len(messages) <= max_rows:
            lane.messages = []
        else:
            lane.messages = messages[max_rows:]
            messages = messages[:max_rows]
        self._waiting -= len(messages)
        return messages

    def commit_later(self, where: KafkaTopicPartition, offset: int) -> None:
        """Tell the brokers, for information, how far a published snapshot is."""
        self._to_commit[where] = offset

    def _fill(self, max_rows: int) -> None:
        if self._to_commit:
            self._commit()
        if self._waiting >= max_rows and not self._pass_over(max_rows):
            return
        messages = self._consumer.consume(max_rows, 0)
        if self._only is not None:
            self._only.messages += messages
            self._waiting += len(messages)
            return
        lanes = self._lanes
        for message in messages:
            lane = lanes.get((message.topic(), message.partition()))  # type: ignore[call-overload]
            if lane is not None:
                lane.messages.append(message)
                self._waiting += not lane.paused

    def _pass_over(self, max_rows: int) -> bool:
        """Once a round, pause lanes that nobody empties; whether there is room then."""
        self._refusals += 1
        if self._refusals % len(self._lanes):
            return False
        for where, lane in self._lanes.items():
            if lane.messages and not lane.paused:
                lane.passed_over += 1
                if lane.passed_over > _PATIENCE:
                    lane.paused = True
                    self._waiting -= len(lane.messages)
                    self._consumer.pause([self._partition(*where)])
        return self._waiting < max_rows

    def _commit(self) -> None:
        offsets = [self._partition(*where, offset) for where, offset in self._to_commit.items()]
        self._to_commit = {}
        if offsets:
            try:
                self._consumer.commit(offsets=offsets, asynchronous=True)
            except require("confluent_kafka", "kafka").KafkaException as e:
                self._committed(e.args[0], offsets)

    def _committed(self, error: Any, partitions: list[Any]) -> None:
        """The brokers answered a commit. A failure is only told, once: positions are in the snapshots."""
        self.lag.on_commit(error, partitions)
        why = None if error is None else error.str()
        if why not in (None, self._not_committed):
            log.warning("offsets of %d partitions could not be committed: %s", len(partitions), why)
        self._not_committed = why
