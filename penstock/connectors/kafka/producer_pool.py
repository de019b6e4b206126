"""Producers of the Kafka sink: giving them records, and making one for each transaction ahead of time.

librdkafka can neither hand a transaction over nor go on behind one that was ended elsewhere, so every
transaction has a producer object of its own.  Making one takes some milliseconds of waiting, which the
thread of the pool spends while the task works.

The trap: ``Producer.close()`` and ``abort_transaction()`` end the transaction.  A producer is let go by
dropping the last reference to it: that leaves the transaction as it is, and ends its threads.

Of records that were given to a producer the first failure is heard, if there is one.  librdkafka
reports failures only (``delivery.report.only.error``), and to one function for all records: a report for each
of millions of good records would cost more than sending them.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import repeat
from typing import Any

from penstock.connectors.kafka.client import BOOTSTRAP, ClientKind, ClientSettings, Trouble, new_client
from penstock.connectors.kafka.sink_records import Headers, Records
from penstock.connectors.kafka.transactions import ABORTED, Naming, Owner, Seen, TransactionState, leftovers
from penstock.connectors.kafka.wire import TransactionClient
from penstock.core.errors import ConnectorError
from penstock.core.optional import require

_ROOM_S = 0.05
_OVERTAKEN = (
    "A newer attempt of the job writes in its place, or the transaction was open for longer than "
    "transaction.timeout.ms."
)
_INIT_TIMEOUT_S = 30.0


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


class Lane:
    """A producer that may write one transaction, and the numbers the broker knows it by."""

    def __init__(self, transactional_id: str, settings: ClientSettings, client: TransactionClient) -> None:
        self.transactional_id = transactional_id
        self.deliveries = Deliveries()
        trouble = Trouble()
        named = ClientSettings(settings, **{"transactional.id": transactional_id})
        self.producer = new_client(ClientKind.PRODUCER, self.deliveries.settings(named), trouble)
        try:
            self.producer.init_transactions(_INIT_TIMEOUT_S)
        except require("confluent_kafka", "kafka").KafkaException as e:
            raise _no_transactions(transactional_id, settings, trouble, e.args[0]) from None
        # Sends that succeed after this look prove that these numbers are the producer's own: epochs only
        # grow, and a producer that was overtaken by another cannot write any more.
        seen = client.patiently(lambda: client.describe([transactional_id]))[transactional_id]
        if seen is None:
            raise ConnectorError(f"Kafka does not know the transactional id {transactional_id} it just gave")
        self.seen: Seen = seen

    def begin(self) -> None:
        """Begin the transaction; the broker learns of it with the first record."""
        try:
            self.producer.begin_transaction()
        except require("confluent_kafka", "kafka").KafkaException as e:
            raise ConnectorError(
                f"cannot begin the Kafka transaction {self.transactional_id}: {e.args[0].str()}"
            ) from None


class ProducerPool:
    """Gives out lanes, and uses ids again once their transactions are known to be committed."""

    def __init__(self, settings: ClientSettings, naming: Naming, own: Owner, parallelism: int) -> None:
        self._settings = settings
        self._naming = naming
        self._own = own
        self._parallelism = parallelism
        self._ids = naming.writer(own, secrets.token_hex(4))
        self._client = TransactionClient(settings)
        self._thread = ThreadPoolExecutor(1, "kafka-transactions")
        self._used: deque[tuple[str, Seen]] = deque()
        self._numbers = 0
        self._next: Future[Lane] | None = None

    def start(self) -> None:
        """Abort what older attempts left open, then begin to make the first lane."""
        self._thread.submit(self._abort_leftovers).result()
        self._next = self._thread.submit(self._make)

    def take(self) -> Lane:
        """The lane that was made ahead; waits if it is not ready."""
        assert self._next is not None, "start() comes first"
        lane, self._next = self._next.result(), None
        return lane

    def prepared(self, lane: Lane) -> None:
        """The lane's transaction waits for its commit; let go of its producer and make the next one."""
        self._next = self._thread.submit(self._follow, lane)

    def abandon(self, lane: Lane) -> None:
        """The lane's transaction shall never be committed."""
        self._thread.submit(self._client.fence, [lane.transactional_id]).result()

    def close(self) -> None:
        """End thread and connections; transactions stay as they are."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._next = None
        self._client.close()

    def _abort_leftovers(self) -> None:
        client = self._client

        def abort() -> None:
            mine = leftovers(self._naming, client.unfinished(), self._own, self._parallelism)
            if mine:
                client.fence(mine)

        client.patiently(abort)

    def _follow(self, lane: Lane) -> Lane:
        self._used.append((lane.transactional_id, lane.seen))
        del lane.producer
        return self._make()

    def _make(self) -> Lane:
        return Lane(self._committed_id() or self._new_id(), self._settings, self._client)

    def _new_id(self) -> str:
        self._numbers += 1
        return f"{self._ids}{self._numbers}"

    def _committed_id(self) -> str | None:
        """The oldest id of ours whose last transaction is committed for good, if there is one."""
        if not self._used:
            return None
        transactional_id, last = self._used[0]
        seen = self._client.patiently(lambda: self._client.describe([transactional_id]))[transactional_id]
        if seen == Seen(TransactionState.COMPLETE_COMMIT, last.producer_id, last.producer_epoch):
            self._used.popleft()
            return transactional_id
        if seen is None or seen.producer_epoch != last.producer_epoch or seen.state in ABORTED:
            self._used.popleft()  # never used again; the committer tells the loss
        return None


def _no_transactions(
    transactional_id: str, settings: ClientSettings, trouble: Trouble, error: Any
) -> ConnectorError:
    what = f"cannot open a Kafka transaction under the id {transactional_id}"
    codes = require("confluent_kafka", "kafka").KafkaError
    if error.code() == codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return ConnectorError(
            f"{what}: the brokers do not allow it to this user; allow WRITE and DESCRIBE on transactional "
            "ids that begin with the sink's transactional id prefix"
        )
    if error.code() == codes.INVALID_TRANSACTION_TIMEOUT:
        return ConnectorError(
            f"{what}: transaction.timeout.ms={settings.get('transaction.timeout.ms')} is more than the "
            "brokers' transaction.max.timeout.ms; lower the first or raise the second"
        )
    return trouble.explain(what, settings[BOOTSTRAP], error)
