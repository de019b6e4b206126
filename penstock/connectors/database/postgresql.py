"""PostgreSQL, through ``psycopg`` 3.

Rows go in one by one but without waiting in between (the driver's pipeline), as a prepared statement.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

from penstock.connectors.database.address import DatabaseAddress
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
    names,
)
from penstock.connectors.database.driver_options import postgresql_options
from penstock.connectors.database.postgresql_bulk import PostgreSqlLoader
from penstock.connectors.database.postgresql_prepared import PreparedTransactions
from penstock.connectors.database.postgresql_sql import on_conflict, quote, quote_table
from penstock.core.optional import require

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

    def quote_table(self, name: str) -> str:
        return quote_table(name)

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
