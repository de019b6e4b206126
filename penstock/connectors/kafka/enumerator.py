"""Finding partitions, on the driver.

Partitions found when the job first starts are read from where the user says.  Those found later are new:
they are read from their beginning, since nothing in them was there when the job started.

A topic that was deleted and made anew is another one of the same name.  Offsets of the old one say
nothing about the new one, also if it has come to hold as many records.  Brokers give every topic an id of its
own, so the difference shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.connectors.kafka.admin import Brokers
from penstock.connectors.kafka.client import log
from penstock.connectors.kafka.offsets import KafkaOffsetsInitializer, KafkaTopicPartition
from penstock.connectors.source import OnTruncated, Split, SplitEnumerator
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, ConnectorError, PositionGoneError


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


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """What a split is about."""

    topic: str
    partition: int
    start: int
    stop: int | None
    """Offset to stop before; ``None`` to go on for ever."""
    topic_id: str | None = None
    """Of the topic that these offsets belong to, if it is known."""

    def __setstate__(self, state: list[Any]) -> None:
        # Snapshots of older versions do not have the id.
        for name, value in zip(self.__slots__, [*state, None], strict=False):
            object.__setattr__(self, name, value)

    @property
    def where(self) -> KafkaTopicPartition:
        """The partition."""
        return KafkaTopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions to read: those of named topics, of topics whose names match, or given ones."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[KafkaTopicPartition, ...] = ()

    def __post_init__(self) -> None:
        if (bool(self.topics), self.pattern is not None, bool(self.partitions)).count(True) != 1:
            raise ConfigError(
                "a Kafka source reads topics, a topic pattern, or partitions: call one of set_topics(), "
                "set_topic_pattern() and set_partitions()"
            )
        if self.pattern is not None:
            try:
                re.compile(self.pattern)
            except re.error as e:
                raise ConfigError(f"{self.pattern!r} is no regular expression for topics: {e}") from None

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"topics like {self.pattern!r}"
        return ", ".join(self.topics or (f"{topic}-{number}" for topic, number in self.partitions))

    def choose(self, found: dict[str, list[int]]) -> list[KafkaTopicPartition]:
        """The partitions to read out of those of all topics; a missing one is an error."""
        if self.pattern is not None:
            matches = re.compile(self.pattern).fullmatch
            names = sorted(name for name in found if matches(name))
        else:
            names = sorted({*self.topics, *(topic for topic, _ in self.partitions)})
            self._refuse_missing([name for name in names if name not in found], found)
        every = [KafkaTopicPartition(name, number) for name in names for number in found[name]]
        if not self.partitions:
            return every
        for topic, number in sorted(set(self.partitions) - set(every)):
            raise ConnectorError(
                f"topic {topic!r} has no partition {number}; it has {len(found[topic])}, counted from 0"
            )
        return sorted(set(self.partitions))

    def _refuse_missing(self, missing: list[str], found: dict[str, list[int]]) -> None:
        if missing:
            known = ", ".join(sorted(name for name in found if not name.startswith("__"))[:20]) or "none"
            raise ConnectorError(
                f"there is no Kafka topic {missing[0]!r}: create it first, or correct its name "
                f"(topics there: {known})",
                code=Code.NO_TOPIC,
            )


class KafkaEnumerator(SplitEnumerator):
    """Finds partitions and the offsets to read them from."""

    def __init__(
        self,
        connect: Callable[[], Brokers],
        subscription: Subscription,
        start: KafkaOffsetsInitializer,
        stop: KafkaOffsetsInitializer | None,
        on_truncated: OnTruncated = OnTruncated.ERROR,
    ) -> None:
        self._connect = connect
        self._brokers: Brokers | None = None
        self._subscription = subscription
        self._start = start
        self._stop = stop
        self._seen: set[str] = set()
        self._identities = TopicIdentities(on_truncated)
        self._began = False
        self._looked = False

    def discover(self) -> Iterable[Split]:
        restored, self._looked = not self._looked, True
        try:
            return self._discover(restored)
        except (TopicChanged, PositionGoneError):
            raise
        except ConnectorError as error:
            if not self._began:
                raise
            log.warning("new partitions of %s are looked for later: %s", self._subscription, error)
            return ()

    def _discover(self, restored: bool) -> list[Split]:
        if self._brokers is None:
            self._brokers = self._connect()
        chosen = self._subscription.choose(self._brokers.topics())
        topics = {where.topic for where in chosen}
        self._identities.look(self._brokers.topic_ids(topics), restored)
        fresh = [where for where in chosen if self._identities.split_id(where) not in self._seen]
        start = KafkaOffsetsInitializer.earliest() if self._began else self._start
        splits = [
            Split(
                self._identities.split_id(part.where), replace(part, topic_id=self._identities.of(part.topic))
            )
            for part in ranges_of(fresh, start, self._stop, self._brokers)
        ]
        self._seen.update(split.id for split in splits)
        self._began = True
        return splits

    def snapshot(self) -> Any:
        return (self._began, sorted(self._seen), self._identities.snapshot())

    def restore(self, state: Any) -> None:
        self._began, self._seen = state[0], set(state[1])
        if len(state) > 2:
            self._identities.restore(state[2])


def ranges_of(
    partitions: list[KafkaTopicPartition],
    start: KafkaOffsetsInitializer,
    stop: KafkaOffsetsInitializer | None,
    brokers: Brokers,
) -> list[PartitionRange]:
    """What to read of each partition, with its offsets looked up."""
    if not partitions:
        return []
    starts = start.resolve(partitions, brokers)
    stops = {} if stop is None else stop.resolve_end(partitions, brokers)
    return [PartitionRange(*where, starts[where], stops.get(where)) for where in partitions]
