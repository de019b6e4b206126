"""Topics as a source: a split per partition, the next offset as position.

The offsets to start from and to stop at are looked up on the driver and travel in the splits; what is read
is remembered in snapshots alone.  Offsets committed to the brokers are for people and their tools to look at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.connectors.kafka.admin import READ_COMMITTED, Brokers
from penstock.connectors.kafka.client import (
    BOOTSTRAP,
    CLIENT_ID_PREFIX,
    COMMIT_ON_CHECKPOINT,
    DISCOVERY_INTERVAL,
    ON_TRUNCATED,
    ClientSettings,
    client_settings,
    redacted,
)
from penstock.connectors.kafka.enumerator import KafkaEnumerator, PartitionRange, Subscription, ranges_of
from penstock.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from penstock.connectors.kafka.reader import (
    KafkaReader,
    MessageDecoder,
    RangeToRead,
    RecordDecoder,
    ValueDecoder,
)
from penstock.connectors.kafka.shared_consumer import SharedConsumer
from penstock.connectors.source import (
    AtOffset,
    AtTime,
    OnTruncated,
    Source,
    Split,
    SplitEnumerator,
    SplitReader,
)
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.core.ids import MIN_TIME
from penstock.formats.bad_records import BadRecords, ErrorPolicy, OnError

_DISCOVERY_MS = 300_000
_NO_GROUP = "penstock"


@dataclass(frozen=True)
class KafkaSettings:
    """What a builder gathered."""

    subscription: Subscription
    decoder: MessageDecoder
    properties: Mapping[str, Any] = field(repr=False)
    start: KafkaOffsetsInitializer
    stop: KafkaOffsetsInitializer | None = None
    bounded: bool = False
    policy: ErrorPolicy = field(default_factory=ErrorPolicy)


class KafkaSource(Source):
    """Reads topics; the records' timestamps become event times. Made by ``KafkaSource.builder()``."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._group: str | None = settings.properties.get("group.id")
        self._client = self._consumer_settings()
        self._commits = _flag(settings.properties, COMMIT_ON_CHECKPOINT, self._group is not None)
        if self._commits and self._group is None:
            raise ConfigError(f"{COMMIT_ON_CHECKPOINT} needs a group to commit for: call set_group_id()")
        self._on_truncated = _on_truncated(settings.properties)
        self._feeds: list[SharedConsumer] = []
        self._topic_ids: dict[str, str] = {}
        self.bounded = settings.bounded
        self.diverts_to = settings.policy.tag
        interval = int(settings.properties.get(DISCOVERY_INTERVAL, _DISCOVERY_MS))
        self.discovery_interval_ms = None if self.bounded or interval <= 0 else interval

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Begins a source."""
        return KafkaSourceBuilder()

    def __repr__(self) -> str:
        shown = redacted(self._settings.properties)
        return f"KafkaSource({self._settings.subscription}; {shown})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_feeds": [], "_topic_ids": {}}

    def check(self) -> None:
        settings = self._settings
        brokers = self._brokers()
        chosen = settings.subscription.choose(brokers.topics())
        if not chosen and self.discovery_interval_ms is None:
            raise ConfigError(
                f"there are no {settings.subscription} at the Kafka brokers, and the source does not look "
                f"for new ones: correct the pattern, or set {DISCOVERY_INTERVAL}"
            )
        ranges_of(chosen, settings.start, settings.stop, brokers)

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        settings = self._settings
        return KafkaEnumerator(
            self._brokers, settings.subscription, settings.start, settings.stop, self._on_truncated
        )

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        part: PartitionRange = split.info
        start = part.start if position is None else int(position)
        said = f"topic {part.topic!r} partition {part.partition}, offset"
        bad = BadRecords(self._settings.policy, part.topic, split.id, said)
        earliest = self._settings.start.reset is KafkaOffsetResetStrategy.EARLIEST
        wanted = RangeToRead(
            part.where, start, part.stop, self._on_truncated, any_start=position is None and earliest
        )
        over = wanted.is_empty or (position is not None and self._is_replaced(part))
        feed = None if over else self._feed(part.where)
        return KafkaReader(feed, wanted, self._settings.decoder, bad, self._commits)

    def from_end(self, split: Split) -> Split:
        return replace(split, info=replace(split.info, start=self.end_offset(split)))

    def end_offset(self, split: Split) -> int:
        part: PartitionRange = split.info
        end = self._brokers().latest([part.where])[part.where]
        return end if part.stop is None else min(end, part.stop)

    def between(self, split: Split, start: AtTime | AtOffset | None, end: int | None) -> Split:
        part: PartitionRange = split.info
        begin = part.start
        if isinstance(start, AtTime):
            choices = KafkaOffsetsInitializer
            at = choices.earliest() if start.ms == MIN_TIME else choices.timestamp(start.ms)
            begin = at.resolve([part.where], self._brokers())[part.where]
        elif start is not None:
            begin = start.offset
        return replace(split, info=replace(part, start=begin, stop=part.stop if end is None else end))

    def produced_type(self) -> Any | None:
        return self._settings.decoder.produced_type()

    def _is_replaced(self, part: PartitionRange) -> bool:
        """Whether the topic was made anew since, and its partitions are other splits now."""
        if self._on_truncated is OnTruncated.ERROR or part.topic_id is None:
            return False
        if part.topic not in self._topic_ids:
            self._topic_ids |= self._brokers().topic_ids([part.topic])
        return self._topic_ids.get(part.topic, part.topic_id) != part.topic_id

    def _feed(self, where: KafkaTopicPartition) -> SharedConsumer:
        """A feed that does not read this partition yet: the first, unless somebody opens a split twice."""
        self._feeds = [feed for feed in self._feeds if not feed.is_closed]
        for feed in self._feeds:
            if where not in feed:
                return feed
        self._feeds.append(SharedConsumer(self._client))
        return self._feeds[-1]

    def _brokers(self) -> Brokers:
        return Brokers(self._client, self._group)

    def _consumer_settings(self) -> ClientSettings:
        given = self._settings.properties
        ours: dict[str, Any] = {
            "group_id": self._group or _NO_GROUP,
            "enable_auto_commit": False,
            "enable_auto_offset_store": False,
            "enable_partition_eof": True,
            "auto_offset_reset": "error",
        }
        if CLIENT_ID_PREFIX in given:
            ours["client_id"] = given[CLIENT_ID_PREFIX]
        found = client_settings(given, **ours)
        found.setdefault("isolation.level", READ_COMMITTED)
        if self._settings.stop is not None:
            # How long the brokers hold back the word that nothing more is there.
            found.setdefault("fetch.wait.max.ms", 50)
        # With the default of a second a full queue starves: see docs/design/014-kafka.md.
        found.setdefault("fetch.queue.backoff.ms", 20)
        return found


def _flag(properties: Mapping[str, Any], name: str, default: bool) -> bool:
    value = properties.get(name)
    return default if value is None else str(value).lower() == "true"


def _on_truncated(properties: Mapping[str, Any]) -> OnTruncated:
    given = properties.get(ON_TRUNCATED, OnTruncated.ERROR)
    try:
        return OnTruncated(given)
    except ValueError:
        raise ConfigError(f'set_on_truncated() takes "error" or "earliest", not {given!r}') from None


class KafkaSourceBuilder:
    """Settings of a Kafka source. Needed are brokers, what to read, and a deserializer.

    A source reads from the earliest offsets and does not end, unless told otherwise.
    """

    def __init__(self) -> None:
        self._properties: dict[str, Any] = {}
        self._topics: tuple[str, ...] = ()
        self._pattern: str | None = None
        self._partitions: tuple[KafkaTopicPartition, ...] = ()
        self._start = KafkaOffsetsInitializer.earliest()
        self._stop: KafkaOffsetsInitializer | None = None
        self._bounded = False
        self._decoder: MessageDecoder | None = None
        self._policy = ErrorPolicy()

    def build(self) -> KafkaSource:
        """The source. Nothing is asked of the brokers yet."""
        if self._decoder is None:
            raise ConfigError(
                "a Kafka source needs to know how to read its records: call set_value_only_deserializer(), "
                "or set_deserializer() for keys, headers and timestamps as well"
            )
        what = Subscription(self._topics, self._pattern, self._partitions)
        properties = dict(self._properties)
        return KafkaSource(
            KafkaSettings(
                what, self._decoder, properties, self._start, self._stop, self._bounded, self._policy
            )
        )

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Addresses of some brokers, with commas between."""
        return self.set_property(BOOTSTRAP, bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """The group whose committed offsets can be started from, and for which offsets are committed."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Read all partitions of these topics."""
        self._topics = topics
        return self

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Read all topics whose whole name matches a regular expression of Python's, also future ones."""
        self._pattern = topic_pattern
        return self

    def set_partitions(self, partitions: Iterable[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """Read these partitions."""
        self._partitions = tuple(KafkaTopicPartition(*where) for where in partitions)
        return self

    def set_starting_offsets(
        self, starting_offsets_initializer: KafkaOffsetsInitializer
    ) -> KafkaSourceBuilder:
        """Where to start partitions that no snapshot knows."""
        self._start = starting_offsets_initializer
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stop reading at these offsets, but run as a stream."""
        self._stop, self._bounded = stopping_offsets_initializer, False
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stop at these offsets, looked up when the job starts; new partitions are not looked for."""
        self._stop, self._bounded = stopping_offsets_initializer, True
        return self

    def set_value_only_deserializer(self, deserialization_schema: Any) -> KafkaSourceBuilder:
        """How to read values: a ``DeserializationSchema`` or a ``ValueFormat``."""
        self._decoder = ValueDecoder(deserialization_schema)
        return self

    def set_deserializer(self, deserializer: Any) -> KafkaSourceBuilder:
        """How to read whole messages: a ``KafkaRecordDeserializationSchema``."""
        if isinstance(deserializer, MessageDecoder):
            self._decoder = deserializer
            return self
        values = getattr(deserializer, "value_schema", None)
        self._decoder = RecordDecoder(deserializer) if values is None else ValueDecoder(values)
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """What the clients call themselves."""
        return self.set_property(CLIENT_ID_PREFIX, prefix)

    def set_on_error(self, on_error: OnError | str, divert_to: Any = None) -> KafkaSourceBuilder:
        """What to do with records that cannot be read; ``divert_to`` is the ``OutputTag`` to divert to."""
        self._policy = ErrorPolicy.of(on_error, divert_to)
        return self

    def set_on_truncated(self, on_truncated: OnTruncated | str) -> KafkaSourceBuilder:
        """What to do when the brokers have deleted what is to be read next: ``"error"``, the default, or go
        on at the ``"earliest"`` record left.  What counts at the first start is the starting offsets' own.
        """
        return self.set_property(ON_TRUNCATED, on_truncated)

    def set_property(self, key: str, value: Any) -> KafkaSourceBuilder:
        """A property of the client (by Kafka's Java or librdkafka's names) or of the source."""
        self._properties[key] = value
        return self

    def set_properties(self, props: Mapping[str, Any]) -> KafkaSourceBuilder:
        """Several properties."""
        self._properties.update(props)
        return self
