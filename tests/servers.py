"""Fixtures with real servers: one per test run, started by the first test that asks.

Where a server cannot run, its tests are skipped with the sentence of ``why_not()``.  Tests share the
server, so use names of your own in it.  A test that kills its server makes one of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import pytest

from penstock.testing.servers import (
    HdfsServer,
    KafkaServer,
    MariaDbServer,
    PostgresServer,
    RedisServer,
    Server,
)
from tests.unit.snapshot.s3_server import s3_server

S = TypeVar("S", bound=Server)

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
    """Skip the test unless all of ``servers`` can run here."""
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
        yield from running(KafkaServer)


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDbServer]:
    """Has ``host``, ``port``, ``user``, ``password``, ``database``."""
    yield from running(MariaDbServer)


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
    with s3_server() as url:
        yield url
