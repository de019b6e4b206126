"""Reading one partition, from an offset on and, if bounded, up to one; and messages as records.

Offsets have gaps: transaction markers and aborted records take up offsets and are never delivered.  So the
end of a bounded read is not "the record before ``stop`` came": it may never come.  It is that a record at
or behind ``stop`` came, or that the consumer says it has come that far and there is nothing more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from penstock.connectors.kafka.client import log
from penstock.connectors.kafka.offsets import KafkaTopicPartition
from penstock.connectors.kafka.shared_consumer import SharedConsumer
from penstock.connectors.source import EndOfSplit, OnTruncated, SplitReader
from penstock.core.batch import Batch, Times
from penstock.core.errors import ConnectorError, PositionGoneError
from penstock.core.ids import MIN_TIME
from penstock.core.metrics import MetricGroup
from penstock.core.optional import require
from penstock.formats.bad_records import BadRecords, Diverted, Records, decode_batch, deserialized
from penstock.formats.value_format import SchemaFormat, as_format

_LOOKUP_S = 10.0
_PASSING = {
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "REQUEST_TIMED_OUT",
    "_ALL_BROKERS_DOWN",
    "_RESOLVE",
    "_TIMED_OUT",
    "_TRANSPORT",
}
"""Errors of connections, which the client mends by itself."""


class KafkaRecord(NamedTuple):
    """A message as a :class:`RecordSchema` sees it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """In milliseconds; -1 if the message has none."""
    key: bytes | None
    value: bytes | None
    """``None`` in a message that says that its key is deleted."""
    headers: tuple[tuple[str, bytes | None], ...]


class RecordSchema(Protocol):
    """Makes records of whole messages."""

    def deserialize(self, record: KafkaRecord) -> Any:
        """The record of one message; ``None`` means that it holds none and is skipped."""
        ...


class MessageDecoder(ABC):
    """Decodes many messages at once. Shipped to slots by pickling."""

    skips_none: bool

    @abstractmethod
    def select(self, messages: list[Any]) -> tuple[list[Any], list[Any]]:
        """The messages that hold a record, and what ``decode`` needs of each."""

    @abstractmethod
    def decode(self, items: list[Any]) -> Records:
        """One record per item; :class:`DecodeError` with the place of a bad one."""

    @abstractmethod
    def produced_type(self) -> Any | None:
        """Type information of the records, if known."""


class ValueDecoder(MessageDecoder):
    """Decodes values; messages without one (deletions in compacted topics) are left out."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._format = as_format(schema)
        self.skips_none = self._format.skips_none

    def select(self, messages: list[Any]) -> tuple[list[Any], list[Any]]:
        values = [message.value() for message in messages]
        if None in values:
            messages = [m for m, value in zip(messages, values, strict=True) if value is not None]
            values = [value for value in values if value is not None]
        return messages, values

    def decode(self, items: list[Any]) -> Records:
        if isinstance(self._format, SchemaFormat) and self._format.is_by_value:
            return self._format.decode_each(items)
        return self._format.decode(pa.array(items, pa.binary()))

    def produced_type(self) -> Any | None:
        produced = getattr(self._schema, "get_produced_type", None)
        return None if produced is None else produced()


class RecordDecoder(MessageDecoder):
    """Decodes whole messages, one at a time."""

    skips_none = True

    def __init__(self, schema: RecordSchema) -> None:
        self._schema = schema

    def select(self, messages: list[Any]) -> tuple[list[Any], list[Any]]:
        return messages, [_record(message) for message in messages]

    def decode(self, items: list[Any]) -> Records:
        return deserialized(self._schema, items)

    def produced_type(self) -> Any | None:
        produced = getattr(self._schema, "get_produced_type", None)
        return None if produced is None else produced()


def _record(message: Any) -> KafkaRecord:
    return KafkaRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


@dataclass(frozen=True, slots=True)
class RangeToRead:
    """The partition, where to begin and to stop, and what to do if the records there are gone."""

    where: KafkaTopicPartition
    start: int
    stop: int | None
    on_truncated: OnTruncated = OnTruncated.ERROR
    any_start: bool = False
    """Whether it may begin later, if it has to: the job wants what is there, and has read nothing yet."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read."""
        return self.stop is not None and self.start >= self.stop


