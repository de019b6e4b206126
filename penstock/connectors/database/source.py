"""Tables as sources: all rows once, by ranges, or new rows for ever, by a column that grows.

Read :mod:`~penstock.connectors.database.source_table` for what a position is, then
:mod:`~penstock.connectors.database.source_reader`.  ``docs/guides/databases.md`` says what is promised
when rows change while they are read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock.connectors.database.connection import dialect_of
from penstock.connectors.database.dialect import Dialect
from penstock.connectors.database.source_reader import GrowthReader, KeyRange, RangeReader, as_splits, divide
from penstock.connectors.database.source_session import ReadingSession
from penstock.connectors.database.source_table import TableRequest, TableShape
from penstock.connectors.database.source_types import DIVISIBLE, row_type
from penstock.connectors.source import Source, Split, SplitEnumerator, SplitReader, SplitsOnce
from penstock.core.clock import Clock
from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import ConfigError, ConnectorError


@dataclass(frozen=True, slots=True)
class Ranges:
    """How a bounded read is divided."""

    count: int | None = None
    """``None``: as many as there are subtasks."""
    lower: Any = None
    upper: Any = None


@dataclass(frozen=True, slots=True)
class Growth:
    """How a table is watched."""

    every_ms: int
    settle_ms: int
    start_after: Any = None


class DatabaseSource(Source):
    """Reads a table into columns. Made by :meth:`builder`.

    Where it connects: on the driver when the program names the source (to find the types of the columns,
    so that a wrong name or password shows at once) and when the job starts; then in the slots.
    """

    read_in_order = True
    ids_last = False

    def __init__(
        self,
        dialect: Dialect,
        request: TableRequest,
        how: Ranges | Growth,
        page_rows: int,
    ) -> None:
        self._dialect = dialect
        self._request = request
        self._how = how
        self._page_rows = page_rows
        self._shape: TableShape | None = None
        self.bounded = isinstance(how, Ranges)

    def __repr__(self) -> str:
        return f"DatabaseSource({self._dialect.address}, table={self._request.table!r})"

    @staticmethod
    def builder() -> DatabaseSourceBuilder:
        """Settings, then ``build()``."""
        return DatabaseSourceBuilder()

    def produced_type(self) -> Any:
        """A ROW of the columns, by the types the database declares. Connects."""
        return row_type(self.shape().columns)

    def shape(self) -> TableShape:
        """The table as the database describes it, looked up once."""
        if self._shape is None:
            session = self._session(one_view=False)
            try:
                self._shape = session.shape(self._request)
            finally:
                session.close()
        return self._shape

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return SplitsOnce(lambda: self.splits(parallelism))

    def splits(self, parallelism: int) -> list[Split]:
        """The splits as the table is now. On the driver, once."""
        shape, how = self.shape(), self._how
        if isinstance(how, Growth):
            return [Split(shape.table, how.start_after)]
        nulls = [KeyRange(nulls=True)] if shape.leading.nullable and how.lower is how.upper is None else []
        if shape.leading.kind not in DIVISIBLE:
            return as_splits(shape.table, [self._undivided(how), *nulls])
        lower, upper = how.lower, how.upper
        if lower is None or upper is None:
            smallest, largest = self._extent()
            if smallest is None:
                return as_splits(shape.table, nulls)
            lower = smallest if lower is None else lower
            upper = largest if upper is None else upper
        return as_splits(
            shape.table, [*divide(shape.leading, lower, upper, how.count or parallelism), *nulls]
        )

    def _undivided(self, how: Ranges) -> KeyRange:
        if how.count is not None and how.count > 1:
            column = self.shape().leading
            raise ConnectorError(
                f"table {self._request.table!r} cannot be divided into {how.count} ranges of "
                f"{column.name!r}, which is {column.declared}; name a column of numbers, dates or timestamps "
                "with set_partition_column(...)"
            )
        return KeyRange(how.lower, how.upper)

    def _extent(self) -> tuple[Any, Any]:
        session = self._session(one_view=False)
        try:
            return session.extent(self.shape())
        finally:
            session.close()

    def from_end(self, split: Split) -> Split:
        return replace(split, info=self._extent()[1]) if isinstance(self._how, Growth) else split

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        shape, how = self.shape(), self._how
        if isinstance(how, Ranges):
            session = self._session(one_view=True)
            return RangeReader(session, clock, position, shape, split.info, self._page_rows)
        session = self._session(one_view=False)
        return GrowthReader(
            session, clock, position, shape, split.info, self._page_rows, how.every_ms, how.settle_ms
        )

    def _session(self, one_view: bool) -> ReadingSession:
        return ReadingSession(self._dialect, one_view)


class DatabaseSourceBuilder:
    """Settings of a :class:`DatabaseSource`."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._user: str | None = None
        self._password: str | None = None
        self._request = TableRequest("")
        self._ranges = Ranges()
        self._growth: Growth | None = None
        self._page_rows = 5_000

    def set_url(self, url: str) -> DatabaseSourceBuilder:
        """``mysql://user@host:port/database`` (MariaDB, too) or ``postgresql://...``."""
        self._url = url
        return self

    def set_user(self, user: str) -> DatabaseSourceBuilder:
        """The user, if not in the URL."""
        self._user = user
        return self

    def set_password(self, password: str) -> DatabaseSourceBuilder:
        """The user's password. It is sent to the slots, but never shown."""
        self._password = password
        return self

    def set_table(self, table: str) -> DatabaseSourceBuilder:
        """The table or view to read, ``schema.table`` if it is not in the user's own schema."""
        self._request = replace(self._request, table=table)
        return self

    def set_columns(self, *columns: str) -> DatabaseSourceBuilder:
        """Only these columns, in this order. The default is all of them."""
        self._request = replace(self._request, columns=columns)
        return self

    def set_condition(self, condition: str) -> DatabaseSourceBuilder:
        """Only rows that satisfy this SQL condition. It is part of the statement: never put input in it."""
        self._request = replace(self._request, condition=condition)
        return self

    def set_key_columns(self, *columns: str) -> DatabaseSourceBuilder:
        """The columns that identify a row, none of them NULL. The default is the primary key.

        The trap: if two rows agree in all of them, one of the two may be skipped after a failure.
        """
        self._request = replace(self._request, identity=columns)
        return self

    def set_partition_column(self, column: str) -> DatabaseSourceBuilder:
        """Divide the table by this column of numbers, dates or timestamps; it should have an index.

        The default is the first column of the primary key.
        """
        self._request = replace(self._request, leading=column)
        return self

    def set_ranges(self, count: int) -> DatabaseSourceBuilder:
        """How many ranges to divide the table into. The default is the source's parallelism."""
        if count < 1:
            raise ConfigError(f"a table is read in 1 range or more, not {count}")
        self._ranges = replace(self._ranges, count=count)
        return self

    def set_bounds(self, lower: Any = None, upper: Any = None) -> DatabaseSourceBuilder:
        """Read only rows whose partition column lies between these, both included.

        Without a bound it is looked up when the job starts; rows beyond it that come later are not read.
        """
        self._ranges = replace(self._ranges, lower=lower, upper=upper)
        return self

    def poll(
        self,
        column: str,
        every: DurationLike = "1 s",
        settle: DurationLike = "1 s",
        start_after: Any = None,
    ) -> DatabaseSourceBuilder:
        """Read for ever: at each interval, rows whose ``column`` is greater than any read before.

        ``settle`` must be longer than any transaction that writes to the table: a row whose transaction
        takes longer than that to commit may be missed.  It delays every row by that time.
        """
        every_ms, settle_ms = to_millis(every), to_millis(settle)
        if every_ms <= 0:
            raise ConfigError(f"a table can be polled every so often, but not every {every_ms} ms")
        self._growth = Growth(every_ms, settle_ms, start_after)
        return self.set_partition_column(column)

    def set_page_rows(self, rows: int) -> DatabaseSourceBuilder:
        """Rows per query, 5,000 by default: what a slot holds in memory, and how long a poll may take."""
        if rows < 1:
            raise ConfigError(f"a page has 1 row or more, not {rows}")
        self._page_rows = rows
        return self

    def build(self) -> DatabaseSource:
        """The source. Nothing is asked of the database yet."""
        if self._url is None or not self._request.table:
            raise ConfigError("a database source needs set_url(...) and set_table(...)")
        if self._growth is not None and self._ranges != Ranges():
            raise ConfigError(
                "a table is read by ranges or by polling: leave out set_ranges and set_bounds, or poll"
            )
        dialect = dialect_of(self._url, self._user, self._password)
        how = self._ranges if self._growth is None else self._growth
        return DatabaseSource(dialect, self._request, how, self._page_rows)
