"""What the driver asks the brokers: which partitions there are, and which offsets they have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from penstock.connectors.kafka.client import (
    BOOTSTRAP,
    ClientKind,
    ClientSettings,
    Trouble,
    new_client,
)
from penstock.connectors.kafka.offsets import KafkaTopicPartition, Offsets
from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import ConnectorError
from penstock.core.optional import require
from penstock.core.retrying import retry, steadily

T = TypeVar("T")

_PATIENCE_S = 8.0
_PATIENCE_WHEN_REFUSED_S = 3.0
_ROUND_S = 0.5
_PAUSE_S = 0.1
_PASSING = {
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "LEADER_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "NOT_LEADER_FOR_PARTITION",
    "UNKNOWN_TOPIC_OR_PART",
}
"""What brokers say of a partition or group that is new or being moved."""
_NO_IDS = ("", "None", "AAAAAAAAAAAAAAAAAAAAAA")
"""What brokers before 3.1 say."""
READ_COMMITTED = "read_committed"
_CONNECTION = ("bootstrap.", "security.", "sasl.", "ssl.", "client.", "socket.", "broker.", "reconnect.")


class Brokers:
    """Asks the brokers, with the settings of the source's consumers. Implements ``OffsetLookup``.

    Every question takes at most some seconds; no answer is a :class:`ConnectorError` that says why.
    """

    def __init__(self, settings: ClientSettings, group: str | None, clock: Clock | None = None) -> None:
        self._kafka = require("confluent_kafka", "kafka")
        self._admin_module = require("confluent_kafka.admin", "kafka")
        self._clock = clock or SystemClock()
        self._group = group
        self._servers = settings[BOOTSTRAP]
        isolation = self._kafka.IsolationLevel
        committed = settings.get("isolation.level", READ_COMMITTED) == READ_COMMITTED
        self._isolation = isolation.READ_COMMITTED if committed else isolation.READ_UNCOMMITTED
        self._trouble = Trouble()
        needed = {name: value for name, value in settings.items() if name.startswith(_CONNECTION)}
        self._admin = new_client(ClientKind.ADMIN, ClientSettings(needed), self._trouble)

    def topics(self) -> dict[str, list[int]]:
        """All topics there are, with the numbers of their partitions."""
        kafka = self._kafka
        began = self._clock.monotonic()
        while True:
            try:
                found = self._admin.list_topics(timeout=_ROUND_S)
                return {name: sorted(topic.partitions) for name, topic in found.topics.items()}
            except kafka.KafkaException as e:
                self._admin.poll(0)
                patience = _PATIENCE_WHEN_REFUSED_S if self._trouble.is_there else _PATIENCE_S
                if self._trouble.is_final or self._clock.monotonic() - began > patience:
                    raise self._trouble.explain("topics cannot be listed", self._servers, e.args[0]) from None

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """What tells a topic from another of the same name, where the brokers say it."""
        wanted = sorted(topics)
        if not wanted:
            return {}
        asked = self._admin.describe_topics(self._kafka.TopicCollection(wanted), request_timeout=_PATIENCE_S)
        found = {}
        for name, answer in asked.items():
            try:
                found[name] = str(answer.result(_PATIENCE_S).topic_id)
            except (self._kafka.KafkaException, TimeoutError):
                continue
        return {name: topic_id for name, topic_id in found.items() if topic_id not in _NO_IDS}

    def earliest(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """The first records that are there."""
        return self._offsets(partitions, self._admin_module.OffsetSpec.earliest())

    def latest(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """Behind the last records that the source may read: before any open transaction, if it must not."""
        return self._offsets(partitions, self._admin_module.OffsetSpec.latest())

    def high_watermarks(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """Behind the last records, also those of open transactions."""
        isolation = self._kafka.IsolationLevel.READ_UNCOMMITTED
        return self._offsets(partitions, self._admin_module.OffsetSpec.latest(), isolation)

    def at_time(self, partitions: Iterable[KafkaTopicPartition], timestamp: int) -> Offsets:
        """The first records at or after a time; those partitions that have some."""
        found = self._offsets(partitions, self._admin_module.OffsetSpec.for_timestamp(timestamp))
        return {where: offset for where, offset in found.items() if offset >= 0}

    def committed(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """What the group has committed, where it has."""
        wanted = [self._kafka.TopicPartition(*where) for where in partitions]
        if not wanted or self._group is None:
            return {}
        asked = self._kafka.ConsumerGroupTopicPartitions(self._group, wanted)

        def ask() -> Any:
            futures = self._admin.list_consumer_group_offsets([asked], request_timeout=_PATIENCE_S)
            return futures[self._group].result(_PATIENCE_S)

        answer = self._asked(f"offsets of group {self._group!r} cannot be looked up", ask)
        for each in answer.topic_partitions:
            if each.error is not None:
                raise ConnectorError(f"offsets of group {self._group!r} cannot be read: {each.error.str()}")
        return {
            KafkaTopicPartition(each.topic, each.partition): each.offset
            for each in answer.topic_partitions
            if each.offset >= 0
        }

    def _offsets(
        self, partitions: Iterable[KafkaTopicPartition], spec: Any, isolation: Any = None
    ) -> Offsets:
        wanted = {self._kafka.TopicPartition(*where): spec for where in partitions}
        if not wanted:
            return {}

        def ask() -> Offsets:
            futures = self._admin.list_offsets(
                wanted, isolation_level=isolation or self._isolation, request_timeout=_PATIENCE_S
            )
            return {
                KafkaTopicPartition(each.topic, each.partition): future.result(_PATIENCE_S).offset
                for each, future in futures.items()
            }

        return self._asked("offsets cannot be looked up", ask)

    def _asked(self, what: str, ask: Callable[[], T]) -> T:
        kafka_error = self._kafka.KafkaException

        def passes(error: Exception) -> bool:
            return isinstance(error, kafka_error) and error.args[0].name() in _PASSING

        pauses = steadily(_PAUSE_S, _PATIENCE_S, self._clock)
        try:
            return retry(ask, passes, pauses, wait=self._admin.poll)
        except kafka_error as e:
            self._admin.poll(_PAUSE_S)
            raise self._trouble.explain(what, self._servers, e.args[0]) from None
        except TimeoutError:
            self._admin.poll(0)
            raise self._trouble.explain(what, self._servers) from None
