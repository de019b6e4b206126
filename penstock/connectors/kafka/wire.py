"""Requests to transaction coordinators that librdkafka does not offer, over ``kafka-python``.

Committing a transaction that another process left open is one request, EndTxn, with the numbers that
process had.  It is sent in version 3 at most: from version 5 on the broker would give the producer a new
epoch with every commit, and the rules of ``transactions.py`` count epochs.

One client has one thread of its own for the network; its methods are called from one thread at a time.

The settings of librdkafka are put into the terms of ``kafka-python``.  Both clients log in with the same
rights, so a program says everything once.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from penstock.connectors.kafka.client import BOOTSTRAP
from penstock.connectors.kafka.transactions import PreparedTransaction, Seen, TransactionState
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.optional import require
from penstock.core.retrying import retry, steadily

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")
T = TypeVar("T")
_TRANSACTION = 1
_PAUSE_S = 0.1
_UNKNOWN_ID = (105, 49)
_FENCED = (90, 47, 48)
_CONCURRENT = 51
_NOT_NOW = (7, 13, 14, 15, 16, _CONCURRENT, 72, 82)
"""Timed out, broken connection, coordinator loading, none, another one, busy, listener, leader epoch."""
_TIMEOUT_TOO_LONG = 50
_UNMARKED_MS = 1_000
"""For brokers that allow transactions to be open only for less than the marks of fences are."""
_FORBIDDEN = (29, 31, 53, 58)


def wire_settings(settings: Mapping[str, Any], timeout_ms: int) -> dict[str, Any]:
    """Keyword arguments for a connection of ``kafka-python``."""
    protocol = str(settings.get("security.protocol", "PLAINTEXT")).upper()
    found: dict[str, Any] = {
        "bootstrap_servers": [server.strip() for server in str(settings[BOOTSTRAP]).split(",")],
        "client_id": str(settings.get("client.id", "penstock")),
        "security_protocol": protocol,
        "request_timeout_ms": timeout_ms,
        "reconnect_backoff_max_ms": 1_000,
    }
    if "SSL" in protocol:
        found["ssl_context"] = _tls(settings)
    if protocol.startswith("SASL"):
        found.update(_login(settings))
    return found


def _login(settings: Mapping[str, Any]) -> dict[str, Any]:
    mechanism = str(settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "GSSAPI"))).upper()
    if mechanism not in _MECHANISMS:
        raise ConfigError(
            f"a Kafka sink that writes EXACTLY_ONCE can log in with {', '.join(_MECHANISMS)}, not with "
            f"{mechanism}; choose one of these, or AT_LEAST_ONCE"
        )
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": settings.get("sasl.username"),
        "sasl_plain_password": settings.get("sasl.password"),
        "sasl_kerberos_service_name": settings.get("sasl.kerberos.service.name", "kafka"),
    }


def _tls(settings: Mapping[str, Any]) -> ssl.SSLContext:
    if "ssl.keystore.location" in settings:
        raise ConfigError(
            "a Kafka sink that writes EXACTLY_ONCE reads its certificate from PEM files: give "
            "ssl.certificate.location and ssl.key.location instead of ssl.keystore.location"
        )
    context = ssl.create_default_context(
        cafile=settings.get("ssl.ca.location"), cadata=settings.get("ssl.ca.pem")
    )
    if str(settings.get("ssl.endpoint.identification.algorithm", "https")).lower() == "none":
        context.check_hostname = False
    if str(settings.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _load_certificate(context, settings)
    return context


def _load_certificate(context: ssl.SSLContext, settings: Mapping[str, Any]) -> None:
    password = settings.get("ssl.key.password")
    if "ssl.certificate.location" in settings:
        context.load_cert_chain(
            settings["ssl.certificate.location"], settings.get("ssl.key.location"), password
        )
    elif "ssl.certificate.pem" in settings:
        with tempfile.TemporaryDirectory() as place:  # Python reads certificates from files only
            both = Path(place) / "client.pem"
            both.touch(mode=0o600)
            both.write_text(f"{settings['ssl.certificate.pem']}\n{settings.get('ssl.key.pem', '')}\n")
            context.load_cert_chain(both, password=password)


class Unavailable(Exception):
    """The coordinator cannot answer now; trying again later may help."""


class EndAnswer(Enum):
    """What the coordinator said to a commit."""

    DONE = "done"
    REFUSED = "refused"
    """The transaction is not open under these numbers; what became of it must be looked up."""
    NOT_NOW = "not now"


class TransactionClient:
    """Asks transaction coordinators. Connects on first use, and anew after trouble."""

    def __init__(self, settings: Mapping[str, Any], timeout_ms: int = 10_000) -> None:
        self._servers = settings[BOOTSTRAP]
        self._settings = wire_settings(settings, timeout_ms)
        self._timeout_ms = timeout_ms
        self._link: _Link | None = None

    def describe(self, ids: Sequence[str]) -> dict[str, Seen | None]:
        """What coordinators know about each id; ``None`` for one they do not know."""
        return self._call(lambda link: link.describe(ids))

    def commit(self, transactions: Sequence[PreparedTransaction]) -> list[EndAnswer]:
        """Ask to commit each; asked in the given order, answers in the same order."""
        return self._call(lambda link: link.commit(transactions))

    def fence(self, ids: Sequence[str]) -> None:
        """Abort what is open under each id and lock out whoever wrote it."""
        self._call(lambda link: link.fence(ids))

    def unfinished(self) -> dict[str, TransactionState]:
        """The ids of the cluster, as far as we may see them, with a transaction that is open or not begun."""
        return self._call(lambda link: link.unfinished())

    def patiently(self, ask: Callable[[], T], patience_s: float = 30.0) -> T:
        """``ask`` until there is an answer: coordinators move and load, which takes moments."""
        pauses = steadily(_PAUSE_S, patience_s, SystemClock())
        try:
            return retry(ask, Unavailable, pauses)
        except Unavailable as e:
            raise ConnectorError(
                f"the Kafka brokers at {self._servers} do not answer requests about transactions: {e}"
            ) from e

    def close(self) -> None:
        """Give connection and thread back."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _call(self, ask: Callable[[_Link], Awaitable[T]]) -> T:
        errors = require("kafka.errors", "kafka")
        try:
            if self._link is None:
                self._link = _Link(self._settings, self._timeout_ms)
            return self._link.run(ask)
        except errors.SaslAuthenticationFailedError as e:
            self.close()
            raise ConnectorError(
                f"the Kafka brokers at {self._servers} refused the login for transactions ({e}). Check "
                "security.protocol, sasl.mechanism, sasl.username and sasl.password."
            ) from None
        except (errors.KafkaError, OSError) as e:
            self.close()
            raise Unavailable(f"{type(e).__name__}: {e}") from e


