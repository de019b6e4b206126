"""Prepared transactions of MariaDB and MySQL: XA.

Facts this rests on, tried with MariaDB 10.11:

* A prepared transaction survives its connection and the server, from MariaDB 10.5 on.  Before, closing
  the connection rolled it back.
* While the connection that prepared it is open, no other can commit it: the server says "unknown XID"
  although ``XA RECOVER`` lists it.  So the writer closes its connection after ``XA PREPARE``, and
  "unknown" means "not yet" as long as it is listed.  (MySQL from 8.0.29 on detaches at once, unless
  ``xa_detach_on_prepare`` is off.)
* ``XA RECOVER`` lists the transactions of the whole server, of all its databases and users.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penstock.connectors.database.dialect import Transactions, UnknownTransaction
from penstock.core.errors import ConnectorError

_UNKNOWN_XID = 1397
_OLDEST = {"mariadb": (10, 5), "mysql": (8, 0)}


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
