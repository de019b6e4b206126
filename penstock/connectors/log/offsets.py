"""Places in a topic, said in general: the beginning, the end, a time, exact offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.connectors.log.reader import PartitionReader
from penstock.connectors.log.topic import Topic
from penstock.core.errors import ConfigError


class _Kind(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """A place in every partition of a topic, found when it is needed. Make one with the methods below."""

    kind: _Kind
    at_ms: int = 0
    exact: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def earliest() -> LogOffsets:
        """The oldest record that is there."""
        return LogOffsets(_Kind.EARLIEST)

    @staticmethod
    def latest() -> LogOffsets:
        """Behind the newest record that is there."""
        return LogOffsets(_Kind.LATEST)

    @staticmethod
    def timestamp(at_ms: int) -> LogOffsets:
        """The first record at or after a time."""
        return LogOffsets(_Kind.TIMESTAMP, at_ms=at_ms)

    @staticmethod
    def offsets(by_partition: Mapping[int, int]) -> LogOffsets:
        """An offset for every partition."""
        return LogOffsets(_Kind.OFFSETS, exact=tuple(sorted(by_partition.items())))

    def resolve(self, topic: Topic) -> list[int]:
        """The offset in each partition, now."""
        if self.kind is _Kind.OFFSETS and [p for p, _ in self.exact] != list(range(topic.partitions)):
            raise ConfigError(
                f"offsets are given for partitions {[p for p, _ in self.exact]}, but topic {topic.name!r} "
                f"has 0 to {topic.partitions - 1}: give one for each"
            )
        return [self._in_partition(topic, partition) for partition in range(topic.partitions)]

    def _in_partition(self, topic: Topic, partition: int) -> int:
        if self.kind is _Kind.OFFSETS:
            return self.exact[partition][1]
        reader = topic.reader(partition)
        try:
            return self._find(reader)
        finally:
            reader.close()

    def _find(self, reader: PartitionReader) -> int:
        if self.kind is _Kind.EARLIEST:
            return reader.start_offset()
        if self.kind is _Kind.LATEST:
            return reader.end_offset()
        return reader.offset_for_timestamp(self.at_ms)
