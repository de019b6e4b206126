"""Gives records to a producer and hears what becomes of them: the first failure, if there is one.

librdkafka reports failures only (``delivery.report.only.error``), and to one function for all records:
a report for each of millions of good records would cost more than sending them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any

from penstock.connectors.kafka.client import ClientSettings
from penstock.connectors.kafka.sink_records import Headers, Records
from penstock.core.errors import ConnectorError
from penstock.core.optional import require

_ROOM_S = 0.05
_OVERTAKEN = (
    "A newer attempt of the job writes in its place, or the transaction was open for longer than "
    "transaction.timeout.ms."
)


class Deliveries:
    """What one producer was given and said.

    The producer is an argument, not a part: it holds on to this object's ``failed``, and must go when its
    last user drops it, not when the garbage collector finds a circle.
    """

    def __init__(self) -> None:
        self._first: ConnectorError | None = None

    def settings(self, given: ClientSettings) -> ClientSettings:
        """The producer's settings with this as its listener."""
        return ClientSettings(given, on_delivery=self.failed, **{"delivery.report.only.error": True})

    def failed(self, error: Any, message: Any) -> None:
        """A record did not arrive. Called by threads that poll or flush the producer."""
        if error is not None and self._first is None:
            self._first = _undelivered(message.topic(), error)

    def check(self) -> None:
        """Raise if a record did not arrive."""
        if self._first is not None:
            raise self._first

    def send(self, producer: Any, records: Records) -> None:
        """Queue all records; waits while the producer's queue is full."""
        with self._explained():
            if records.headers is None:
                _send_plain(producer, records)
            else:
                _send_with_headers(producer, records, records.headers)
            producer.poll(0)

    def send_rest(self, producer: Any, timeout_s: float) -> None:
        """Wait for what is under way, but not for long."""
        with self._explained():
            producer.flush(timeout_s)

    def settle(self, producer: Any) -> None:
        """Wait until every record has arrived; raise if one did not."""
        with self._explained():
            producer.flush()
        self.check()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """The client raises its fatal errors out of whatever call is running, not always with a text."""
        kafka = require("confluent_kafka", "kafka")
        try:
            yield
        except (kafka.KafkaException, kafka.KafkaError, SystemError) as e:
            self.check()
            error = e.args[0] if isinstance(e, kafka.KafkaException) else e
            if isinstance(error, SystemError):
                error = error.__cause__
            if isinstance(error, kafka.KafkaError) and error.code() != kafka.KafkaError._FATAL:
                raise _undelivered(None, error) from None
            raise ConnectorError(
                f"the Kafka producer cannot go on; its log has the reason. Most often: {_OVERTAKEN}"
            ) from None


def _each_record(records: Records) -> Iterator[tuple[Any, ...]]:
    parts = (records.topics, records.values, records.keys, records.partitions, records.times)
    return zip(*(part if isinstance(part, list) else repeat(part) for part in parts), strict=False)


def _send_plain(producer: Any, records: Records) -> None:
    produce = producer.produce
    for topic, value, key, partition, time in _each_record(records):
        try:
            produce(topic, value, key, partition, timestamp=time)
        except BufferError:
            _wait_for_room(producer, topic, value, key, partition, time)


def _send_with_headers(producer: Any, records: Records, each: Sequence[Headers | None]) -> None:
    for (topic, value, key, partition, time), headers in zip(_each_record(records), each, strict=False):
        _wait_for_room(producer, topic, value, key, partition, time, headers)


def _wait_for_room(
    producer: Any, topic: str, value: Any, key: Any, partition: int, time: int, headers: Any = None
) -> None:
    more = {} if headers is None else {"headers": headers}
    while True:
        try:
            producer.produce(topic, value, key, partition, timestamp=time, **more)
            return
        except BufferError:
            producer.poll(_ROOM_S)


def _undelivered(topic: str | None, error: Any) -> ConnectorError:
    where = "Kafka" if topic is None else f"the Kafka topic {topic!r}"
    return ConnectorError(f"a record for {where} was not delivered: {error.str()}.{_hint(error)}")


def _hint(error: Any) -> str:
    codes = require("confluent_kafka", "kafka").KafkaError
    hints = {
        codes.MSG_SIZE_TOO_LARGE: "Raise max.request.size of the sink, and max.message.bytes of the topic.",
        codes.TOPIC_AUTHORIZATION_FAILED: "Allow WRITE and DESCRIBE on the topic to this user.",
        codes.CLUSTER_AUTHORIZATION_FAILED: "Allow WRITE on the topic to this user, and with brokers before "
        "2.8 IDEMPOTENT_WRITE on the cluster.",
        codes.UNKNOWN_TOPIC_OR_PART: "Create the topic, or check its name.",
        codes._UNKNOWN_TOPIC: "Create the topic, or check its name.",
        codes._UNKNOWN_PARTITION: "Check what the record schema's partition() returns.",
        codes._MSG_TIMED_OUT: "The brokers did not acknowledge it within delivery.timeout.ms.",
        codes._PURGE_QUEUE: f"Its transaction failed. {_OVERTAKEN} Or this user may not write one of the "
        "topics in it: allow WRITE and DESCRIBE on them.",
        codes._FENCED: _OVERTAKEN,
        codes.INVALID_PRODUCER_EPOCH: _OVERTAKEN,
    }
    hint = hints.get(error.code())
    return "" if hint is None else f" {hint}"
