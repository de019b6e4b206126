"""Reading one partition, from an offset on and, if bounded, up to one.

Offsets have gaps: transaction markers and aborted records take up offsets and are never delivered.  So the
end of a bounded read is not "the record before ``stop`` came": it may never come.  It is that a record at
or behind ``stop`` came, or that the consumer says it has come that far and there is nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.connectors.decoding import decode_batch
from penstock.connectors.kafka.client import log
from penstock.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaTopicPartition, out_of_range
from penstock.connectors.kafka.reader_decode import MessageDecoder
from penstock.connectors.kafka.reader_feed import Feed
from penstock.connectors.on_error import BadRecords, Diverted
from penstock.connectors.source import EndOfSplit, SplitReader
from penstock.core.batch import Batch, Times
from penstock.core.errors import ConnectorError
from penstock.core.ids import MIN_TIME
from penstock.core.optional import require

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


@dataclass(frozen=True, slots=True)
class RangeToRead:
    """The partition, where to begin, where to stop, and what to do if the beginning is gone."""

    where: KafkaTopicPartition
    start: int
    stop: int | None
    reset: KafkaOffsetResetStrategy

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read."""
        return self.stop is not None and self.start >= self.stop


class KafkaReader(SplitReader):
    """Reads one partition out of a feed that it shares with the other readers of the subtask.

    Without a feed it is at its end.
    """

    def __init__(
        self, feed: Feed | None, wanted: RangeToRead, decoder: MessageDecoder, bad: BadRecords, commits: bool
    ) -> None:
        self._errors = require("confluent_kafka", "kafka").KafkaError
        self._where = wanted.where
        self._offset = wanted.start
        self._stop = wanted.stop
        self._reset = wanted.reset
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
        elif error.code() in (self._errors._AUTO_OFFSET_RESET, self._errors.OFFSET_OUT_OF_RANGE):
            self._out_of_range()
        elif error.name() in _PASSING:
            log.info("topic %r partition %d: %s", *self._where, error.str())
        else:
            topic, partition = self._where
            raise ConnectorError(
                f"topic {topic!r} partition {partition}, offset {self._offset}: cannot be read: {error.str()}"
            )

    def _out_of_range(self) -> None:
        assert self._feed is not None
        first, end = self._feed.bounds(self._where, _LOOKUP_S)
        known = f"the partition holds {first} to {end}"
        if self._reset is KafkaOffsetResetStrategy.NONE:
            raise out_of_range(self._where, self._offset, known)
        to = first if self._reset is KafkaOffsetResetStrategy.EARLIEST else end
        log.warning(
            "topic %r partition %d: offset %d is gone (%s); reading goes on at %d, what lay between is lost",
            *self._where,
            self._offset,
            known,
            to,
        )
        self._offset = to
        self._feed.move(self._where, to)


def _times(messages: list[Any]) -> Times:
    times = np.array([message.timestamp()[1] for message in messages], np.int64)
    if len(times) and times.min() < 0:
        times[times < 0] = MIN_TIME
    return times
