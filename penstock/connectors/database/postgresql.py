"""PostgreSQL, through ``psycopg`` 3.

Rows go in one by one but without waiting in between (the driver's pipeline), as a prepared statement.

Prepared transactions are those of ``PREPARE TRANSACTION``.  The server keeps at most
``max_prepared_transactions`` of them, by default none.  Only the user who prepared one, or a superuser, may
end it, and only from the same database.

Many rows at once go in by ``COPY``, then one merge.  Staging tables are ordinary, logged tables.  An
unlogged one would load faster and be empty after a crash of the server, when a published snapshot has already
promised its rows.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

from penstock.connectors.database.address import DatabaseAddress, postgresql_options
from penstock.connectors.database.dialect import (
    CONNECT_TIMEOUT_S,
    LOCK_WAIT_S,
    ColumnInfo,
    Dialect,
    Fault,
    Loader,
    TableInfo,
    Target,
    Transactions,
    UnknownTransaction,
    names,
    only_keys,
)
from penstock.core.errors import ConnectorError
from penstock.core.optional import require

_UNDEFINED_OBJECT = "42704"
_BUSY_STATES = frozenset({"40001", "40P01", "55P03", "55006", "57014", "55000"})
_LOST_CLASSES = ("08", "57P", "53", "25P03")
_DATA_CLASSES = ("22", "23")
_DATA_STATES = frozenset({"42804", "42883"})
"""A value of another type than the column: the statement is checked with the types of its parameters."""
_RELATION = "SELECT oid, relkind IN ('v', 'm') FROM pg_class WHERE oid = to_regclass(%s)"
_COLUMNS = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
           a.atthasdef OR a.attidentity <> '', a.attgenerated <> '' OR a.attidentity = 'a'
    FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_KEYS = """
    SELECT i.indisprimary, array_agg(a.attname::text ORDER BY k.place)
    FROM pg_index i
    CROSS JOIN LATERAL unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY AS k(number, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
    WHERE i.indrelid = %s AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indisvalid
    GROUP BY i.indexrelid, i.indisprimary
"""


def quote(name: str) -> str:
    """One identifier, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def quote_table(name: str) -> str:
    """A table; ``schema.table`` has two parts."""
    return ".".join(map(quote, name.split(".")))


def on_conflict(target: Target) -> str:
    """What happens to a row that is there; nothing to say for a table that is appended to."""
    if not target.keys:
        return ""
    others = [column for column in target.columns if column not in target.keys]
    conflict = f"ON CONFLICT ({names(quote, target.keys)})"
    if not others:
        return f"{conflict} DO NOTHING"
    settings = ", ".join(f"{quote(c)} = EXCLUDED.{quote(c)}" for c in others)
    update = f"{conflict} DO UPDATE SET {settings}"
    if target.newer is None:
        return update
    stored = f"{quote_table(target.table)}.{quote(target.newer)}"
    return f"{update} WHERE {stored} IS NULL OR EXCLUDED.{quote(target.newer)} >= {stored}"


class PreparedTransactions(Transactions):
    """Prepared transactions with our names as their identifiers."""

    one_per_connection = False

    def begin(self, connection: Any, name: str) -> None:
        connection.execute("BEGIN")

    def prepare(self, connection: Any, name: str) -> None:
        connection.execute(f"PREPARE TRANSACTION '{name}'")

    def commit(self, connection: Any, name: str) -> None:
        _known(connection, f"COMMIT PREPARED '{name}'")

    def roll_back(self, connection: Any, name: str) -> None:
        _known(connection, f"ROLLBACK PREPARED '{name}'")

    def prepared(self, connection: Any, prefix: str) -> list[str]:
        found = connection.execute(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, %s)",
            (prefix,),
        )
        return [row[0] for row in found.fetchall()]

    def check(self, connection: Any) -> None:
        allowed = int(connection.execute("SHOW max_prepared_transactions").fetchone()[0])
        if allowed == 0:
            raise ConnectorError(
                "this PostgreSQL server has max_prepared_transactions = 0, so nothing can be prepared: ALTER "
                "SYSTEM SET max_prepared_transactions = 100 and restart it (at least two per subtask of the "
                "sink), or use Delivery.UPSERT or Delivery.BULK_LOAD, which need none."
            )


def _known(connection: Any, statement: str) -> None:
    try:
        connection.execute(statement)
    except Exception as e:
        if getattr(e, "sqlstate", None) == _UNDEFINED_OBJECT:
            raise UnknownTransaction(statement) from e
        raise


