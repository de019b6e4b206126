"""Writers of the Kafka sink: one that waits for acknowledgements, and one that writes transactions.

Exactly once, on a barrier, in this order:

1. flush: everything is sent, and the brokers have acknowledged every record;
2. prepare: the transaction is left open and becomes the committable, by the numbers the broker knows it by;
3. the producer is let go, and the next transaction gets another.

A barrier without records prepares nothing: the open producer stays for the next epoch.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from penstock.connectors.kafka.client import ClientKind, ClientSettings, new_client
from penstock.connectors.kafka.producer_pool import Deliveries, Lane, ProducerPool
from penstock.connectors.kafka.sink_records import RecordEncoder
from penstock.connectors.kafka.transactions import Naming, Owner, PreparedTransaction
from penstock.connectors.kafka.wire import Unavailable
from penstock.connectors.sink import SinkWriter
from penstock.core.batch import Batch
from penstock.core.discreet import log_of
from penstock.core.errors import ConnectorError
from penstock.core.ids import Epoch

_LAST_S = 5.0

log = log_of(__name__)


class AppendingWriter(SinkWriter):
    """No transactions: records are visible as soon as they arrive.

    At least once waits for all acknowledgements on every barrier, without a guarantee only at the end.
    """

    def __init__(self, settings: ClientSettings, encoder: RecordEncoder, wait_on_barrier: bool) -> None:
        self._encoder = encoder
        self._wait_on_barrier = wait_on_barrier
        self._deliveries = Deliveries()
        self._producer = new_client(ClientKind.PRODUCER, self._deliveries.settings(settings))

    def write(self, batch: Batch) -> None:
        self._deliveries.check()
        self._deliveries.send(self._producer, self._encoder.encode(batch))

    def flush(self, end_of_input: bool) -> None:
        if self._wait_on_barrier or end_of_input:
            self._deliveries.settle(self._producer)
        self._deliveries.check()

    def close(self) -> None:
        with suppress(ConnectorError):
            if not self._wait_on_barrier:  # a job that is stopped will not send again what is under way
                self._deliveries.send_rest(self._producer, _LAST_S)
        self._producer.purge()
        self._producer.flush(0)


class TransactionalWriter(SinkWriter):
    """Exactly once: one transaction per epoch, left open for the committer."""

    def __init__(
        self,
        settings: ClientSettings,
        encoder: RecordEncoder,
        naming: Naming,
        own: Owner,
        parallelism: int,
    ) -> None:
        self._encoder = encoder
        self._timeout_ms = int(settings["transaction.timeout.ms"])
        self._supply = ProducerPool(settings, naming, own, parallelism)
        self._lane: Lane | None = None
        self._records = 0
        self._topics: set[str] = set()
        try:
            self._supply.start()
        except BaseException:
            self._supply.close()
            raise

    def write(self, batch: Batch) -> None:
        lane = self._lane
        if lane is None:
            lane = self._lane = self._supply.take()
            lane.begin()
        lane.deliveries.check()
        records = self._encoder.encode(batch)
        lane.deliveries.send(lane.producer, records)
        self._records += len(records.values)
        self._topics |= records.topic_names()

    def flush(self, end_of_input: bool) -> None:
        if self._lane is not None:
            self._lane.deliveries.settle(self._lane.producer)

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        lane = self._lane
        if lane is None:
            return []
        prepared = PreparedTransaction(
            lane.transactional_id,
            lane.seen.producer_id,
            lane.seen.producer_epoch,
            int(epoch),
            self._records,
            tuple(sorted(self._topics)),
            self._timeout_ms,
        )
        self._lane, self._records, self._topics = None, 0, set()
        self._supply.prepared(lane)
        return [prepared]

    def close(self) -> None:
        lane, self._lane = self._lane, None
        try:
            if lane is not None:
                lane.producer.purge()
                self._supply.abandon(lane)
        except (Unavailable, ConnectorError) as e:
            log.info("an open Kafka transaction is left to the next attempt, or to its timeout: %s", e)
        finally:
            self._supply.close()
