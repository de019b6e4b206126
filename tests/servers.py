"""Fixtures with real servers: one per test run, started by the first test that asks.

Where a server cannot run, its tests are skipped with the sentence of ``why_not()``.  Tests share the
server, so use names of your own in it.  A test that kills its server makes one of its own.  With
``PENSTOCK_TEST_SERVERS=no`` all tests with servers are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from penstock.testing.servers import (
    HdfsServer,
    KafkaServer,
    MariaDbServer,
    PostgresServer,
    RedisServer,
    Server,
)
from tests.patience import PATIENCE_S
from tests.unit.snapshot.s3_server import s3_server

S = TypeVar("S", bound=Server)

SERVERS = "PENSTOCK_TEST_SERVERS"
RUNNING_KAFKA = "PENSTOCK_TEST_KAFKA"
"""``host:port`` of a broker that runs already and is used instead of one of our own."""


@dataclass(frozen=True)
class RunningKafka:
    """A broker that others run."""

    host: str
    port: int

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"


def running(server: type[S]) -> Iterator[S]:
    """That server, for the length of a fixture."""
    skip_without(server)
    with server() as up:
        yield up


def skip_without(*servers: type[Server]) -> None:
    """Skip the test unless all of ``servers`` can run here, and are wanted."""
    if os.environ.get(SERVERS) == "no":
        pytest.skip(f"{SERVERS}=no")
    for server in servers:
        if reason := server.why_not():
            pytest.skip(reason)


@pytest.fixture(scope="session")
def hdfs_server() -> Iterator[HdfsServer]:
    """Has ``url`` for Python and ``spark_url`` for Spark."""
    yield from running(HdfsServer)


@pytest.fixture(scope="session")
def kafka_server() -> Iterator[KafkaServer | RunningKafka]:
    """Has ``host``, ``port``, ``bootstrap``."""
    if address := os.environ.get(RUNNING_KAFKA):
        host, _, port = address.rpartition(":")
        yield RunningKafka(host, int(port))
    else:
        for server in running(KafkaServer):
            _wait_for_transactions(server)
            yield server


def _wait_for_transactions(server: KafkaServer) -> None:
    """The first transaction makes the broker set up its log of them, which takes a busy machine long."""
    from confluent_kafka import Producer

    Producer({"bootstrap.servers": server.bootstrap, "transactional.id": "first"}).init_transactions(
        PATIENCE_S
    )


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDbServer]:
    """Has ``host``, ``port``, ``user``, ``password``, ``database``."""
    with pytest.MonkeyPatch.context() as patch:
        _read_certificates_once(patch)
        yield from running(MariaDbServer)


def _read_certificates_once(patch: pytest.MonkeyPatch) -> None:
    """Without a word on TLS each connection reads the machine's certificates anew: half of what it costs."""
    connection = pytest.importorskip("pymysql.connections").Connection
    make, made = connection._create_ssl_ctx, []

    def context(self: Any, options: dict[str, Any]) -> Any:
        if options:
            return make(self, options)
        if not made:
            made.append(make(self, options))
        return made[0]

    patch.setattr(connection, "_create_ssl_ctx", context)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Has ``host``, ``port``, ``user``, ``password``, ``database``."""
    yield from running(PostgresServer)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """Has ``host`` and ``port``; ``user`` and ``password`` work too, but none are needed."""
    yield from running(RedisServer)


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The URL of an empty bucket on an S3 server that all clients of this process are pointed to."""
    skip_without()
    with s3_server() as url:
        yield url
