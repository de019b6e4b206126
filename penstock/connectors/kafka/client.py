"""Settings of Kafka clients, and clients made from them.

Programs bring the property names of the Java client, since PyFlink's do; the client here is librdkafka.
:func:`client_settings` translates what has a counterpart, leaves out what has no meaning here, and says
what to write instead where a translation would be a guess.  Names of librdkafka pass as they are.

Secrets never show: the settings are a dict whose ``repr`` hides them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

from penstock.core.discreet import HIDDEN, discreet, is_secret, log_of
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.optional import require

BOOTSTRAP = "bootstrap.servers"
DISCOVERY_INTERVAL = "partition.discovery.interval.ms"
COMMIT_ON_CHECKPOINT = "commit.offsets.on.checkpoint"
CLIENT_ID_PREFIX = "client.id.prefix"
ON_TRUNCATED = "on.truncated"

_OURS = {DISCOVERY_INTERVAL, COMMIT_ON_CHECKPOINT, CLIENT_ID_PREFIX, ON_TRUNCATED}
_MEANINGLESS = {
    "default.api.timeout.ms",
    "exclude.internal.topics",
    "key.deserializer",
    "key.serializer",
    "max.block.ms",
    "max.poll.records",
    "partition.assignment.strategy",
    "register.consumer.metrics",
    "value.deserializer",
    "value.serializer",
}
_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
_IN_OTHER_WORDS = {
    "interceptor.classes": "nothing: interceptors are Java classes",
    "sasl.client.callback.handler.class": "sasl.oauthbearer.method=oidc and its settings",
    "sasl.login.callback.handler.class": "sasl.oauthbearer.method=oidc and its settings",
    "ssl.truststore.location": "ssl.ca.location, a file of PEM certificates",
    "ssl.truststore.password": "ssl.ca.location alone: PEM certificates need no password",
    "ssl.truststore.type": "ssl.ca.location, a file of PEM certificates",
    "ssl.keystore.type": "ssl.keystore.location with a PKCS#12 file, or ssl.certificate.location and "
    "ssl.key.location with PEM files",
}
_JAAS = re.compile(r'\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|(\S+?))(?=[\s;]|$)')

log = log_of(__name__)


class ClientSettings(dict[str, Any]):
    """Settings for librdkafka; shows no secrets."""

    def __repr__(self) -> str:
        return repr(redacted(self))


class ClientKind(Enum):
    """What a client does. The value is the name of its class."""

    CONSUMER = "Consumer"
    PRODUCER = "Producer"
    ADMIN = "AdminClient"


def redacted(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties as they may be shown."""
    return {name: HIDDEN if is_secret(name) else _shown(value) for name, value in properties.items()}


def _shown(value: Any) -> Any:
    return discreet(value) if isinstance(value, str) else value


def client_settings(properties: Mapping[str, Any], **ours: Any) -> ClientSettings:
    """Properties as a user gives them, in librdkafka's terms; ``ours`` win over them.

    A name in ``ours`` has underscores where the property has dots: ``group_id="g"``.
    """
    found = ClientSettings()
    for name, value in properties.items():
        if name not in _OURS and name not in _MEANINGLESS:
            found.update(_translated(name, value, properties))
    found.update({name.replace("_", "."): value for name, value in ours.items()})
    if not found.get(BOOTSTRAP):
        raise ConfigError(
            "Kafka needs the addresses of one or more brokers: set_bootstrap_servers('host:9092,host2:9092')"
        )
    return found


