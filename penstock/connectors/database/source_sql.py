"""The SQL of reading: what the two databases say differently.

Rows are fetched page by page with *keyset pagination*: each query asks for the rows behind the last key,
in the order of the key, and no more than a page.  So every query is bounded, costs the same at the start
and at the end of a table (given an index on the key), and can be asked again from any key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from penstock.connectors.database.address import DatabaseKind
from penstock.connectors.database.dialect import ColumnInfo
from penstock.connectors.database.source_types import Column, mysql_column, postgresql_column


class ReadingSql(ABC):
    """How one kind of database is asked for rows in order."""

    one_view: tuple[str, ...]
    """Begin a read-only transaction that sees one state of the database to its end."""

    @abstractmethod
    def behind(self, names: Sequence[str], key: Sequence[Any]) -> tuple[str, list[Any]]:
        """Condition for "behind this key, in the order of these quoted columns", and its parameters."""

    @abstractmethod
    def column(self, info: ColumnInfo) -> Column:
        """How a column is read."""


class MySqlReading(ReadingSql):
    """MariaDB and MySQL."""

    one_view = (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    )

    def behind(self, names: Sequence[str], key: Sequence[Any]) -> tuple[str, list[Any]]:
        # Its optimizer makes index ranges of this form, and a full scan of (a, b) > (x, y).
        cases: list[str] = []
        values: list[Any] = []
        for last in range(len(names)):
            equal = [f"{name} = %s" for name in names[:last]]
            cases.append("(" + " AND ".join([*equal, f"{names[last]} > %s"]) + ")")
            values += key[: last + 1]
        return "(" + " OR ".join(cases) + ")", values

    def column(self, info: ColumnInfo) -> Column:
        return mysql_column(info.name, info.declared, info.nullable)


class PostgreSqlReading(ReadingSql):
    """PostgreSQL."""

    one_view = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)

    def behind(self, names: Sequence[str], key: Sequence[Any]) -> tuple[str, list[Any]]:
        holders = ", ".join(["%s"] * len(key))
        return f"({', '.join(names)}) > ({holders})", list(key)

    def column(self, info: ColumnInfo) -> Column:
        return postgresql_column(info.name, info.declared, info.nullable)


READING: dict[DatabaseKind, ReadingSql] = {
    DatabaseKind.MYSQL: MySqlReading(),
    DatabaseKind.POSTGRESQL: PostgreSqlReading(),
}
