"""Readers of a table: a range to its end, or a growing table for ever.

Both fetch a page of rows with one bounded query and hand it out in slices, so a poll blocks at most for
one page and memory holds one page.  The position is the key of the last row handed out.

A lost connection is opened again a few times, later and later, and reading goes on behind the position;
in between the reader has nothing to give.  Other errors fail the job at once.

A table is divided into ranges of its leading column, each a split.  Values become whole numbers (cents, days,
microseconds), the numbers are divided, and become values again.  A range includes both its ends: so there is
none that the column's type could not hold.
"""

from __future__ import annotations

import datetime as dt
from abc import abstractmethod
from collections import deque
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from itertools import pairwise
from typing import Any

from penstock.connectors.database.source_session import LostConnection, ReadingSession
from penstock.connectors.database.source_table import Key, Page, TableShape
from penstock.connectors.database.source_types import Column, KeyKind
from penstock.connectors.source import EndOfSplit, Split, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.discreet import log_of
from penstock.core.errors import ConfigError, ConnectorError

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_EXACT = Context(prec=1000)
"""Python's own would round what has more than 28 digits."""
_log = log_of(__name__)
_PATIENCE = 6
"""So many times in a row a connection may be lost, before the reader gives up."""
_FIRST_WAIT_MS = 100


@dataclass(frozen=True, slots=True)
class KeyRange:
    """What a split is about: rows whose leading column is between these, both included."""

    lower: Any = None
    """``None``: no limit."""
    upper: Any = None
    nulls: bool = False
    """The rows without a value instead."""

    def conditions(self, leading: str) -> tuple[list[str], list[Any]]:
        """SQL and its parameters; ``leading`` is the quoted column."""
        if self.nulls:
            return [f"{leading} IS NULL"], []
        limits = [(f"{leading} >= %s", self.lower), (f"{leading} <= %s", self.upper)]
        given = [(sql, value) for sql, value in limits if value is not None]
        if not given:
            return [f"{leading} IS NOT NULL"], []
        return [sql for sql, _ in given], [value for _, value in given]


