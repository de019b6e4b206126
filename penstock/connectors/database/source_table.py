"""What is read: a table's columns, the order of its rows, and queries for pages of them.

A row's *key* is the leading column (of ranges, or of polling) and behind it the columns that identify a
row, so that no two rows have the same key.  A position in the table is the key of the last row read.

Rows are fetched page by page with *keyset pagination*: each query asks for the rows behind the last key, in
the order of the key, and no more than a page.  So every query is bounded, costs the same at the start and at
the end of a table (given an index on the key), and can be asked again from any key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from penstock.connectors.database.address import DatabaseKind
from penstock.connectors.database.dialect import ColumnInfo, TableInfo
from penstock.connectors.database.source_types import (
    Column,
    KeyKind,
    mysql_column,
    postgresql_column,
    to_batch,
)
from penstock.core.error_codes import Code
from penstock.core.errors import ConnectorError

Key = tuple[Any, ...]


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


@dataclass(frozen=True, slots=True)
class TableRequest:
    """What the user asked for."""

    table: str
    columns: tuple[str, ...] = ()
    """Empty means all."""
    condition: str | None = None
    """SQL that rows must satisfy."""
    leading: str | None = None
    """The column to read in the order of; ``None``: the first of the identifying ones."""
    identity: tuple[str, ...] = ()
    """Columns that identify a row; empty means the primary key."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows in the order of their keys."""

    columns: pa.RecordBatch
    keys: tuple[Sequence[Any], ...]
    """The columns of the key."""

    def key(self, index: int) -> Key:
        """The key of one row."""
        return tuple(values[index] for values in self.keys)


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table as found in the database. Plain values: it travels to the slots with the source."""

    table: str
    condition: str | None
    columns: tuple[Column, ...]
    key: tuple[Column, ...]

    @property
    def leading(self) -> Column:
        """The first column of the key."""
        return self.key[0]

    def without_leading(self) -> TableShape:
        """For rows whose leading column is NULL: the order of the rest."""
        return replace(self, key=self.key[1:])

    def page_query(
        self,
        name: Callable[[str], str],
        table: str,
        sql: ReadingSql,
        conditions: Sequence[str],
        values: Sequence[Any],
        after: Key | None,
        limit: int,
    ) -> tuple[str, list[Any]]:
        """The first ``limit`` rows that satisfy the conditions and lie behind ``after``.

        ``name`` quotes columns; ``table`` is quoted.
        """
        names = [name(column.name) for column in self.key]
        wanted, parameters = list(conditions), list(values)
        if self.condition is not None:
            wanted.append(f"({escaped(self.condition)})")
        if after is not None:
            behind, key = sql.behind(names, after)
            wanted.append(behind)
            parameters += key
        selected = [column.expression.format(name(column.name)) for column in self.columns]
        where = f" WHERE {' AND '.join(wanted)}" if wanted else ""
        # By number: PostgreSQL gives a column and the same one as text one name, and would not know which.
        order = ", ".join(str(len(selected) + place) for place in range(1, len(names) + 1))
        query = f"SELECT {', '.join([*selected, *names])} FROM {table}{where} ORDER BY {order} LIMIT {limit}"
        return query, parameters

    def to_page(self, rows: Sequence[Sequence[Any]]) -> Page:
        """Rows fetched by :meth:`page_query`; at least one."""
        transposed = list(zip(*rows, strict=True))
        width = len(self.columns)
        return Page(
            to_batch(self.columns, transposed[:width], f"table {self.table!r}"), tuple(transposed[width:])
        )


def escaped(sql: str) -> str:
    """Text for a statement with parameters: drivers take ``%`` for the start of one."""
    return sql.replace("%", "%%")


def find_shape(sql: ReadingSql, info: TableInfo | None, request: TableRequest) -> TableShape:
    """What was asked for, in the table that was found; errors say what is missing and what there is."""
    if info is None:
        raise ConnectorError(
            f"there is no table {request.table!r} in this database, or this user may not see it; give its "
            "name as the database spells it, with the schema in front if it is in another one",
            code=Code.DATABASE_TABLE,
        )
    columns = {name: sql.column(column) for name, column in info.columns.items()}

    def named(names: Sequence[str]) -> tuple[Column, ...]:
        unknown = [name for name in names if name not in columns]
        if unknown:
            raise ConnectorError(
                f"table {request.table!r} has no column {', '.join(unknown)}; it has {', '.join(columns)}",
                code=Code.DATABASE_TABLE,
            )
        return tuple(columns[name] for name in names)

    identity = request.identity or info.primary_key
    if not identity:
        raise ConnectorError(
            f"table {request.table!r} has no primary key, so its rows have no order in which reading could "
            "go on after a failure; name the columns that identify a row with set_key_columns(...)",
            code=Code.DATABASE_TABLE,
        )
    if info.is_view:  # the user's word is all there is
        columns |= {column.name: replace(column, nullable=False) for column in named(identity)}
    leading = request.leading or identity[0]
    key = named([leading, *(name for name in identity if name != leading)])
    for column in key:
        _refuse_unfit(request.table, column, column.name == leading and leading not in identity)
    return TableShape(request.table, request.condition, named(request.columns or tuple(columns)), key)


def _refuse_unfit(table: str, column: Column, may_be_null: bool) -> None:
    if column.kind is KeyKind.UNFIT:
        raise ConnectorError(
            f"table {table!r} cannot be read in the order of {column.name!r}, which is {column.declared}: "
            f"{KeyKind.UNFIT.value}; choose a column of numbers, dates, timestamps or text",
            code=Code.DATABASE_TABLE,
        )
    if column.nullable and not may_be_null:
        raise ConnectorError(
            f"column {column.name!r} of table {table!r} may be NULL and cannot identify a row; name columns "
            "that are NOT NULL with set_key_columns(...)",
            code=Code.DATABASE_TABLE,
        )