class _Link:
    """Connections to the brokers of a cluster, and the requests we know."""

    def __init__(self, settings: dict[str, Any], timeout_ms: int) -> None:
        self._net = require("kafka.net.selector", "kafka").NetworkSelector(**settings)
        self._manager = require("kafka.net.manager", "kafka").KafkaConnectionManager(self._net, **settings)
        self._transactions = require("kafka.protocol.producer.transaction", "kafka")
        self._admin = require("kafka.protocol.admin.transactions", "kafka")
        self._metadata = require("kafka.protocol.metadata", "kafka")
        self._net.start()
        try:
            self._manager.bootstrap(timeout_ms)
        except BaseException:
            self.close()
            raise

    def run(self, ask: Callable[[_Link], Awaitable[T]]) -> T:
        """Run a request on the network's thread and wait for it."""
        answer: T = self._manager.run(ask, self)
        return answer

    def close(self) -> None:
        self._manager.close()
        self._net.stop()
        self._net.close()  # or its sockets wait for the garbage collector

    async def describe(self, ids: Sequence[str]) -> dict[str, Seen | None]:
        found: dict[str, Seen | None] = {}
        for node, names in _by_node(await self._coordinators(ids)).items():
            request = self._admin.DescribeTransactionsRequest(transactional_ids=names)
            answer = await self._manager.send(request, node_id=node)
            for row in answer.transaction_states:
                if row.error_code in _UNKNOWN_ID:
                    found[row.transactional_id] = None
                    continue
                _check(row.error_code, row.transactional_id)
                state = TransactionState(row.transaction_state)
                found[row.transactional_id] = Seen(
                    state, row.producer_id, row.producer_epoch, row.transaction_timeout_ms
                )
        return found

    async def commit(self, transactions: Sequence[PreparedTransaction]) -> list[EndAnswer]:
        nodes = await self._coordinators([item.transactional_id for item in transactions])
        sent = []
        for item in transactions:
            request = self._transactions.EndTxnRequest(
                transactional_id=item.transactional_id,
                producer_id=item.producer_id,
                producer_epoch=item.producer_epoch,
                committed=True,
                max_version=3,
            )
            sent.append(self._manager.send(request, node_id=nodes[item.transactional_id]))
        answers = [(await answer).error_code for answer in sent]
        return [_meaning(code, item) for code, item in zip(answers, transactions, strict=True)]

    async def fence(self, ids: Sequence[str]) -> None:
        for name, seen in (await self.describe(ids)).items():
            if seen is not None and seen.needs_fence:
                await self.fence_as_seen(name, seen)

    async def fence_as_seen(self, name: str, seen: Seen) -> None:
        """Fence an id that was ``seen`` like this; what has become of it since does not matter."""
        node = (await self._coordinators([name]))[name]
        for timeout in (seen.fence_timeout_ms, _UNMARKED_MS):
            request = self._transactions.InitProducerIdRequest(
                transactional_id=name, transaction_timeout_ms=timeout, max_version=4
            )
            code = (await self._manager.send(request, node_id=node)).error_code
            if code != _TIMEOUT_TOO_LONG:
                break
        # Busy means that the abort has begun. Asking again would raise the epoch once more.
        if code != _CONCURRENT and code not in _FENCED:
            _check(code, name)

    async def unfinished(self) -> dict[str, TransactionState]:
        found: dict[str, TransactionState] = {}
        wanted = [TransactionState.ONGOING.value, TransactionState.EMPTY.value]
        for broker in self._manager.cluster.brokers():
            request = self._admin.ListTransactionsRequest(
                state_filters=wanted, producer_id_filters=[], max_version=0
            )
            answer = await self._manager.send(request, node_id=broker.node_id)
            _check(answer.error_code, "the list of transactions")
            rows = answer.transaction_states
            found |= {row.transactional_id: TransactionState(row.transaction_state) for row in rows}
        return found

    async def _coordinators(self, ids: Sequence[str]) -> dict[str, int]:
        request = self._metadata.FindCoordinatorRequest(
            key_type=_TRANSACTION, coordinator_keys=list(dict.fromkeys(ids)), min_version=4
        )
        answer = await self._manager.send(request)
        for row in answer.coordinators:
            _check(row.error_code, row.key)
        return {row.key: row.node_id for row in answer.coordinators}


def _by_node(nodes: dict[str, int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for name, node in nodes.items():
        found.setdefault(node, []).append(name)
    return found


def _meaning(code: int, item: PreparedTransaction) -> EndAnswer:
    if code == 0:
        return EndAnswer.DONE
    if code in _FENCED or code in _UNKNOWN_ID:
        return EndAnswer.REFUSED
    if code in _NOT_NOW:
        return EndAnswer.NOT_NOW
    _check(code, item.transactional_id)
    raise AssertionError(code)


def _check(code: int, what: str) -> None:
    """Raise unless the broker's answer is a good one."""
    if code == 0:
        return
    error = require("kafka.errors", "kafka").for_code(code)
    if code in _FORBIDDEN:
        raise ConnectorError(
            f"the Kafka brokers do not allow this user to use {what!r} ({error.__name__}); allow WRITE and "
            "DESCRIBE on transactional ids that begin with the sink's transactional id prefix"
        )
    if code in _NOT_NOW:
        raise Unavailable(f"{what}: {error.__name__}")
    raise ConnectorError(f"Kafka's transaction coordinator refused a request for {what!r}: {error.__name__}")
