"""Tables in real databases, for tests of reading them."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pymysql

from penstock.connectors.database.source import DatabaseSource, DatabaseSourceBuilder
from penstock.connectors.source import EndOfSplit, Source, Split
from penstock.core.clock import ManualClock

_numbers = itertools.count()


@dataclass
class Database:
    """One of the two, with a connection that sees and commits everything at once."""

    scheme: str
    server: Any
    connection: Any

    def run(self, statement: str, rows: Sequence[Sequence[Any]] | None = None) -> list[Any]:
        """Run a statement, once or once per row; what it returned."""
        with self.connection.cursor() as cursor:
            if rows is not None:
                cursor.executemany(statement, rows)
                return []
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    @contextmanager
    def table(self, columns: str) -> Iterator[str]:
        """A table for the length of a test."""
        name = f"penstock_reading_{next(_numbers)}"
        self.run(f"DROP TABLE IF EXISTS {name}")
        self.run(f"CREATE TABLE {name} ({columns})")
        try:
            yield name
        finally:
            # A slot killed in this process leaves its connection, and with it a lock, to the collector.
            gc.collect()
            self.run(f"DROP TABLE {name}")

    @property
    def url(self) -> str:
        """Where it is."""
        server = self.server
        return f"{self.scheme}://{server.user}@{server.host}:{server.port}/{server.database}"

    def source(self, table: str) -> DatabaseSourceBuilder:
        """A builder with the connection filled in."""
        return DatabaseSource.builder().set_url(self.url).set_password(self.server.password).set_table(table)


def connect(scheme: str, server: Any) -> Database:
    """A connection of the test's own, apart from what is tested."""
    connection: Any
    where = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    if scheme == "mysql":
        connection = pymysql.connect(**where, database=server.database, autocommit=True)
    else:
        connection = psycopg.connect(**where, dbname=server.database, autocommit=True)
        connection.execute("SET lock_timeout = '10s'")
    return Database(scheme, server, connection)


def splits_of(source: Source, parallelism: int = 1) -> list[Split]:
    """The splits of a source."""
    return list(source.create_enumerator(parallelism).discover())


def read(source: Source, split: Split, position: Any = None, size: int = 100) -> list[tuple[Any, ...]]:
    """All rows of a split from a position on."""
    return [row for row, _ in read_with_positions(source, split, position, size)]


def read_with_positions(
    source: Source, split: Split, position: Any = None, size: int = 100
) -> list[tuple[tuple[Any, ...], Any]]:
    """All rows, each with the position behind the poll that brought it."""
    clock = ManualClock(0)
    reader = source.open_split(split, position, clock)
    rows: list[tuple[tuple[Any, ...], Any]] = []
    try:
        while True:
            batch = reader.poll(size)
            if batch is None:
                due = reader.next_poll_ms()
                clock.advance(1 if due is None else max(1, due - clock.now_ms()))
            else:
                rows += [(tuple(row), reader.position()) for row in batch.to_rows()]
    except EndOfSplit:
        return rows
    finally:
        reader.close()
