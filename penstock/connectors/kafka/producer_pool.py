"""Producers for one transaction each, made ahead of time on a thread of their own.

librdkafka can neither hand a transaction over nor go on behind one that was ended elsewhere, so every
transaction has a producer object of its own.  Making one takes some milliseconds of waiting, which this
thread spends while the task works.

The trap: ``Producer.close()`` and ``abort_transaction()`` end the transaction.  A producer is let go by
dropping the last reference to it: that leaves the transaction as it is, and ends its threads.
"""

from __future__ import annotations

import secrets
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from penstock.connectors.kafka.client import BOOTSTRAP, ClientKind, ClientSettings, Trouble, new_client
from penstock.connectors.kafka.transactions import ABORTED, Naming, Owner, Seen, TransactionState, leftovers
from penstock.connectors.kafka.wire import TransactionClient
from penstock.connectors.kafka.writer_delivery import Deliveries
from penstock.core.errors import ConnectorError
from penstock.core.optional import require

_INIT_TIMEOUT_S = 30.0


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


class Supply:
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
