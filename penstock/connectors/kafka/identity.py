"""Topics of the same name that are not the same: one that was deleted and made anew.

Offsets of the old one say nothing about the new one, also if it has come to hold as many records.  Brokers
give every topic an id of its own, so the difference shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.connectors.kafka.client import log
from penstock.connectors.kafka.offsets import KafkaTopicPartition
from penstock.connectors.on_truncated import OnTruncated
from penstock.core.errors import ConnectorError, PositionGoneError


class TopicChanged(ConnectorError):
    """A topic was made anew while it was read; the job starts over with the new one."""


class TopicIdentities:
    """The ids that the topics of a source have had: the first, and the one that is read."""

    def __init__(self, on_truncated: OnTruncated) -> None:
        self._on_truncated = on_truncated
        self._ids: dict[str, tuple[str, str]] = {}

    def look(self, found: Mapping[str, str], restored: bool) -> None:
        """Compare with the ids that topics have now; ``restored`` if no subtask reads yet.

        A topic made anew is an error.  If it is to be read all the same, its partitions are new splits, and
        the readers of the old ones end as soon as they are restored.
        """
        for topic, topic_id in found.items():
            first, read = self._ids.get(topic, (topic_id, topic_id))
            if topic_id != read:
                self._is_another(topic, read, topic_id, restored)
            self._ids[topic] = (first, topic_id)

    def _is_another(self, topic: str, before: str, now: str, restored: bool) -> None:
        if self._on_truncated is OnTruncated.ERROR:
            raise PositionGoneError(
                f"the Kafka topic {topic!r} was deleted and made anew (its id was {before} and is {now}): "
                "what the job had not read of the old one is gone, and its offsets mean nothing in the new "
                'one. To read the new one from its beginning, call set_on_truncated("earliest") on the '
                "source's builder, or give the source a new uid"
            )
        if not restored:
            raise TopicChanged(f"the Kafka topic {topic!r} was made anew; the job starts over with it")
        log.error(
            "DATA LOSS: the Kafka topic %r was deleted and made anew: what was not read of the old one is "
            "gone; the new one is read from its beginning",
            topic,
        )

    def of(self, topic: str) -> str | None:
        """The id of the topic that is read, if it has one."""
        return self._ids[topic][1] if topic in self._ids else None

    def split_id(self, where: KafkaTopicPartition) -> str:
        """Part of snapshots: renaming makes every source start over."""
        first, read = self._ids.get(where.topic, ("", ""))
        name = f"{where.topic}-{where.partition}"
        return name if first == read else f"{name}@{read}"

    def snapshot(self) -> dict[str, tuple[str, str]]:
        """For the enumerator's state."""
        return dict(self._ids)

    def restore(self, state: Any) -> None:
        """Take back what ``snapshot`` gave."""
        self._ids = dict(state)
