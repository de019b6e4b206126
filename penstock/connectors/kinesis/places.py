"""Where a reader of a shard is.

Retention deletes records without a word, and sequence numbers have gaps, so a sequence number alone does not
say whether something behind it is gone.  A place therefore also knows until when everything that arrived has
been read: as long as the stream still keeps what came after that, nothing can be missing.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple

from penstock.connectors.kinesis.aggregated import unpacked

TRIM_HORIZON = "TRIM_HORIZON"
AT_TIMESTAMP = "AT_TIMESTAMP"
AT_SEQUENCE = "AT_SEQUENCE_NUMBER"
AFTER_SEQUENCE = "AFTER_SEQUENCE_NUMBER"
SHARD_END = "SHARD_END"


class Place(NamedTuple):
    """The next record is the first at or after this. Stored as a plain tuple."""

    kind: str
    value: str | int | None = None
    known_ms: int | None = None
    """Nothing that arrived before is missing; ``None``: nothing was read, and the job takes what is there."""
    inside: int = 0
    """Of the record here: how many of those that are packed into it are read already."""

    def argument(self) -> dict[str, Any]:
        """As ``GetShardIterator`` takes it."""
        found: dict[str, Any] = {"ShardIteratorType": self.kind}
        if self.kind == AT_TIMESTAMP:
            assert isinstance(self.value, int)
            found["Timestamp"] = dt.datetime.fromtimestamp(self.value / 1000, dt.UTC)
        elif self.kind in (AT_SEQUENCE, AFTER_SEQUENCE):
            found["StartingSequenceNumber"] = self.value
        return found


def at_time(ms: int) -> Place:
    """The first record of that time; what is older is not wanted."""
    return Place(AT_TIMESTAMP, ms, ms)


class Shard(NamedTuple):
    """A shard that is to be read."""

    stream: str
    name: str
    created_ms: int
    """When its stream was made: one of the same name that was made later is another."""
    parents: tuple[str, ...]
    """Ids of the splits that come before it."""
    start: Place
    stop_ms: int | None = None
    """What arrived later is not read."""

    @property
    def id(self) -> str:
        """Of its split."""
        return split_id(self.stream, self.created_ms, self.name)


def split_id(stream: str, created_ms: int, shard: str) -> str:
    """Stable as long as the stream is the same one."""
    return f"{stream}@{created_ms}/{shard}"


class Entry(NamedTuple):
    """A record to deliver, which may be one of several that are packed into one of Kinesis."""

    number: str
    arrived_ms: int
    data: bytes
    inside: int
    """How many of that one are read with it; 0 if those are all."""

    def behind(self) -> Place:
        """Where the next one is."""
        kind = AT_SEQUENCE if self.inside else AFTER_SEQUENCE
        return Place(kind, self.number, self.arrived_ms, self.inside)


def entries_of(record: dict[str, Any], place: Place) -> list[Entry]:
    """What a record holds behind ``place``."""
    number, arrived, packed = record["SequenceNumber"], arrival_ms(record), unpacked(record["Data"])
    made = [
        Entry(number, arrived, data, count if count < len(packed) else 0)
        for count, data in enumerate(packed, 1)
    ]
    return made[place.inside :] if number == place.value else made


def arrival_ms(record: dict[str, Any]) -> int:
    """When Kinesis got a record, roughly."""
    return int(record["ApproximateArrivalTimestamp"].timestamp() * 1000)
