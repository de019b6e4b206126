"""A statement of the user's as a sink, at least once: what PyFlink calls ``JdbcSink``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.connectors.database.address import DatabaseAddress
from penstock.connectors.database.connection import Link, open_dialect
from penstock.connectors.database.rows import Changed, RowReader, Tuples
from penstock.connectors.database.upsert_writer import EagerWriter
from penstock.connectors.database.write_target import to_statement
from penstock.connectors.sink import Sink, SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError

_TOKEN = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|`[^`]*`|--[^\n]*|/\*.*?\*/|\?\?|\?|%""", re.DOTALL)


def translate(sql: str) -> tuple[str, int]:
    """A statement with ``?`` for its parameters in the form our drivers take, and how many there are.

    Question marks in text, names and comments are left alone, and ``??`` means one.
    """
    count = 0

    def replaced(found: re.Match[str]) -> str:
        nonlocal count
        token = found[0]
        if token == "?":
            count += 1
            return "%s"
        return "?" if token == "??" else token.replace("%", "%%")

    return _TOKEN.sub(replaced, sql), count


class StatementSink(Sink):
    """Runs one statement per record, many at a time, in the order they come.

    At least once: what was written since the last checkpoint is written again after a crash.  A statement
    that may be repeated, such as an upsert, makes that exact.
    """

    def __init__(
        self,
        address: DatabaseAddress,
        sql: str,
        columns: Sequence[str],
        batch_rows: int,
        interval_ms: int,
        retries: int,
    ) -> None:
        self._address = address
        self._statement, count = translate(sql)
        self._columns = tuple(columns)
        self._batch_rows = batch_rows
        self._interval_ms = interval_ms
        self._retries = retries
        if count != len(self._columns):
            raise ConfigError(
                f"the statement {sql!r} has {count} parameters, but records have {len(self._columns)} "
                f"fields: {', '.join(self._columns)}; write one ? per field"
            )

    def __repr__(self) -> str:
        return f"StatementSink({self._address}, {self._statement!r})"

    def check(self) -> None:
        """Connect once."""
        open_dialect(self._address).open().close()

    def create_writer(self, context: WriterContext) -> SinkWriter:
        dialect = open_dialect(self._address)
        rows = _InOrder(RowReader(self._columns, dialect.adapters, None), self._columns)
        return EagerWriter(
            Link(dialect, self._retries),
            to_statement(dialect, self._statement, self._columns),
            rows,
            self._batch_rows,
            self._interval_ms,
            context.clock,
        )


class _InOrder:
    """Rows that wait, none left out. Fields are taken by position, as in PyFlink, except from dicts."""

    def __init__(self, reader: RowReader, columns: Sequence[str]) -> None:
        self._reader = reader
        self._columns = columns
        self._rows: Tuples = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, batch: Batch) -> None:
        records = batch.to_rows()
        names = self._columns
        rows = [tuple(r.get(n) for n in names) if isinstance(r, dict) else tuple(r) for r in records]
        self._rows += self._reader.adapted(rows)

    def take(self) -> Changed:
        taken, self._rows = Changed(self._rows), []
        return taken