class PostgreSqlLoader(Loader):
    """Staging tables and their merge."""

    def create_staging(self, connection: Any, staging: str, target: Target) -> None:
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {quote(staging)} AS SELECT 0::bigint AS penstock_seq, "
            f"false AS penstock_deleted, {names(quote, target.columns)} FROM {quote_table(target.table)} "
            "WITH NO DATA"
        )

    def load(
        self,
        connection: Any,
        staging: str,
        target: Target,
        first: int,
        rows: Sequence[Any],
        gone: Sequence[Any],
    ) -> None:
        columns = f"penstock_seq, penstock_deleted, {names(quote, target.columns)}"
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY {quote(staging)} ({columns}) FROM STDIN") as copy,
        ):
            number = first
            for some, deleted in ((rows, False), (only_keys(target, gone), True)):
                for row in some:
                    copy.write_row((number, deleted, *row))
                    number += 1

    def tables(self, connection: Any, prefix: str) -> list[str]:
        found = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND pg_table_is_visible(oid) "
            "AND starts_with(relname::text, %s)",
            (prefix,),
        )
        return [row[0] for row in found.fetchall()]

    def merge(self, staging: str, target: Target, below: str) -> list[str]:
        columns, into = names(quote, target.columns), quote_table(target.table)
        if not target.keys:
            # A load whose answer was lost may have come through after all, beside its repetition.
            return [
                f"INSERT INTO {into} ({columns}) SELECT {columns} FROM (SELECT DISTINCT ON (penstock_seq) * "
                f"FROM {quote(staging)} WHERE {below} ORDER BY penstock_seq) AS penstock_new"
            ]
        keys = names(quote, target.keys)
        order = f"{quote(target.newer)} DESC NULLS LAST, " if target.newer else ""
        newest = (
            f"(SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {order}penstock_seq DESC) "
            f"AS penstock_rank FROM {quote(staging)} WHERE {below}) AS penstock_new"
        )
        same = " AND ".join(f"{into}.{quote(key)} = penstock_new.{quote(key)}" for key in target.keys)
        if target.newer:
            version = quote(target.newer)
            same += f" AND ({into}.{version} IS NULL OR {into}.{version} <= penstock_new.{version})"
        return [
            f"DELETE FROM {into} USING {newest} WHERE {same} AND penstock_rank = 1 AND penstock_deleted",
            f"INSERT INTO {into} ({columns}) SELECT {columns} FROM {newest} "
            f"WHERE penstock_rank = 1 AND NOT penstock_deleted ORDER BY {keys} {on_conflict(target)}",
        ]

    def check(self, connection: Any) -> None:
        """COPY from the client needs no right of its own."""


def _utc(value: dt.datetime) -> dt.datetime:
    """COPY into a column without a zone ignores the zone of a value: so it must be ours."""
    return value if value.tzinfo is None else value.astimezone(dt.UTC)


class PostgreSqlDialect(Dialect):
    """PostgreSQL 12 or newer."""

    product = "PostgreSQL"
    adapters = {dt.datetime: _utc, dict: json.dumps}

    def __init__(self, address: DatabaseAddress) -> None:
        super().__init__(address)
        self._given = postgresql_options(address.options)

    def connect(self, local_files: bool = False) -> Any:
        psycopg = require("psycopg", "postgresql")
        address = self.address
        given = self._given
        settings: dict[str, Any] = {
            "connect_timeout": CONNECT_TIMEOUT_S,
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": 60_000,
            "application_name": "penstock",
            **given,
            "options": f"-c lock_timeout={LOCK_WAIT_S}s {given.get('options', '')} -c timezone=UTC",
        }
        return psycopg.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password or None,
            dbname=address.database,
            autocommit=True,
            **settings,
        )

    def fault(self, error: BaseException) -> Fault:
        psycopg = require("psycopg", "postgresql")
        if isinstance(error, OSError):
            return Fault.LOST
        if not isinstance(error, psycopg.Error):
            return Fault.DATA if isinstance(error, TypeError | UnicodeError) else Fault.OTHER
        state = error.sqlstate
        if state in _BUSY_STATES:
            return Fault.BUSY
        if state is not None and state.startswith(_LOST_CLASSES):
            return Fault.LOST
        if isinstance(error, psycopg.DataError | psycopg.IntegrityError) or state in _DATA_STATES:
            return Fault.DATA
        if state is None:
            return Fault.DATA if isinstance(error, psycopg.ProgrammingError) else Fault.LOST
        return Fault.DATA if state.startswith(_DATA_CLASSES) else Fault.OTHER

    def sentence(self, error: BaseException) -> str:
        words = getattr(getattr(error, "diag", None), "message_primary", None) or str(error)
        return " ".join(words.split()).removesuffix(".")

    def quote(self, name: str) -> str:
        return quote(name)

    def describe(self, connection: Any, table: str) -> TableInfo | None:
        found = connection.execute(_RELATION, (quote_table(table),)).fetchone()
        if found is None:
            return None
        oid = (found[0],)
        columns = {
            name: ColumnInfo(
                name, declared.lower(), not_null and not filled and not generated, generated, not not_null
            )
            for name, declared, not_null, filled, generated in connection.execute(_COLUMNS, oid).fetchall()
        }
        keys = connection.execute(_KEYS, oid).fetchall()
        primary = next((tuple(key) for is_primary, key in keys if is_primary), ())
        unique = tuple(tuple(key) for is_primary, key in keys if not is_primary)
        return TableInfo(columns, primary, unique, transactional=True, is_view=found[1])

    def apply(self, connection: Any, target: Target, rows: Sequence[Any], gone: Sequence[Any]) -> None:
        with connection.cursor() as cursor:
            if gone:
                self._delete(cursor, target, gone)
            if rows:
                values = ", ".join(["%s"] * len(target.columns))
                insert = f"INSERT INTO {quote_table(target.table)} ({names(quote, target.columns)})"
                cursor.executemany(f"{insert} VALUES ({values}) {on_conflict(target)}", rows)

    def _delete(self, cursor: Any, target: Target, gone: Sequence[Any]) -> None:
        at = list(target.positions(target.keys))
        same = " AND ".join(f"{quote(key)} = %s" for key in target.keys)
        if target.newer is not None:
            same += f" AND ({quote(target.newer)} IS NULL OR {quote(target.newer)} <= %s)"
            at.append(target.columns.index(target.newer))
        keys = [tuple(row[i] for i in at) for row in gone]
        cursor.executemany(f"DELETE FROM {quote_table(target.table)} WHERE {same}", keys)

    @property
    def transactions(self) -> Transactions:
        return PreparedTransactions()

    @property
    def loader(self) -> Loader:
        return PostgreSqlLoader()
