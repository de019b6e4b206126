"""``penstock_commits``: the proof that a transaction was committed, in the database it was committed to.

Every transaction of an exact sink writes one row here, with its own name.  After a crash the question
"was this committed, or was it lost?" has an answer: the row is there, or it is not.  Without it both
look the same, for the server forgets the name of a transaction in either case.

Rows are kept for 30 days; they are asked for only by a job that goes back to an old snapshot.
"""

from __future__ import annotations

from typing import Any

from penstock.connectors.database.dialect import Dialect
from penstock.core.errors import ConnectorError

TABLE = "penstock_commits"
KEEP_DAYS = 30
_FORGET_ROWS = 10_000
_FORGET_TIMES = 100
"""More than any job can add in the hour between two calls; a commit waits meanwhile."""

_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (id VARCHAR(80) NOT NULL PRIMARY KEY, row_count BIGINT, "
    "committed_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)"
)


def create(dialect: Dialect, connection: Any) -> None:
    """Make the table if it is missing, or say how to."""
    if dialect.describe(connection, TABLE) is not None:
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute(_CREATE)
    except Exception as e:
        if dialect.describe(connection, TABLE) is not None:
            return  # somebody was faster
        raise ConnectorError(
            f"{dialect.address} has no table {TABLE!r} and this user may not create it "
            f"({dialect.sentence(e)}): let somebody who may run: {_CREATE}; then grant SELECT, INSERT and "
            "DELETE on it to this user."
        ) from e


def enter(connection: Any, name: str, rows: int) -> None:
    """Write the row; part of the transaction that it is the proof of."""
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {TABLE} (id, row_count) VALUES (%s, %s)", (name, rows))


def is_committed(connection: Any, name: str) -> bool:
    """Whether the row is there."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {TABLE} WHERE id = %s", (name,))
        return cursor.fetchone() is not None


def forget_old(connection: Any, prefix: str) -> None:
    """Delete all old rows of one sink, some at a time.

    They are looked for first: a DELETE that searches would wait for the rows of prepared transactions.
    """
    with connection.cursor() as cursor:
        for _ in range(_FORGET_TIMES):
            cursor.execute(
                f"SELECT id FROM {TABLE} WHERE LEFT(id, %s) = %s AND "
                f"committed_at < CURRENT_TIMESTAMP - INTERVAL '{KEEP_DAYS}' DAY LIMIT {_FORGET_ROWS}",
                (len(prefix), prefix),
            )
            old = [row[0] for row in cursor.fetchall()]
            if not old:
                return
            cursor.execute(f"DELETE FROM {TABLE} WHERE id IN ({', '.join(['%s'] * len(old))})", old)


def lost(dialect: Dialect, name: str, rows: int, what: str) -> ConnectorError:
    """The error for output that is neither to be committed nor committed."""
    return ConnectorError(
        f"{rows} rows of a published checkpoint are lost: {what} {name!r} is not in {dialect.address}, and "
        f"{TABLE} has no row that says it was committed. Somebody rolled it back or removed it, the "
        "database was restored from a backup, this is a savepoint and the job went back to an older "
        f"checkpoint after it, or the snapshot is older than {KEEP_DAYS} days. To go on "
        f"without these rows (or if you know that they are there): INSERT INTO {TABLE} (id) VALUES ('{name}')"
    )
