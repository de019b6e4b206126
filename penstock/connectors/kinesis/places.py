"""Where a reader of a shard is, also within a record that is several.  Pure.

Retention deletes records without a word, and sequence numbers have gaps, so a sequence number alone does not
say whether something behind it is gone.  A place therefore also knows until when everything that arrived has
been read: as long as the stream still keeps what came after that, nothing can be missing.

Records that the Kinesis Producer Library has packed into one are taken apart here.  Such a record is a
mark, a message of Protocol Buffers (field 3: the records, whose field 3 is the data), and the MD5 sum of the
message.  What does not fit is an ordinary record that happens to begin alike.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

MARK = b"\xf3\x89\x9a\xc2"
_SUM = 16
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_RECORDS = _DATA = 3
TRIM_HORIZON = "TRIM_HORIZON"
AT_TIMESTAMP = "AT_TIMESTAMP"
AT_SEQUENCE = "AT_SEQUENCE_NUMBER"
AFTER_SEQUENCE = "AFTER_SEQUENCE_NUMBER"
SHARD_END = "SHARD_END"


def unpacked(data: bytes) -> list[bytes]:
    """The records inside, or ``data`` itself if it is one."""
    if not data.startswith(MARK) or len(data) < len(MARK) + _SUM:
        return [data]
    message, total = data[len(MARK) : -_SUM], data[-_SUM:]
    if hashlib.md5(message, usedforsecurity=False).digest() != total:
        return [data]
    try:
        packed = [value for number, value in _fields(message) if number == _RECORDS]
        return [value for record in packed for number, value in _fields(record) if number == _DATA]
    except (IndexError, ValueError):
        return [data]


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Numbers and contents of a message's fields; only of those that are bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _BYTES:
            size, at = _varint(message, at)
            if at + size > len(message):
                raise ValueError("a field ends behind its message")
            yield tag >> 3, message[at : at + size]
            at += size
        elif kind == _VARINT:
            _, at = _varint(message, at)
        elif kind in (_FIXED32, _FIXED64):
            at += 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"no field has the kind {kind}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


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