def divide(column: Column, lower: Any, upper: Any, ranges: int) -> list[KeyRange]:
    """At most ``ranges`` ranges of about equal width; ``lower`` and ``upper`` are read, too."""
    first, last = to_number(column, lower, ROUND_CEILING), to_number(column, upper, ROUND_FLOOR)
    total = last - first + 1
    ranges = min(ranges, total)
    edges = [first + total * k // ranges for k in range(ranges + 1)] if total > 0 else []
    return [
        KeyRange(to_value(column, low, lower), to_value(column, high - 1, lower))
        for low, high in pairwise(edges)
    ]


def to_number(column: Column, value: Any, rounding: str) -> int:
    """A value of a divisible column as a whole number; a bound may have more digits than the column."""
    match column.kind, value:
        case KeyKind.INTEGER, int():
            return value
        case KeyKind.DECIMAL, Decimal() | int() if Decimal(value).is_finite():
            return int(_EXACT.scaleb(Decimal(value), column.scale).to_integral_value(rounding, _EXACT))
        case KeyKind.TIMESTAMP, dt.datetime():
            aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return (aware - _EPOCH) // _MICROSECOND
        case KeyKind.DATE, dt.date() if not isinstance(value, dt.datetime):
            return value.toordinal()
    raise ConfigError(
        f"{value!r} is no bound for column {column.name!r} of type {column.declared}; give a value of "
        f"{column.kind.value}"
    )


def to_value(column: Column, number: int, like: Any) -> Any:
    """The inverse of :func:`to_number`; a timestamp has a zone if ``like`` has one."""
    match column.kind:
        case KeyKind.DECIMAL:
            return _EXACT.scaleb(Decimal(number), -column.scale)
        case KeyKind.DATE:
            return dt.date.fromordinal(number)
        case KeyKind.TIMESTAMP:
            value = _EPOCH + number * _MICROSECOND
            return value if like.tzinfo else value.replace(tzinfo=None)
        case _:
            return number


def as_splits(table: str, ranges: list[KeyRange]) -> list[Split]:
    """A split per range, numbered from 0."""
    return [Split(f"{table}[{number}]", part) for number, part in enumerate(ranges)]


class PagedReader(SplitReader):
    """Hands out pages in slices, and remembers how far it came."""

    def __init__(
        self, session: ReadingSession, clock: Clock, position: Key | None, shape: TableShape, page_rows: int
    ) -> None:
        if position is not None and len(position) != len(shape.key):
            order = ", ".join(column.name for column in shape.key)
            raise ConnectorError(
                f"table {shape.table!r} is now read in the order of {order}, but the snapshot's position is "
                f"a key of {len(position)} columns; read it as before, or give the source a new uid() to "
                "start over"
            )
        self._shape = shape
        self._page_rows = page_rows
        self._session = session
        self._clock = clock
        self._position = position
        self._page: Page | None = None
        self._used = 0
        self._due_ms: int | None = None
        self._losses = 0

    def poll(self, max_rows: int) -> Batch | None:
        if self._page is None:
            if self._due_ms is not None and self._clock.now_ms() < self._due_ms:
                return None
            self._page, self._used = self._fetch_patiently(), 0
            if self._page is None:
                return None
        rows = self._page.columns.slice(self._used, max_rows)
        self._used += rows.num_rows
        self._position = self._page.key(self._used - 1)
        if self._used == self._page.columns.num_rows:
            self._page = None
        return Batch.of_columns(rows)

    def _fetch_patiently(self) -> Page | None:
        try:
            page = self.fetch(self._position)
        except LostConnection:
            self._losses += 1
            if self._losses >= _PATIENCE:
                raise
            self._due_ms = self._clock.now_ms() + (_FIRST_WAIT_MS << self._losses)
            return None
        self._losses = 0
        return page

    @abstractmethod
    def fetch(self, after: Key | None) -> Page | None:
        """The rows behind ``after``; ``None`` if there are none now. Raises at the end."""

    def position(self) -> Key | None:
        return self._position

    def next_poll_ms(self) -> int | None:
        return self._due_ms if self._page is None else None

    def close(self) -> None:
        self._session.close()


class RangeReader(PagedReader):
    """Reads a range to its end, in one read-only transaction that sees one state of the database."""

    def __init__(
        self,
        session: ReadingSession,
        clock: Clock,
        position: Key | None,
        shape: TableShape,
        part: KeyRange,
        page_rows: int,
    ) -> None:
        ordered = shape.without_leading() if part.nulls else shape
        super().__init__(session, clock, position, ordered, page_rows)
        self._conditions = part.conditions(session.name(shape.leading.name))
        self._ended = False

    def fetch(self, after: Key | None) -> Page | None:
        if self._ended:
            raise EndOfSplit
        self._due_ms = None
        rows = self._session.page_rows(self._shape, *self._conditions, after, self._page_rows)
        self._ended = len(rows) < self._page_rows
        if not rows:
            raise EndOfSplit
        return self._shape.to_page(rows)


class GrowthReader(PagedReader):
    """Asks again and again for rows with greater values than before.

    The trap it guards against: a transaction that took its value early and commits late.  A row is read
    only if its value was not above the largest value visible ``settle_ms`` ago.  Any transaction with such
    a value began before that moment; if it takes less than ``settle_ms``, it is done by now.
    """

    def __init__(
        self,
        session: ReadingSession,
        clock: Clock,
        position: Key | None,
        shape: TableShape,
        start_after: Any,
        page_rows: int,
        every_ms: int,
        settle_ms: int,
    ) -> None:
        super().__init__(session, clock, position, shape, page_rows)
        self._leading = session.name(shape.leading.name)
        self._start_after = start_after
        self._every_ms = every_ms
        self._settle_ms = settle_ms
        self._seen: deque[tuple[int, Any]] = deque()
        """When which largest value was seen, oldest first, those too young to read up to."""
        self._settled: Any = None
        self._warned = False

    def fetch(self, after: Key | None) -> Page | None:
        now = self._clock.now_ms()
        self._look_for_largest(now)
        settles_ms = self._seen[0][0] + self._settle_ms if self._seen else now + self._every_ms
        self._due_ms = min(now + self._every_ms, settles_ms)
        if self._settled is None:
            return None
        conditions, values = [f"{self._leading} <= %s"], [self._settled]
        if after is None and self._start_after is not None:
            conditions.append(f"{self._leading} > %s")
            values.append(self._start_after)
        rows = self._session.page_rows(self._shape, conditions, values, after, self._page_rows)
        if len(rows) == self._page_rows:
            self._due_ms = now
        return self._shape.to_page(rows) if rows else None

    def _warn_if_below(self, largest: Any) -> None:
        """Numbers that begin anew are a loss, and look as if the newest row had been deleted."""
        read = None if self._position is None else self._position[0]
        below = isinstance(largest, int) and isinstance(read, int) and largest < read
        if below and not self._warned:
            _log.warning(
                "the largest %s of table %r is %d, and it was read up to %d. If the newest rows were "
                "deleted, all is well; if the numbers begin anew, rows up to that one are never read: give "
                "the source a new uid() then",
                self._shape.leading.name,
                self._shape.table,
                largest,
                read,
            )
        self._warned = below

    def _look_for_largest(self, now: int) -> None:
        largest = self._session.extent(self._shape)[1]
        self._warn_if_below(largest)
        known = self._seen[-1][1] if self._seen else self._settled
        if largest is not None and largest != known:
            self._seen.append((now, largest))
        while self._seen and self._seen[0][0] <= now - self._settle_ms:
            self._settled = self._seen.popleft()[1]
