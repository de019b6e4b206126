"""What can be known to be wrong with a Kafka sink before its job starts."""

from __future__ import annotations

import logging
from collections.abc import Container, Sequence
from typing import Any

from penstock.connectors.kafka.admin import Brokers
from penstock.connectors.kafka.client import ClientKind, ClientSettings, new_client
from penstock.connectors.kafka.wire import TransactionClient
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.optional import require

_PATIENCE_S = 10.0
_USUAL_MAX_TIMEOUT_MS = 900_000
"""``transaction.max.timeout.ms`` of brokers that were not told otherwise."""

log = logging.getLogger("penstock.kafka")


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
            "create topics by themselves: create it, or allow WRITE and DESCRIBE on it to this user"
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
