"""Random queries over random rows give what DuckDB gives, of streams that end."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import penstock.dataframe as pf
from penstock.sql import Session
from penstock.testing.local import local_cluster
from tests.duck import connected

START = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


def table(rng: random.Random, rows: int) -> pa.Table:
    """Keys that repeat, numbers and texts with nulls among them, times in order."""
    times = sorted(START + rng.randint(0, 30_000) for _ in range(rows))
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "k": pa.array([rng.choice("abc") for _ in range(rows)], pa.string()),
            "n": pa.array([rng.choice([None, rng.randint(-5, 5)]) for _ in range(rows)], pa.int64()),
            "x": pa.array([rng.choice([None, rng.uniform(-2, 2)]) for _ in range(rows)], pa.float64()),
            "s": pa.array([rng.choice([None, "", "ab", "Abc", "ü%"]) for _ in range(rows)], pa.string()),
            "ts": pa.array(times, pa.timestamp("ms")),
        }
    )


class Queries:
    """Makes expressions and queries that both read alike."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def number(self, depth: int = 2) -> str:
        rng = self.rng
        if depth == 0 or rng.random() < 0.3:
            return rng.choice(["n", "id", str(rng.randint(-3, 9))])
        return rng.choice(
            [
                f"({self.number(depth - 1)} {rng.choice('+-*')} {self.number(depth - 1)})",
                f"COALESCE({self.number(depth - 1)}, {rng.randint(0, 3)})",
                f"CASE WHEN {self.condition(depth - 1)} THEN {self.number(depth - 1)} ELSE "
                f"{self.number(depth - 1)} END",
                f"ABS({self.number(depth - 1)})",
                f"NULLIF({self.number(depth - 1)}, {rng.randint(0, 3)})",
            ]
        )

    def text(self) -> str:
        return self.rng.choice(["s", "k", "UPPER(s)", "s || k", "COALESCE(s, '-')", "CAST(n AS VARCHAR)"])

    def condition(self, depth: int = 2) -> str:
        rng = self.rng
        if depth == 0 or rng.random() < 0.4:
            return rng.choice(
                [
                    f"{self.number(0)} {rng.choice(['<', '<=', '=', '<>', '>', '>='])} {self.number(0)}",
                    f"n IS {rng.choice(['', 'NOT '])}NULL",
                    f"k IN ('a', '{rng.choice('bc')}')",
                    f"n BETWEEN {rng.randint(-5, 0)} AND {rng.randint(0, 5)}",
                    f"s {rng.choice(['', 'NOT '])}LIKE '{rng.choice(['a%', '_b', '%'])}'",
                    "x > 0e0",
                ]
            )
        joined = rng.choice(["AND", "OR"])
        found = f"({self.condition(depth - 1)} {joined} {self.condition(depth - 1)})"
        return f"NOT {found}" if rng.random() < 0.2 else found

    def select(self) -> str:
        columns = [f"{self.number()} AS a", f"{self.text()} AS b", "x AS c", f"{self.condition()} AS d"]
        chosen = self.rng.sample(columns, self.rng.randint(1, len(columns)))
        where = f" WHERE {self.condition()}" if self.rng.random() < 0.7 else ""
        query = f"SELECT {', '.join(chosen)} FROM t{where}"
        if self.rng.random() < 0.3:
            query = f"WITH q AS ({query}) SELECT * FROM q UNION ALL SELECT * FROM q"
        return query

    def aggregates(self) -> str:
        made = [
            "COUNT(*) AS c",
            f"COUNT({self.number(1)}) AS cn",
            f"SUM({self.number(1)}) AS sn",
            f"MIN({self.number(1)}) AS lo",
            f"MAX({self.number(1)}) AS hi",
            f"SUM(n) FILTER (WHERE {self.condition(1)}) AS f",
            f"COUNT(*) FILTER (WHERE {self.condition(1)}) AS cf",
        ]
        return ", ".join(self.rng.sample(made, self.rng.randint(1, 4)))


def key(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else round(value, 9)
    if isinstance(value, Decimal):  # DuckDB's sums
        return int(value)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    return value


def same(found: list[dict[str, Any]], said: pa.Table) -> bool:
    mine = sorted(repr([key(value) for value in row.values()]) for row in found)
    return mine == sorted(repr([key(value) for value in row.values()]) for row in said.to_pylist())


def check(seed: object, rows: pa.Table, query: str, theirs: str | None = None) -> None:
    session = Session()
    session.register("t", pf.from_arrow(rows, time="ts"), time="ts")
    with connected() as db:
        db.register("t", rows)
        said = db.sql(theirs or query).to_arrow_table()
    found = session.sql(query).to_pylist()
    assert same(found, said), f"seed {seed}: {query}"


@pytest.mark.parametrize("part", range(4))
def test_rows(part: int) -> None:
    for seed in range(part * 15, part * 15 + 15):
        rng = random.Random(f"rows {seed}")
        check(seed, table(rng, rng.choice([0, 1, 30])), Queries(rng).select())


@pytest.mark.parametrize("part", range(4))
def test_windows(part: int) -> None:
    for seed in range(part * 8, part * 8 + 8):
        rng = random.Random(f"windows {seed}")
        rows, queries = table(rng, rng.choice([1, 40])), Queries(rng)
        size = rng.choice([1, 4, 60])
        aggregates, where = queries.aggregates(), queries.condition()
        window = f"TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '{size}' SECOND))"
        keys = rng.choice(["", "k, "])
        mine = (
            f"SELECT {keys}window_start AS w, {aggregates} FROM {window} WHERE {where} GROUP BY "
            f"{keys}window_start, window_end"
        )
        bucket = f"time_bucket(INTERVAL '{size} seconds', ts, TIMESTAMP '1970-01-01')"
        theirs = f"SELECT {keys}{bucket} AS w, {aggregates} FROM t WHERE {where} GROUP BY {keys}{bucket}"
        check(seed, rows, mine, theirs)


@pytest.mark.parametrize("part", range(3))
def test_groups(part: int) -> None:
    for seed in range(part * 8, part * 8 + 8):
        rng = random.Random(f"groups {seed}")
        rows, queries = table(rng, rng.choice([1, 40])), Queries(rng)
        having = rng.choice(["", " HAVING COUNT(*) > 2"])
        by = rng.choice(["k", "k, s", "n", "MOD(id, 3)"])
        query = (
            f"SELECT {by}, {queries.aggregates()}, COUNT(DISTINCT s) AS ds FROM t WHERE "
            f"{queries.condition()} GROUP BY {by}{having}"
        )
        check(seed, rows, query)


@pytest.mark.parametrize("part", range(3))
def test_joins(part: int) -> None:
    for seed in range(part * 8, part * 8 + 8):
        rng = random.Random(f"joins {seed}")
        rows, queries = table(rng, rng.choice([0, 12])), Queries(rng)
        how = rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        on = rng.choice(["a.k = b.k AND a.n = b.n", "a.n = b.id", "a.n + 1 = b.n"])
        some = f"(SELECT * FROM t WHERE {queries.condition()}) AS b"
        check(seed, rows, f"SELECT a.id AS l, b.id AS r, b.n AS n, a.n AS m FROM t AS a {how} {some} ON {on}")


def test_ranks() -> None:
    for seed in range(12):
        rng = random.Random(f"ranks {seed}")
        rows, most = table(rng, 30), rng.randint(1, 3)
        inner = (
            f"SELECT k, id, n, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id "
            f"{rng.choice(['', 'DESC'])}) AS rn FROM t"
        )
        check(seed, rows, f"SELECT k, id, rn FROM ({inner}) WHERE rn <= {most}")
