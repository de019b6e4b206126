"""Both databases behind one face, for the tests of the sinks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.connectors.database.connection import Link, dialect_of
from penstock.connectors.database.sink import DatabaseSink, DatabaseSinkBuilder, Delivery
from penstock.connectors.sink import CommitOutcome, SinkWriter, WriterContext
from penstock.core.clock import ManualClock
from penstock.core.ids import Epoch
from tests.patience import PATIENCE_S

NOW = 1_700_000_000_000
MARIADB, POSTGRESQL = "mariadb_server", "postgres_server"
EXACT = [Delivery.TWO_PHASE, Delivery.BULK_LOAD]


class Db:
    """A server, spoken to as a second client would."""

    def __init__(self, server: Any, scheme: str) -> None:
        self.server = server
        self.is_mysql = scheme == "mysql"
        self.url = f"{scheme}://{server.user}@{server.host}:{server.port}/{server.database}"
        self.dialect = dialect_of(self.url, password=server.password)
        self._link = Link(self.dialect, retries=5)

    def connect(self) -> Any:
        return self.dialect.connect()

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements; the rows of the last one."""

        def work(connection: Any) -> list[tuple[Any, ...]]:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall()) if cursor.description else []

        return self._link.run(work, statements[-1])

    def prepared(self) -> list[str]:
        transactions = self.dialect.transactions
        return self._link.run(lambda connection: transactions.prepared(connection, "ps_"), "listing")

    def staging(self) -> list[str]:
        loader = self.dialect.loader
        return self._link.run(lambda connection: loader.tables(connection, "ps_"), "listing")

    def sessions(self) -> list[int]:
        """Ids of the connections of others."""
        if self.is_mysql:
            found = self.run("SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID()")
        else:
            found = self.run(
                "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                "AND backend_type = 'client backend'"
            )
        return [row[0] for row in found]

    def kill_sessions(self) -> int:
        """Cut every other connection; returns when they are gone."""
        found = self.sessions()
        for session in found:
            try:
                self.run(f"KILL {session}" if self.is_mysql else f"SELECT pg_terminate_backend({session})")
            except Exception as e:
                assert self.is_mysql and e.args[0] == 1094  # it had gone by itself
        until(lambda: not set(found) & set(self.sessions()), "sessions are gone")
        return len(found)

    def builder(self, table: str) -> DatabaseSinkBuilder:
        return DatabaseSink.builder().set_url(self.url).set_password(self.server.password).set_table(table)

    def close(self) -> None:
        self._link.close()

    def clean(self) -> None:
        """Leave nothing for the next test."""
        connection = self._link.connection
        transactions, loader = self.dialect.transactions, self.dialect.loader
        for name in transactions.prepared(connection, "ps_"):
            transactions.roll_back(connection, name)
        with connection.cursor() as cursor:
            for prefix in ("ps_", "sink_", "penstock_commits"):
                for name in loader.tables(connection, prefix):
                    cursor.execute(f"DROP TABLE {self.dialect.quote(name)}")


@contextmanager
def only(request: pytest.FixtureRequest, fixture: str) -> Iterator[Db]:
    """The database of a test that makes sense for one of them."""
    yield from database(request, fixture)


def database(request: pytest.FixtureRequest, fixture: str) -> Iterator[Db]:
    db = Db(request.getfixturevalue(fixture), "mysql" if fixture == MARIADB else "postgresql")
    db.clean()
    yield db
    until(lambda: not _raises(db.clean), "the database is clean")
    db.close()


def _raises(work: Callable[[], Any]) -> bool:
    try:
        work()
    except Exception:
        return True
    return False


def until(condition: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"gave up waiting until {what}"
        time.sleep(0.01)


def writer_of(
    sink: DatabaseSink,
    subtask: int = 0,
    generation: int = 1,
    job: str = "job",
    sink_id: str = "sink",
    clock: ManualClock | None = None,
) -> SinkWriter:
    return sink.create_writer(
        WriterContext(
            job_name=job,
            sink_id=sink_id,
            subtask=subtask,
            parallelism=2,
            generation=generation,
            restored_epoch=None,
            restored_state=(),
            checkpointing=True,
            clock=clock or ManualClock(NOW),
            to_driver=lambda message: None,
        )
    )


def barrier(writer: SinkWriter, epoch: int = 1) -> list[Any]:
    writer.flush(False)
    return writer.prepare_commit(Epoch(epoch))


def commit(sink: DatabaseSink, committables: list[Any]) -> list[str]:
    """Names of the outcomes; tries again what has to wait, as the engine does."""
    committer = sink.create_committer()
    assert committer is not None
    try:
        while True:
            outcomes = committer.commit(committables)
            if CommitOutcome.RETRY not in outcomes:
                return [outcome.name for outcome in outcomes]
            time.sleep(0.02)
    finally:
        committer.close()
