"""Kafka topics as a sink, with one of three guarantees.

Read ``sink_records.py`` (what is sent), ``writer.py`` (how), ``transactions.py`` (what a prepared transaction
is and how its fate is told).  The argument for exactly once is design note 014.  What can be known to be
wrong before the job starts is looked for on the driver.

Prepared transactions are committed on the driver, also those of processes that are no more.  For each
committable, in this order:

1. Look: what does the coordinator say about the id?
2. Waits for its commit: ask for it.  Committed, or used again since: done before.
3. Refused, since it was aborted between 1 and 2: look once more.
4. Aborted, or forgotten: the records are lost, and the log says which and why.

Whatever a coordinator cannot answer now is tried again later by the engine.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from penstock.connectors.kafka.admin import Brokers
from penstock.connectors.kafka.client import ClientKind, ClientSettings, client_settings, log, new_client
from penstock.connectors.kafka.sink_records import RecordEncoder
from penstock.connectors.kafka.transactions import (
    Fate,
    Naming,
    Owner,
    PreparedTransaction,
    check_prefix,
    fate,
    leftovers,
)
from penstock.connectors.kafka.wire import EndAnswer, TransactionClient, Unavailable
from penstock.connectors.kafka.writer import AppendingWriter, TransactionalWriter
from penstock.connectors.sink import (
    CommitOutcome,
    Committer,
    DeliveryGuarantee,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.optional import require

_PATIENCE_S = 10.0
_USUAL_MAX_TIMEOUT_MS = 900_000
"""``transaction.max.timeout.ms`` of brokers that were not told otherwise."""
TRANSACTION_TIMEOUT = "transaction.timeout.ms"
_TRANSACTION_TIMEOUT_MS = 3_600_000
_DELIVERY_TIMEOUT_MS = 120_000
_DELIVERY_TIMEOUTS = ("message.timeout.ms", "delivery.timeout.ms")
_ACKS = ("acks", "request.required.acks")
_ACKNOWLEDGEMENTS = (*_ACKS, "enable.idempotence")


class KafkaCommitter(Committer):
    """Sends the commits that writers could not send themselves. Idempotent."""

    def __init__(self, settings: Mapping[str, Any], prefix: str, timeout_ms: int = 10_000) -> None:
        self._client = TransactionClient(settings, timeout_ms)
        self._prefix = prefix

    def commit(self, committables: Sequence[PreparedTransaction]) -> Sequence[CommitOutcome]:
        outcomes = [CommitOutcome.RETRY] * len(committables)
        try:
            open_ones = self._look(committables, range(len(committables)), outcomes)
            refused = self._send(committables, open_ones, outcomes)
            self._look(committables, refused, outcomes)
        except Unavailable as e:
            waiting = outcomes.count(CommitOutcome.RETRY)
            log.warning("%d Kafka transactions cannot be committed yet: %s", waiting, e)
        return outcomes

    def abandon(self, job_name: str, sink_id: str, generation: int) -> None:
        """Until their timeout, open transactions would hold up readers of committed records."""
        naming = Naming(self._prefix, job_name, sink_id)
        left = leftovers(naming, self._client.unfinished(), Owner(0, generation + 1), parallelism=1)
        if left:
            self._client.fence(left)

    def close(self) -> None:
        self._client.close()

    def _look(
        self,
        committables: Sequence[PreparedTransaction],
        places: Sequence[int],
        outcomes: list[CommitOutcome],
    ) -> list[int]:
        """Settle what is settled; gives the places of those that are open."""
        if not places:
            return []
        seen = self._client.describe([committables[place].transactional_id for place in places])
        waiting = []
        for place in places:
            prepared = committables[place]
            found = fate(prepared, seen.get(prepared.transactional_id))
            if found is Fate.OPEN:
                waiting.append(place)
            elif found is Fate.COMMITTED:
                outcomes[place] = CommitOutcome.ALREADY_COMMITTED
            else:
                log.error(_loss(prepared, found))
                outcomes[place] = CommitOutcome.DROPPED
        return waiting

    def _send(
        self,
        committables: Sequence[PreparedTransaction],
        places: Sequence[int],
        outcomes: list[CommitOutcome],
    ) -> list[int]:
        """Ask for commits; gives the places of those that were refused."""
        if not places:
            return []
        answers = self._client.commit([committables[place] for place in places])
        for place, answer in zip(places, answers, strict=True):
            if answer is EndAnswer.DONE:
                outcomes[place] = CommitOutcome.COMMITTED
        return [place for place, answer in zip(places, answers, strict=True) if answer is EndAnswer.REFUSED]


def _loss(prepared: PreparedTransaction, found: Fate) -> str:
    if found is Fate.LOST:
        return (
            f"DATA LOSS: {prepared} {found.value} by the broker before it could be committed, most likely "
            f"because it was open for longer than transaction.timeout.ms={prepared.timeout_ms}. Set "
            "transaction.timeout.ms of the sink (and transaction.max.timeout.ms of the brokers) to more than "
            "the checkpoint interval plus the longest time the job may be down, or start the job from an "
            "older snapshot to write these records again. They are skipped now."
        )
    return (
        f"POSSIBLE DATA LOSS: {prepared} {found.value}, so nobody can tell whether it was committed: "
        "brokers forget ids that were idle for transactional.id.expiration.ms (7 days by default). If the "
        "snapshot is older than that and the job went on after it, it was committed back then."
    )


def check_brokers(settings: ClientSettings, topics: Sequence[str]) -> dict[str, str]:
    """Ask for the brokers and the topics; gives what a broker tells of its settings, if it may be asked."""
    known = Brokers(settings, None).topics()
    admin = new_client(ClientKind.ADMIN, settings)
    told = _broker_settings(admin, next(iter(admin.list_topics(timeout=_PATIENCE_S).brokers)))
    for topic in topics:
        _check_topic(topic, known, told)
    _check_rights(admin, [topic for topic in topics if topic in known])
    return told


def allowed_timeout(wanted: int, brokers: dict[str, str]) -> int:
    """As long as a transaction is wanted to stay open, or as the brokers allow, if that is less."""
    told = brokers.get("transaction.max.timeout.ms")
    allowed = _USUAL_MAX_TIMEOUT_MS if told is None else int(told)
    if allowed >= wanted:
        return wanted
    log.warning(
        "transaction.timeout.ms of the Kafka sink is %d, %s: output that is prepared and then not committed "
        "for longer is lost, so the job must not be down for longer. Raise transaction.max.timeout.ms on the "
        "brokers to have more; a timeout that the program sets is taken as it is",
        allowed,
        "which brokers usually allow; these do not say" if told is None else "all that the brokers allow",
    )
    return allowed


def check_transactions(settings: ClientSettings, prefix: str, brokers: dict[str, str]) -> None:
    """See that transactions may be open for as long as the sink wants, and that the driver may end them."""
    wanted = int(settings["transaction.timeout.ms"])
    allowed = int(brokers.get("transaction.max.timeout.ms", wanted))
    if wanted > allowed:
        raise ConfigError(
            f"transaction.timeout.ms of the Kafka sink is {wanted} and the brokers allow {allowed} "
            "(transaction.max.timeout.ms): call set_property('transaction.timeout.ms', ...) with at most "
            "that, or raise it on the brokers. It must be more than the checkpoint interval plus the longest "
            "time the job may be down: the brokers abort what is open for longer, and its records are lost."
        )
    client = TransactionClient(settings)
    try:
        client.patiently(lambda: client.describe([f"{prefix}-check"]), _PATIENCE_S)
    finally:
        client.close()


def _broker_settings(admin: Any, broker: int) -> dict[str, str]:
    kafka = require("confluent_kafka.admin", "kafka")
    resource = kafka.ConfigResource(kafka.ConfigResource.Type.BROKER, str(broker))
    try:
        found = admin.describe_configs([resource], request_timeout=_PATIENCE_S)[resource].result()
    except require("confluent_kafka", "kafka").KafkaException as e:
        log.info("the Kafka brokers do not tell their settings (%s): they are not checked", e.args[0].str())
        return {}
    return {name: entry.value for name, entry in found.items() if entry.value is not None}


def _check_topic(topic: str, known: Container[str], told: dict[str, str]) -> None:
    if topic in known:
        return
    if told.get("auto.create.topics.enable") != "true":
        raise ConnectorError(
            f"the Kafka topic {topic!r} does not exist, or this user may not see it, and the brokers do not "
            "create topics by themselves: create it, or allow WRITE and DESCRIBE on it to this user",
            code=Code.NO_TOPIC,
        )
    log.info("the Kafka topic %s does not exist yet; the brokers create it", topic)


def _check_rights(admin: Any, topics: list[str]) -> None:
    """See that the user may write; brokers without access rules say that everybody may do everything."""
    if not topics:
        return
    kafka = require("confluent_kafka", "kafka")
    asked = admin.describe_topics(
        kafka.TopicCollection(topics), include_authorized_operations=True, request_timeout=_PATIENCE_S
    )
    write = require("confluent_kafka.admin", "kafka").AclOperation.WRITE
    for topic, answer in asked.items():
        try:
            allowed = answer.result().authorized_operations
        except kafka.KafkaException as e:
            raise ConnectorError(
                f"the Kafka topic {topic!r} cannot be looked at: {e.args[0].str()}"
            ) from None
        if allowed is not None and write not in allowed:
            raise ConnectorError(f"this user may not write the Kafka topic {topic!r}: allow WRITE on it")


class KafkaRecordSink(Sink):
    """Sends what ``encoder`` makes of the records to the brokers that ``properties`` name."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        encoder: RecordEncoder,
        guarantee: DeliveryGuarantee = DeliveryGuarantee.NONE,
        transactional_id_prefix: str | None = None,
    ) -> None:
        self._guarantee = DeliveryGuarantee[guarantee.name]  # CheckpointingMode has the same names
        self._exactly_once = self._guarantee is DeliveryGuarantee.EXACTLY_ONCE
        self._encoder = encoder
        self._properties = ClientSettings(properties)
        self._settings = producer_settings(properties, self._guarantee)
        self._prefix = ""
        if self._exactly_once:
            self._prefix = check_prefix(transactional_id_prefix)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        if self._exactly_once:
            naming = Naming(self._prefix, context.job_name, context.sink_id)
            own = Owner(context.subtask, context.generation)
            return TransactionalWriter(self._settings, self._encoder, naming, own, context.parallelism)
        return AppendingWriter(
            self._settings, self._encoder, wait_on_barrier=self._guarantee is DeliveryGuarantee.AT_LEAST_ONCE
        )

    def create_committer(self) -> Committer | None:
        return KafkaCommitter(self._settings, self._prefix) if self._exactly_once else None

    def check(self) -> None:
        brokers = check_brokers(self._settings, self._encoder.topics())
        if self._exactly_once:
            if TRANSACTION_TIMEOUT not in self._properties:
                timeout = allowed_timeout(_TRANSACTION_TIMEOUT_MS, brokers)
                given = {**self._properties, TRANSACTION_TIMEOUT: timeout}
                self._settings = producer_settings(given, self._guarantee)
            check_transactions(self._settings, self._prefix, brokers)

    def check_interval(self, interval_ms: int | None) -> None:
        timeout = int(self._settings.get(TRANSACTION_TIMEOUT, 0))
        if self._exactly_once and interval_ms is not None and interval_ms >= timeout:
            raise ConfigError(
                f"the checkpoint interval is {interval_ms} ms and {TRANSACTION_TIMEOUT} of the Kafka sink is "
                f"{timeout}: transactions are committed by checkpoints, so the brokers would abort each one "
                "before that, and its records would be lost. Set the timeout to more than the interval plus "
                "the longest time the job may be down."
            )

    def check_patience(self, longest_ms: int) -> None:
        timeout = int(self._settings.get(TRANSACTION_TIMEOUT, longest_ms))
        if self._exactly_once and timeout < longest_ms:
            log.warning(
                "%s of the Kafka sink is %d, and a transaction may have to wait for %d ms: a checkpoint "
                "interval, a checkpoint that takes as long as execution.checkpointing.timeout lets it, and "
                "the longest pause before a restart. The brokers abort what is open for longer, and its "
                "records are lost. Raise the timeout (and transaction.max.timeout.ms of the brokers), or "
                "lower these",
                TRANSACTION_TIMEOUT,
                timeout,
                longest_ms,
            )


