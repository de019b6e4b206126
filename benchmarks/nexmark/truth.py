"""What the queries give, by DuckDB over the same events; windows are spelled out there as arithmetic.

q6 is left out: it wants an average over the last rows of a result that changes, which Flink refuses, too.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import TracebackType

import duckdb
import pyarrow as pa

from benchmarks.nexmark.events import KINDS, Feed
from benchmarks.nexmark.tables import side_input, table

HERE = Path(__file__).parent
QUERIES = tuple(f"q{number}" for number in range(23) if number != 6)

DETERMINED = {
    "q9": "SELECT * EXCLUDE (bidder, bid_extra) FROM",
    "q12": "SELECT bidder, CAST(sum(bid_count) AS BIGINT) AS bid_count FROM",
    "q18": "SELECT auction, bidder, dateTime FROM",
    "q19": "SELECT auction, price, place FROM",
}
"""What a query says without doubt, where rows can be equal in what decides, or where the clock decides."""
GROUPED = {"q12": " GROUP BY bidder"}


@cache
def sql(query: str) -> str:
    """The query in Flink's shape."""
    return (HERE / "sql" / f"{query}.sql").read_text()


@cache
def truth(query: str) -> str:
    """The query in DuckDB's."""
    return (HERE / "truth" / f"{query}.sql").read_text()


class Truth:
    """The events of a feed in DuckDB.  Use ``with``."""

    def __init__(self, feed: Feed, threads: int = 1) -> None:
        self._db = duckdb.connect(config={"threads": threads})
        self._db.execute("SET TimeZone = 'UTC'")
        for name in KINDS:
            self._add(name, table(name, feed))
        self._add("side_input", side_input())

    def _add(self, name: str, rows: pa.Table) -> None:
        # DuckDB's functions of time know timestamps of microseconds.
        fields = [pa.field(it.name, _plain(it.type)) for it in rows.schema]
        self._db.register(f"given_{name}", rows.cast(pa.schema(fields)))
        self._db.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given_{name}")
        self._db.unregister(f"given_{name}")

    def count(self, query: str) -> int:
        """How many rows the query has."""
        return self._number(f"SELECT count(*) FROM ({truth(query)})")

    def check(self, query: str, found: pa.Table) -> int:
        """Raises unless these are the rows of the query; how many there are."""
        self._add("found", found)
        self._db.execute(f"CREATE OR REPLACE TABLE wanted AS {truth(query)}")
        chosen, behind = DETERMINED.get(query, "SELECT * FROM"), GROUPED.get(query, "")
        sides = [f"({chosen} {side}{behind})" for side in ("found", "wanted")]
        for one, other, what in ((*sides, "too much"), (*reversed(sides), "missing")):
            wrong = self._db.execute(f"{one} EXCEPT ALL {other}").fetchall()
            if wrong:
                raise AssertionError(f"{query}: {len(wrong)} rows are {what}, such as {wrong[0]}")
        return self._number(f"SELECT count(*) FROM {sides[1]}")

    def _number(self, query: str) -> int:
        [[found]] = self._db.execute(query).fetchall()
        return int(found)

    def __enter__(self) -> Truth:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us") if pa.types.is_timestamp(kind) else kind
