"""Prepared transactions of PostgreSQL: ``PREPARE TRANSACTION``.

The server keeps at most ``max_prepared_transactions`` of them, by default none.  Only the user who
prepared one, or a superuser, may end it, and only from the same database.
"""

from __future__ import annotations

from typing import Any

from penstock.connectors.database.dialect import Transactions, UnknownTransaction
from penstock.core.errors import ConnectorError

_UNDEFINED_OBJECT = "42704"


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
