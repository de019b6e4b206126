"""A connection for reading, opened when it is first used and again after it was lost."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from penstock.connectors.database.dialect import Dialect
from penstock.connectors.database.source_table import READING, TableRequest, TableShape, escaped, find_shape
from penstock.core.errors import ConnectorError


class LostConnection(ConnectorError):
    """The server went away in the middle; asking again may help."""


class ReadingSession:
    """Runs queries. With ``one_view`` all of them, until the connection is lost, see one state."""

    def __init__(self, dialect: Dialect, one_view: bool) -> None:
        self._dialect = dialect
        self._one_view = one_view
        self._connection: Any = None
        self.sql = READING[dialect.address.kind]

    def name(self, identifier: str) -> str:
        """The quoted name of a column, for statements with parameters."""
        return escaped(self._dialect.quote(identifier))

    def table(self, shape: TableShape) -> str:
        """The quoted name of the table, for statements with parameters."""
        return escaped(self._dialect.quote_table(shape.table))

    def rows(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """All rows of a query's result."""
        adapters = self._dialect.adapters
        adapted = tuple(
            adapters[type(value)](value) if type(value) in adapters else value for value in values
        )
        try:
            with self._open().cursor() as cursor:
                cursor.execute(query, adapted)
                return list(cursor.fetchall())
        except Exception as error:
            self.close()
            raise self._explained(error, query) from error

    def _explained(self, error: Exception, query: str) -> ConnectorError:
        cause, text = error, str(error)
        if not isinstance(error, ConnectorError):
            text = (
                f"{self._dialect.product} at {self._dialect.address} cannot be read: "
                f"{self._dialect.sentence(error)}. The statement was {query}"
            )
        elif isinstance(error.__cause__, Exception):
            cause = error.__cause__
        kind = LostConnection if self._dialect.fault(cause).passing else ConnectorError
        return kind(text)

    def shape(self, request: TableRequest) -> TableShape:
        """The table as the database describes it."""
        info = self._dialect.describe(self._open(), request.table)
        return find_shape(self.sql, info, request)

    def page_rows(
        self, shape: TableShape, conditions: Sequence[str], values: Sequence[Any], after: Any, limit: int
    ) -> list[tuple[Any, ...]]:
        """The first ``limit`` rows that satisfy the conditions and lie behind the key ``after``."""
        table = self.table(shape)
        return self.rows(*shape.page_query(self.name, table, self.sql, conditions, values, after, limit))

    def extent(self, shape: TableShape) -> tuple[Any, Any]:
        """The smallest and the largest value of the leading column; twice ``None`` if there is none."""
        leading = self.name(shape.leading.name)
        where = "" if shape.condition is None else f" WHERE {escaped(shape.condition)}"
        query = f"SELECT MIN({leading}), MAX({leading}) FROM {self.table(shape)}{where}"
        [(smallest, largest)] = self.rows(query, ())
        for value in (smallest, largest):
            if isinstance(value, Decimal) and not value.is_finite():
                raise self._no_number(shape, leading, value)
        return smallest, largest

    def _no_number(self, shape: TableShape, leading: str, value: Decimal) -> ConnectorError:
        """There is nothing above NaN: neither a range nor a largest value so far can be told from it."""
        row = self.page_rows(shape, [f"{leading} = %s"], [value], None, 1)[0][len(shape.columns) :]
        key = ", ".join(f"{column.name}={found}" for column, found in zip(shape.key, row, strict=True))
        name = shape.leading.name
        return ConnectorError(
            f"table {shape.table!r} is read in the order of {name!r}, and that is {value} in the row {key}: "
            f"mend the row, leave such rows out with set_condition(\"{name} <> '{value}'\"), or choose "
            "another column"
        )

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(Exception):
                connection.close()

    def _open(self) -> Any:
        if self._connection is None:
            self._connection = self._dialect.open()
            if self._one_view:
                with self._connection.cursor() as cursor:
                    for statement in self.sql.one_view:
                        cursor.execute(statement)
        return self._connection