def producer_settings(properties: Mapping[str, Any], guarantee: DeliveryGuarantee) -> ClientSettings:
    """The settings of the sink's producers: the given ones over our defaults.

    Keys go to the partitions that the Java client would choose (``murmur2_random``).
    """
    given = client_settings(properties)
    if "transactional.id" in given:
        raise ConfigError(
            "the Kafka sink makes transactional ids of its own: set_transactional_id_prefix(...) instead of "
            "the property 'transactional.id'"
        )
    if guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
        _refuse_unacknowledged(given)
    settings = ClientSettings({"partitioner": "murmur2_random", **given})
    longest = _DELIVERY_TIMEOUT_MS
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        settings.setdefault(TRANSACTION_TIMEOUT, _TRANSACTION_TIMEOUT_MS)
        # A producer that waits for a reason to connect needs 55 to 500 ms for its first transaction, not 5.
        settings.setdefault("enable.sparse.connections", False)
        longest = min(longest, _number(settings, TRANSACTION_TIMEOUT))
    else:
        settings.pop(TRANSACTION_TIMEOUT, None)
        if not any(name in settings for name in _ACKNOWLEDGEMENTS):
            settings["enable.idempotence"] = True
    if not any(name in settings for name in _DELIVERY_TIMEOUTS):
        settings["message.timeout.ms"] = longest
    return settings


def _refuse_unacknowledged(settings: ClientSettings) -> None:
    for name in _ACKS:
        if str(settings.get(name, "all")).strip() == "0":
            raise ConfigError(
                f"AT_LEAST_ONCE waits for acknowledgements, and with the property {name!r} = 0 the Kafka "
                f"brokers send none: records would be lost and nobody would know. Leave {name!r} out, which "
                "waits for all replicas, or choose DeliveryGuarantee.NONE."
            )


def _number(settings: ClientSettings, name: str) -> int:
    try:
        return int(settings[name])
    except ValueError:
        raise ConfigError(f"the Kafka property {name!r} is a number of milliseconds") from None
