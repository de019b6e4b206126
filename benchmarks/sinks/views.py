"""What a database administrator sees and does, in the words of each database."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.sinks.plan import TABLE, Database
from penstock.connectors.database.connection import dialect_of
from penstock.connectors.database.dialect import Fault
from penstock.core.clock import SystemClock


class DbaView(ABC):
    """One server, looked at from a session that waits for locks only for so long."""

    limits: tuple[str, ...]

    def __init__(self, database: Database, lock_wait_s: float) -> None:
        self._dialect = dialect_of(database.url, password=database.password)
        self._wait_s = lock_wait_s

    @contextmanager
    def session(self) -> Iterator[Any]:
        """A cursor whose statements wait no longer than they should."""
        connection = self._dialect.open()
        try:
            with connection.cursor() as cursor:
                for limit in self.limits:
                    cursor.execute(limit.format(self._wait_s))
                yield cursor
        finally:
            connection.close()

    def ask(self, *queries: str) -> list[list[Any]]:
        """The rows of each query."""
        with self.session() as cursor:
            answers = []
            for query in queries:
                cursor.execute(query)
                answers.append(list(cursor.fetchall()) if cursor.description else [])
            return answers

    def timed(self, statement: str) -> str:
        """How long a statement took, or that it was still waiting when its time was over."""
        clock = SystemClock()
        with self.session() as cursor:
            begun = clock.monotonic()
            try:
                cursor.execute(statement)
            except Exception as error:
                if self._dialect.fault(error) is not Fault.BUSY:
                    raise
                return f"blocked: gave up after {clock.monotonic() - begun:.1f} s"
            return f"{(clock.monotonic() - begun) * 1000:.1f} ms"

    @abstractmethod
    def left(self) -> list[str]:
        """Prepared transactions and staging tables."""

    @abstractmethod
    def garbage(self, rows: int) -> str:
        """Make old versions of rows in another table, have them cleaned, and say how many stay."""

    def by_hand(self, committables: Sequence[Any]) -> list[str]:
        """The statements that throw away what a job left that nobody starts again."""
        names = [item.name for item in committables]
        staged = set(self._staging())
        return [f"DROP TABLE {name}" if name in staged else self.roll_back.format(name) for name in names]

    roll_back: str

    def _staging(self) -> list[str]:
        connection = self._dialect.open()
        try:
            return self._dialect.loader.tables(connection, "ps_")
        finally:
            connection.close()


class MariaDbView(DbaView):
    """MariaDB."""

    limits = (
        "SET SESSION innodb_lock_wait_timeout = CEILING({})",
        "SET SESSION lock_wait_timeout = CEILING({})",
    )
    roll_back = "XA ROLLBACK '{}'"

    def left(self) -> list[str]:
        [prepared] = self.ask("XA RECOVER")
        lines = [f"XA RECOVER: formatID {row[0]}, data {_text(row[3])}" for row in prepared]
        return lines + [f"SHOW TABLES: {name}" for name in self._staging()]

    def garbage(self, rows: int) -> str:
        update = f"UPDATE {TABLE}_beside SET v = v + 1"
        [*_, before] = self.ask(*[update] * 20, _HISTORY)
        [_, after] = self.ask("DO SLEEP(2)", _HISTORY)
        return f"history list length {before[0][0]} after 20 updates, {after[0][0]} two seconds later"


_HISTORY = "SELECT count FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'"


class PostgreSqlView(DbaView):
    """PostgreSQL."""

    limits = ("SET lock_timeout = '{}s'",)
    roll_back = "ROLLBACK PREPARED '{}'"

    def left(self) -> list[str]:
        [prepared] = self.ask("SELECT gid, owner, database FROM pg_prepared_xacts")
        lines = [
            f"pg_prepared_xacts: gid {gid}, owner {owner}, database {base}" for gid, owner, base in prepared
        ]
        return lines + [f"pg_tables: {name}" for name in self._staging()]

    def garbage(self, rows: int) -> str:
        self.ask(f"UPDATE {TABLE}_beside SET v = v + 1")
        connection = self._dialect.open()
        said: list[str] = []
        connection.add_notice_handler(lambda notice: said.append(notice.message_primary))
        try:
            connection.execute(f"VACUUM (VERBOSE) {TABLE}_beside")
        finally:
            connection.close()
        found = re.search(r"(\d+) are dead but not yet removable", "\n".join(said))
        return f"{found[1] if found else '?'} of {rows} dead rows beside it could not be vacuumed"


def view_of(database: Database, lock_wait_s: float) -> DbaView:
    """The view that fits."""
    return (MariaDbView if database.url.startswith("mysql") else PostgreSqlView)(database, lock_wait_s)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