class KafkaReader(SplitReader):
    """Reads one partition out of a feed that it shares with the other readers of the subtask.

    Without a feed it is at its end.
    """

    def __init__(
        self,
        feed: SharedConsumer | None,
        wanted: RangeToRead,
        decoder: MessageDecoder,
        bad: BadRecords,
        commits: bool,
    ) -> None:
        self._errors = require("confluent_kafka", "kafka").KafkaError
        self._where = wanted.where
        self._offset = wanted.start
        self._stop = wanted.stop
        self._on_truncated = wanted.on_truncated
        self._any_start = wanted.start if wanted.any_start else None
        self._decoder = decoder
        self._bad = bad
        self._commits = commits
        self._feed = feed
        if feed is not None:
            feed.add(self._where, self._offset)

    def poll(self, max_rows: int) -> Batch | None:
        if self._feed is None:
            raise EndOfSplit
        messages = self._feed.take(self._where, max_rows)
        if not messages:
            return None
        records = [message for message in messages if message.error() is None]
        batch = self._decode(self._before_stop(records)) if records else None
        if len(records) < len(messages):
            for message in messages:
                if message.error() is not None:
                    self._on_event(message)
        self._end_if_reached()
        return batch

    def position(self) -> Any:
        return self._offset

    def take_diverted(self) -> list[Diverted]:
        return self._bad.take()

    def on_checkpoint_complete(self, position: Any) -> None:
        if self._commits and self._feed is not None:
            self._feed.commit_later(self._where, position)

    def pending(self) -> int | None:
        feed = self._feed
        return None if feed is None else feed.lag.look(self._where, self._offset, self._stop)

    def show(self, group: MetricGroup) -> None:
        """By the names of Flink's source. ``pending`` comes first: the others show what it found."""
        feed, where = self._feed, self._where
        if feed is None:
            return
        ours = group.add_group("KafkaSourceReader")
        partition = ours.add_group("topic", where.topic).add_group("partition", str(where.partition))
        partition.gauge("currentOffset", lambda: self._offset - 1)
        partition.gauge("committedOffset", lambda: feed.lag.committed(where))
        partition.gauge("records_lag", lambda: feed.lag.records(where))
        ours.add_group("KafkaConsumer").gauge("records_lag_max", feed.lag.most)
        ours.gauge("commitsSucceeded", lambda: feed.lag.commits_succeeded)
        ours.gauge("commitsFailed", lambda: feed.lag.commits_failed)

    def close(self) -> None:
        if self._feed is not None:
            feed, self._feed = self._feed, None
            feed.remove(self._where)

    def _end_if_reached(self) -> None:
        if self._stop is not None and self._offset >= self._stop:
            self.close()

    def _before_stop(self, records: list[Any]) -> list[Any]:
        """The records to deliver; moves the position behind them."""
        self._offset = records[-1].offset() + 1
        if self._stop is None or self._offset <= self._stop:
            return records
        self._offset = self._stop
        return [record for record in records if record.offset() < self._stop]

    def _decode(self, records: list[Any]) -> Batch | None:
        messages, items = self._decoder.select(records)
        decode = self._decoder.decode

        def at(index: int) -> tuple[int, bytes]:
            return messages[index].offset(), messages[index].value() or b""

        return decode_batch(
            lambda start, stop: decode(items if stop - start == len(items) else items[start:stop]),
            _times(messages),
            self._bad,
            at,
            self._decoder.skips_none,
        )

    def _on_event(self, message: Any) -> None:
        """Something else than a record: the end for now, or trouble with the partition."""
        error = message.error()
        if error.code() == self._errors._PARTITION_EOF:
            self._offset = max(self._offset, message.offset())
        elif error.code() in (
            self._errors._AUTO_OFFSET_RESET,
            self._errors.OFFSET_OUT_OF_RANGE,
            self._errors._LOG_TRUNCATION,
        ):
            self._gone()
        elif error.name() in _PASSING:
            log.info("topic %r partition %d: %s", *self._where, error.str())
        else:
            topic, partition = self._where
            raise ConnectorError(
                f"topic {topic!r} partition {partition}, offset {self._offset}: cannot be read: {error.str()}"
            )

    def _gone(self) -> None:
        assert self._feed is not None
        first, end = self._feed.bounds(self._where, _LOOKUP_S)
        if self._offset == self._any_start:
            log.info("topic %r partition %d is read from offset %d on", *self._where, first)
        elif self._on_truncated is OnTruncated.EARLIEST:
            log.error("DATA LOSS: %s; reading goes on at %d", self._what_is_gone(first, end), first)
        else:
            raise PositionGoneError(
                f"{self._what_is_gone(first, end)}. They cannot be read any more: put them back, or start "
                "the job from an older snapshot if another topic has them. To go on without them, at the "
                'first record that is there, call set_on_truncated("earliest") on the source\'s builder; '
                "and let the topic keep records for longer than the job may be down or behind"
            )
        self._offset = first
        self._feed.move(self._where, first)

    def _what_is_gone(self, first: int, end: int) -> str:
        topic, partition = self._where
        at = f"topic {topic!r} partition {partition}: the job is at offset {self._offset}, and the partition"
        if self._offset < first:
            return (
                f"{at} holds {first} to {end}: records {self._offset} to {first - 1} were deleted before "
                "they were read"
            )
        return (
            f"{at} ends at {end}: it was made anew, or its newest records were lost with a broker, so the "
            f"records before {self._offset} are others than those that were read"
        )


def _times(messages: list[Any]) -> Times:
    times = np.array([message.timestamp()[1] for message in messages], np.int64)
    if len(times) and times.min() < 0:
        times[times < 0] = MIN_TIME
    return times