def _translated(name: str, value: Any, properties: Mapping[str, Any]) -> dict[str, Any]:
    if name == "sasl.jaas.config":
        return _from_jaas(str(value))
    if name == "buffer.memory":
        return {"queue.buffering.max.kbytes": max(1, int(value) // 1024)}
    if name == "ssl.endpoint.identification.algorithm":
        return {name: value or "none"}
    if name.startswith("ssl.truststore.") and properties.get("ssl.truststore.type") == "PEM":
        return {"ssl.ca.location": value} if name == "ssl.truststore.location" else _renamed(name, value)
    if name == "ssl.keystore.type" and value in ("PKCS12", "PEM"):
        return {}
    if name == "ssl.keystore.location" and str(value).lower().endswith(".jks"):
        name = "ssl.keystore.type"
    if name in _IN_OTHER_WORDS:
        raise ConfigError(
            f"the Kafka property {name!r} is one of the Java client's and has no meaning for librdkafka, "
            f"which is the client here; use {_IN_OTHER_WORDS[name]}"
        )
    return _renamed(name, value)


def _renamed(name: str, value: Any) -> dict[str, Any]:
    if name in ("ssl.truststore.type", "ssl.truststore.password"):
        return {}
    return {_RENAMED.get(name, name): value}


def _from_jaas(config: str) -> dict[str, Any]:
    """User and password out of a line of Java's login configuration."""
    values = {
        found[1]: found[3] if found[2] is None else re.sub(r"\\(.)", r"\1", found[2])
        for found in _JAAS.finditer(config)
    }
    if "username" not in values or "password" not in values:
        raise ConfigError(
            'the Kafka property \'sasl.jaas.config\' has no username="..." and password="..."; give '
            "'sasl.username' and 'sasl.password', or librdkafka's own settings for Kerberos and OAuth "
            "('sasl.kerberos.*', 'sasl.oauthbearer.*')"
        )
    return {"sasl.username": values["username"], "sasl.password": values["password"]}


class Trouble:
    """Remembers what a client said about its connections, to explain a call that timed out.

    Give its ``heard`` to a client as ``error_cb``.  Called on the threads that use the client.
    """

    def __init__(self) -> None:
        self._refused: Any = None
        self._last: Any = None

    def heard(self, error: Any) -> None:
        """The client's word on what is wrong with it."""
        codes = require("confluent_kafka", "kafka").KafkaError
        if error.code() in (codes._AUTHENTICATION, codes.SASL_AUTHENTICATION_FAILED):
            self._refused = error
        self._last = error
        log.debug("Kafka client: %s", error)

    @property
    def is_final(self) -> bool:
        """Whether there is no use in waiting: the login was refused."""
        return self._refused is not None

    @property
    def is_there(self) -> bool:
        """Whether anything was heard."""
        return self._last is not None

    def explain(self, what: str, servers: Any, error: Any = None) -> ConnectorError:
        """One sentence why ``what`` did not work, ``error`` being what the call itself said."""
        if self._refused is not None:
            return ConnectorError(
                f"{what}: the Kafka brokers at {servers} refused the login ({self._refused.str()}). Check "
                "security.protocol, sasl.mechanism, sasl.username and sasl.password.",
                code=Code.KAFKA_UNREACHABLE,
            )
        if error is not None and error.code() > 0:
            return ConnectorError(f"{what}: the Kafka brokers at {servers} refused: {error.str()}")
        said = "; ".join(dict.fromkeys(e.str() for e in (self._last, error) if e is not None))
        return ConnectorError(
            f"{what}: the Kafka brokers at {servers} do not answer ({said or 'no answer in time'}). Check "
            "bootstrap.servers, the network, and security.protocol if the brokers want TLS or a login.",
            code=Code.KAFKA_UNREACHABLE,
        )


def new_client(kind: ClientKind, settings: ClientSettings, trouble: Trouble | None = None) -> Any:
    """A client of ``confluent_kafka``; settings that it does not take are a :class:`ConfigError`."""
    module = "confluent_kafka.admin" if kind is ClientKind.ADMIN else "confluent_kafka"
    kafka = require("confluent_kafka", "kafka")
    given = {"error_cb": (trouble or Trouble()).heard, **settings}
    try:
        return getattr(require(module, "kafka"), kind.value)(given, logger=_quiet)
    except kafka.KafkaException as e:
        raise ConfigError(f"the Kafka client does not take its settings: {e.args[0].str()}") from None
    except (TypeError, ValueError) as e:
        raise ConfigError(f"the Kafka client does not take its settings: {e}") from None


_quiet = logging.getLogger("penstock.kafka.client")
"""What librdkafka logs by itself. Of no interest to most; set its level to see it."""
_quiet.setLevel(logging.CRITICAL)
