"""Where to start and where to stop: earliest, latest, a time, what a group has committed, given offsets.

Everything is looked up on the driver when the job starts and travels in the splits as plain offsets.  So a
job that starts over reads from where it first started, and no record falls between two look-ups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from penstock.core.errors import ConfigError, ConnectorError


class KafkaTopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


Offsets = dict[KafkaTopicPartition, int]


class KafkaOffsetResetStrategy(Enum):
    """Where to start if there is no offset to start from, or if it cannot be read from."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2
    """That is an error."""


class OffsetLookup(Protocol):
    """Offsets as the brokers know them."""

    def earliest(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """The first records that are there."""
        ...

    def latest(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """Behind the last records that the source may read."""
        ...

    def high_watermarks(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """Behind the last records, also those of open transactions."""
        ...

    def at_time(self, partitions: Iterable[KafkaTopicPartition], timestamp: int) -> Offsets:
        """The first records at or after a time; those partitions that have some."""
        ...

    def committed(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """What the source's group has committed, where it has."""
        ...


class _Kind(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    COMMITTED = "committed"
    OFFSETS = "offsets"


@dataclass(frozen=True, slots=True)
class KafkaOffsetsInitializer:
    """A place in every partition. Make one with the static methods."""

    kind: _Kind
    reset: KafkaOffsetResetStrategy
    at_ms: int = 0
    given: tuple[tuple[KafkaTopicPartition, int], ...] = ()

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """What the group has committed; the strategy counts for partitions without."""
        return KafkaOffsetsInitializer(_Kind.COMMITTED, offset_reset_strategy)

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """The first record at or after a time in milliseconds; the end, if there is none."""
        return KafkaOffsetsInitializer(_Kind.TIMESTAMP, KafkaOffsetResetStrategy.LATEST, at_ms=int(timestamp))

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """The first record that is there."""
        return KafkaOffsetsInitializer(_Kind.EARLIEST, KafkaOffsetResetStrategy.EARLIEST)

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Behind the last record there is when the job starts."""
        return KafkaOffsetsInitializer(_Kind.LATEST, KafkaOffsetResetStrategy.LATEST)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Given offsets; partitions without one start where the group is, or as the strategy says."""
        given = []
        for where, offset in offsets.items():
            if not isinstance(where, KafkaTopicPartition):
                raise ConfigError(f"offsets belong to a KafkaTopicPartition(topic, partition), not {where!r}")
            if int(offset) < 0:
                raise ConfigError(f"{where.topic}-{where.partition}: there is no offset {offset}")
            given.append((where, int(offset)))
        return KafkaOffsetsInitializer(_Kind.OFFSETS, offset_reset_strategy, given=tuple(sorted(given)))

    def resolve(self, partitions: list[KafkaTopicPartition], lookup: OffsetLookup) -> Offsets:
        """An offset for each partition, now, that can be read from."""
        match self.kind:
            case _Kind.EARLIEST:
                return lookup.earliest(partitions)
            case _Kind.LATEST:
                return lookup.latest(partitions)
            case _Kind.TIMESTAMP:
                return self._or_reset(partitions, lookup.at_time(partitions, self.at_ms), lookup)
        wanted = {where: offset for where, offset in self.given if where in set(partitions)}
        wanted |= lookup.committed([where for where in partitions if where not in wanted])
        return self._or_reset(partitions, self._in_range(wanted, lookup), lookup)

    def resolve_end(self, partitions: list[KafkaTopicPartition], lookup: OffsetLookup) -> Offsets:
        """An offset to stop before for each partition; given ones may lie ahead of what is there now."""
        given = {where: offset for where, offset in self.given if where in set(partitions)}
        others = [where for where in partitions if where not in given]
        return given | (self.resolve(others, lookup) if others else {})

    def _in_range(self, wanted: Offsets, lookup: OffsetLookup) -> Offsets:
        """Without offsets where nothing can be read; an error if the strategy is to have one."""
        first, end = lookup.earliest(wanted), lookup.high_watermarks(wanted)
        lost = {where for where, offset in wanted.items() if not first[where] <= offset <= end[where]}
        if lost and self.reset is KafkaOffsetResetStrategy.NONE:
            where = min(lost)
            raise out_of_range(where, wanted[where], f"the partition holds {first[where]} to {end[where]}")
        return {where: offset for where, offset in wanted.items() if where not in lost}

    def _or_reset(
        self, partitions: list[KafkaTopicPartition], found: Offsets, lookup: OffsetLookup
    ) -> Offsets:
        missing = [where for where in partitions if where not in found]
        if not missing:
            return found
        if self.reset is KafkaOffsetResetStrategy.NONE:
            topic, partition = missing[0]
            raise ConnectorError(
                f"topic {topic!r} partition {partition} has no offset to start from: the group has committed "
                "none there. Give a group id that has, or a KafkaOffsetResetStrategy of EARLIEST or LATEST."
            )
        if self.reset is KafkaOffsetResetStrategy.EARLIEST:
            return found | lookup.earliest(missing)
        return found | lookup.latest(missing)


def out_of_range(where: KafkaTopicPartition, offset: int, known: str) -> ConnectorError:
    """The error for an offset that a job cannot start from, when there is no strategy for it."""
    return ConnectorError(
        f"topic {where.topic!r} partition {where.partition}: offset {offset} is out of range ({known}). Its "
        "records were deleted, or the topic was made anew; start from another offset, or give a "
        "KafkaOffsetResetStrategy of EARLIEST or LATEST to begin with what is there."
    )
