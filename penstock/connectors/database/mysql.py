"""MariaDB and MySQL, through ``pymysql``.

Sessions run in READ COMMITTED: fewer gaps between rows are locked, and repeated tries see what others
have done.  Strict mode is always on, because without it the server shortens what does not fit.

Prepared transactions are those of XA.  Facts this rests on, tried with MariaDB 10.11:

* A prepared transaction survives its connection and the server, from MariaDB 10.5 on.  Before, closing
  the connection rolled it back.
* While the connection that prepared it is open, no other can commit it: the server says "unknown XID"
  although ``XA RECOVER`` lists it.  So the writer closes its connection after ``XA PREPARE``, and
  "unknown" means "not yet" as long as it is listed.  (MySQL from 8.0.29 on detaches at once, unless
  ``xa_detach_on_prepare`` is off.)
* ``XA RECOVER`` lists the transactions of the whole server, of all its databases and users.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from penstock.connectors.database.address import DatabaseAddress, mysql_options, tls_settings
from penstock.connectors.database.dialect import (
    CONNECT_TIMEOUT_S,
    LOCK_WAIT_S,
    ColumnInfo,
    Dialect,
    Fault,
    Loader,
    RowRefused,
    TableInfo,
    Target,
    Transactions,
    UnknownTransaction,
    names,
)
from penstock.connectors.database.mysql_bulk import MySqlLoader, on_duplicate, quote, quote_table
from penstock.core.errors import ConnectorError
from penstock.core.optional import require

_UNKNOWN_XID = 1397
_OLDEST = {"mariadb": (10, 5), "mysql": (8, 0)}
_READ_TIMEOUT_S = 600
_TIMEOUTS = ("read_timeout", "write_timeout")
_LOST = frozenset(
    {0, 1042, 1053, 1077, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2003, 2006, 2013, 2014, 2055}
)
_BUSY = frozenset({1020, 1040, 1203, 1205, 1213, 1226, 1317, 1402, 1613, 1614, 3024})
_DATA = frozenset({1048, 1062, 1264, 1265, 1292, 1364, 1366, 1367, 1406, 1411, 1690, 3140, 3819, 4025, 4038})
_DELETE_ROWS = 500
_SESSION = (
    f"SET time_zone = '+00:00', innodb_lock_wait_timeout = {LOCK_WAIT_S}, lock_wait_timeout = {LOCK_WAIT_S}, "
    "sql_notes = 0, "
    "sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')"
)
_ISOLATION = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
_BEHIND_VALUES = re.compile(r"\bON\s+DUPLICATE\b.*(?<!%)(?:%%)*%s", re.IGNORECASE | re.DOTALL)
"""A parameter where pymysql expects none: it makes one INSERT of many rows by repeating the values alone."""
_TRANSACTIONAL = frozenset({"innodb", "rocksdb"})


class MySqlXa(Transactions):
    """XA transactions with our names as global ids."""

    one_per_connection = True

    def __init__(self, sentence: Callable[[BaseException], str]) -> None:
        self._sentence = sentence

    def begin(self, connection: Any, name: str) -> None:
        _run(connection, f"XA START '{name}'")

    def prepare(self, connection: Any, name: str) -> None:
        _run(connection, f"XA END '{name}'")
        _run(connection, f"XA PREPARE '{name}'")

    def commit(self, connection: Any, name: str) -> None:
        _known(connection, f"XA COMMIT '{name}'")

    def roll_back(self, connection: Any, name: str) -> None:
        _known(connection, f"XA ROLLBACK '{name}'")

    def prepared(self, connection: Any, prefix: str) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute("XA RECOVER")
            found = [row[3] for row in cursor.fetchall()]
        names = [name.decode("latin-1") if isinstance(name, bytes) else str(name) for name in found]
        return [name for name in names if name.startswith(prefix)]

    def check(self, connection: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT VERSION()")
            version = str(cursor.fetchone()[0])
        product = "mariadb" if "mariadb" in version.lower() else "mysql"
        numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
        if numbers < _OLDEST[product]:
            raise ConnectorError(
                f"this server is {version}: a prepared transaction does not survive its connection there. "
                "Use MariaDB 10.5, MySQL 8.0 or newer, or Delivery.UPSERT or Delivery.BULK_LOAD instead."
            )
        try:
            self.prepared(connection, "")
        except Exception as e:
            raise ConnectorError(
                f"this user may not list prepared transactions (XA RECOVER): {self._sentence(e)}. GRANT "
                "XA_RECOVER_ADMIN ON *.* to it; a restarted job must find what the attempt before it left."
            ) from e


def _run(connection: Any, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def _known(connection: Any, statement: str) -> None:
    try:
        _run(connection, statement)
    except Exception as e:
        if e.args and e.args[0] == _UNKNOWN_XID:
            raise UnknownTransaction(statement) from e
        raise


def _utc(value: dt.datetime) -> dt.datetime:
    return value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)


class MySqlDialect(Dialect):
    """MariaDB 10.5 or newer, MySQL 8.0 or newer."""

    product = "MariaDB/MySQL"
    adapters = {dt.datetime: _utc, dict: json.dumps, list: json.dumps, tuple: json.dumps, uuid.UUID: str}

    def __init__(self, address: DatabaseAddress) -> None:
        super().__init__(address)
        self._tls = tls_settings(address.options)
        self._given = mysql_options(address.options)

    def connect(self, local_files: bool = False) -> Any:
        pymysql = require("pymysql", "mysql")
        address = self.address
        limits = {"connect_timeout": CONNECT_TIMEOUT_S, **dict.fromkeys(_TIMEOUTS, _READ_TIMEOUT_S)}
        connection = pymysql.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password,
            database=address.database,
            charset="utf8mb4",
            autocommit=True,
            local_infile=local_files,
            ssl=self._tls or None,
            init_command=_SESSION,
            **limits | self._given,
        )
        with connection.cursor() as cursor:
            cursor.execute(_ISOLATION)
        _refuse_too_long(connection)
        return connection

    def fault(self, error: BaseException) -> Fault:
        errors = require("pymysql.err", "mysql")
        if isinstance(error, RowRefused):
            return Fault.DATA
        if isinstance(error, OSError | EOFError | errors.InterfaceError):
            return Fault.LOST
        if not isinstance(error, errors.Error):
            # What pymysql cannot write it answers with errors of Python.
            return Fault.DATA if isinstance(error, TypeError | AttributeError | UnicodeError) else Fault.OTHER
        code = error.args[0] if error.args else None
        if code in _LOST:
            return Fault.LOST
        if code in _BUSY:
            return Fault.BUSY
        is_data = isinstance(error, errors.DataError | errors.IntegrityError) or code in _DATA
        unwritable = isinstance(error, errors.ProgrammingError) and not isinstance(code, int)
        return Fault.DATA if is_data or unwritable else Fault.OTHER

    def sentence(self, error: BaseException) -> str:
        return " ".join(str(error.args[-1] if error.args else error).split())

    def quote(self, name: str) -> str:
        return quote(name)

    def describe(self, connection: Any, table: str) -> TableInfo | None:
        schema, _, name = table.rpartition(".")
        where = "table_schema = COALESCE(%s, DATABASE()) AND table_name = %s"
        asked = (schema or None, name)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT engine FROM information_schema.tables WHERE {where}", asked)
            found = cursor.fetchone()
            if found is None:
                return None
            cursor.execute(
                "SELECT column_name, column_type, is_nullable, column_default, extra "
                f"FROM information_schema.columns WHERE {where} ORDER BY ordinal_position",
                asked,
            )
            columns = {row[0]: _column(*row) for row in cursor.fetchall()}
            cursor.execute(
                f"SELECT index_name, column_name FROM information_schema.statistics WHERE {where} "
                "AND non_unique = 0 ORDER BY index_name, seq_in_index",
                asked,
            )
            keys: dict[str, list[str]] = {}
            for index, column in cursor.fetchall():
                keys.setdefault(index, []).append(column)
        primary = tuple(keys.pop("PRIMARY", ()))
        unique = tuple(tuple(columns) for columns in keys.values())
        transactional = str(found[0]).lower() in _TRANSACTIONAL
        return TableInfo(columns, primary, unique, transactional, is_view=found[0] is None)

    def apply(self, connection: Any, target: Target, rows: Sequence[Any], gone: Sequence[Any]) -> None:
        with connection.cursor() as cursor:
            if gone:
                self._delete(cursor, target, gone)
            if rows:
                cursor.executemany(self._insert(target), rows)

    def run_each(self, cursor: Any, statement: str, rows: Sequence[Any]) -> None:
        if not _BEHIND_VALUES.search(statement):
            cursor.executemany(statement, rows)
            return
        for row in rows:
            cursor.execute(statement, row)

    def _insert(self, target: Target) -> str:
        values = ", ".join(["%s"] * len(target.columns))
        insert = f"INSERT INTO {quote_table(target.table)} ({names(quote, target.columns)}) VALUES ({values})"
        return f"{insert} {on_duplicate(target)}" if target.keys else insert

    def _delete(self, cursor: Any, target: Target, gone: Sequence[Any]) -> None:
        at = target.positions(target.keys)
        delete = f"DELETE FROM {quote_table(target.table)} WHERE"
        if target.newer is not None:
            newer = quote(target.newer)
            same = " AND ".join(f"{quote(key)} = %s" for key in target.keys)
            version = target.columns.index(target.newer)
            cursor.executemany(
                f"{delete} {same} AND ({newer} IS NULL OR {newer} <= %s)",
                [(*(row[i] for i in at), row[version]) for row in gone],
            )
            return
        one = f"({', '.join(['%s'] * len(at))})"
        for start in range(0, len(gone), _DELETE_ROWS):
            some = gone[start : start + _DELETE_ROWS]
            listed = ", ".join([one] * len(some))
            cursor.execute(
                f"{delete} ({names(quote, target.keys)}) IN ({listed})", [row[i] for row in some for i in at]
            )

    @property
    def transactions(self) -> Transactions:
        return MySqlXa(self.sentence)

    @property
    def loader(self) -> Loader:
        return MySqlLoader()


def _refuse_too_long(connection: Any) -> None:
    """Let a statement that the server will not take fail here: it hangs up in the middle of such a one.

    That would look like a lost connection, and be tried again for ever.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        limit: int = cursor.fetchone()[0]
    send = connection.query

    def checked(sql: str | bytes, *more: Any, **named: Any) -> Any:
        sent = sql.encode(errors="surrogateescape") if isinstance(sql, str) else sql
        if len(sent) >= limit:
            raise RowRefused(
                f"{len(sent)} bytes are more than its max_allowed_packet of {limit}; raise that, or use "
                "Delivery.BULK_LOAD"
            )
        return send(sent, *more, **named)

    connection.query = checked


def _column(name: str, declared: Any, nullable: str, default: Any, extra: str) -> ColumnInfo:
    declared = (declared.decode() if isinstance(declared, bytes) else str(declared)).lower()
    generated = "GENERATED" in extra.upper() and "DEFAULT_GENERATED" not in extra.upper()
    filled = default is not None or "auto_increment" in extra.lower() or generated
    return ColumnInfo(name, declared, nullable == "NO" and not filled, generated, nullable == "YES")
