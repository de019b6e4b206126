"""Joins and windows of DataFrames give what DuckDB gives: random rows, nulls in keys, batches cut anywhere.

Half of the programs run as a stream, half of them in BATCH.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa
import pytest

import penstock.dataframe as pf
from penstock.common import Configuration
from penstock.dataframe import Cumulate, DataFrame, Session, Slide, Tumble, col
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.local import local_cluster
from tests.duck import connected

SEEDS = 20
DELAY = 30


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


def random_rows(rng: random.Random, first: int = 0) -> pa.Table:
    """Keys with nulls, numbers, and times that are out of order by no more than the delay."""
    count = rng.choice([1, 5, 40])
    now, times = 0, []
    for _ in range(count):
        now += rng.randint(0, 12)
        times.append(max(0, now - rng.randint(0, DELAY)))
    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "k": pa.array([rng.choice(["a", "b", "c", None]) for _ in times], pa.string()),
            "v": pa.array([rng.choice([None, *range(-3, 9)]) for _ in times], pa.int64()),
            "ts": pa.array(times, pa.int64()),
        }
    )


PRICES = [None, *map(Decimal, ("0.000", "1.005", "-2.500", "999999999999999999999.999", "-4294967296.001"))]


def random_prices(rng: random.Random) -> pa.Table:
    """The same with decimals and doubles."""
    table = random_rows(rng)
    prices = [rng.choice(PRICES) for _ in range(len(table))]
    table = table.append_column("p", pa.array(prices, pa.decimal128(24, 3)))
    doubles = [rng.choice([None, float("nan"), 0.0, -0.0, 1.5]) for _ in prices]
    return table.append_column("x", pa.array(doubles, pa.float64()))


def frame_of(table: pa.Table) -> DataFrame:
    return pf.from_arrow(table, time="ts", max_delay=DELAY)


def found_in(frame: DataFrame, rng: random.Random, parallelism: int) -> Counter[Any]:
    settings = Configuration()
    settings.set_integer("penstock.batch.max-rows", rng.choice([1, 3, 8192]))
    settings.set_string("execution.runtime-mode", rng.choice(["STREAMING", "BATCH"]))
    settings.set_integer("parallelism.default", parallelism)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    with frame.to_data_stream(env).execute_and_collect() as rows:
        return Counter(tuple(_number(it) for it in row.as_dict().values()) for row in rows)


def _number(value: Any) -> Any:
    """Bounds of windows as milliseconds."""
    if not isinstance(value, dt.datetime):
        return value
    return round((value - dt.datetime(1970, 1, 1)) / dt.timedelta(milliseconds=1))  # noqa: DTZ001


def said(query: str, **tables: pa.Table) -> Counter[Any]:
    with connected() as db:
        for name, table in tables.items():
            db.register(name, table)
        return Counter(tuple(map(_mean, row)) for row in db.sql(query).fetchall())


def _mean(value: Any) -> Any:
    """A sum and what to divide it by: our means of decimals are decimals."""
    if not isinstance(value, dict):
        return value
    total, count = value.values()
    return None if total is None else (total / count).quantize(Decimal("1e-6"), ROUND_HALF_UP)


TABLES: dict[str, pa.Table] = {}
"""What the queries name."""
Both = tuple[DataFrame, str]


def interval(how: str) -> Callable[[random.Random], Both]:
    def make(rng: random.Random) -> Both:
        left, right = random_rows(rng), random_rows(rng, 100)
        low = rng.randint(-40, 40)
        bounds = (low, low + rng.choice([0, 5, 60]))
        joined = frame_of(left).join(frame_of(right), on="k", how=how, between=bounds)
        on = f"l.k = r.k AND r.ts - l.ts BETWEEN {bounds[0]} AND {bounds[1]}"
        if how in ("semi", "anti"):
            query = f"SELECT * FROM l {how.upper()} JOIN r ON {on}"
        else:
            columns = "l.id, coalesce(l.k, r.k), l.v, l.ts, r.id, r.v, r.ts"
            query = f"SELECT {columns} FROM l {how.upper()} JOIN r ON {on}"
        TABLES.update(l=left, r=right)
        return joined, query

    return make


AGGREGATES = {
    name: made.alias(f"r{place}")
    for place, (name, made) in enumerate(
        {
            "count(*)": pf.count(),
            "sum(v)::BIGINT": col("v").sum,
            "min(v)": col("v").min,
            "count(DISTINCT v)": col("v").count.distinct,
            "count(DISTINCT v) FILTER (WHERE id % 2 = 0)": col("v").count.distinct.filter(col("id") % 2 == 0),
            "sum(DISTINCT v)::BIGINT": col("v").sum.distinct,
            "count(DISTINCT x)": col("x").count.distinct,
            "avg(DISTINCT v)": col("v").avg.distinct,
            "sum(p)": col("p").sum,
            "sum(DISTINCT p)": col("p").sum.distinct,
            "max(p)": col("p").max,
            "{'sum': sum(p), 'by': count(p)}": col("p").avg,
        }.items()
    )
}
FOLDS = ", ".join(AGGREGATES)


def windows(rng: random.Random) -> Both:
    TABLES["l"] = random_prices(rng)
    size = rng.choice([10, 25, 60])
    shape = rng.choice(["tumble", "slide", "cumulate"])
    if shape == "tumble":
        window: Any = Tumble(size)
        spans = f"SELECT *, ts - ts % {size} AS s, ts - ts % {size} + {size} AS e FROM l"
    elif shape == "slide":
        slide = rng.choice([5, 10, 25])
        window = Slide(size, slide)
        spans = (
            f"SELECT l.*, n * {slide} AS s, n * {slide} + {size} AS e FROM l, range(-20, 400) t(n) "
            f"WHERE l.ts >= n * {slide} AND l.ts < n * {slide} + {size}"
        )
    else:
        step = 5
        window = Cumulate(size, step)
        spans = (
            f"SELECT l.*, ts - ts % {size} AS s, n * {step} AS e FROM l, range(0, 400) t(n) "
            f"WHERE n * {step} > ts AND n * {step} <= ts - ts % {size} + {size}"
        )
    grouped = frame_of(TABLES["l"]).window(window)
    if rng.random() < 0.3:
        return grouped.agg(*AGGREGATES.values()), f"SELECT s, e, {FOLDS} FROM ({spans}) GROUP BY s, e"
    query = f"SELECT k, s, e, {FOLDS} FROM ({spans}) GROUP BY k, s, e"
    return grouped.group_by("k").agg(*AGGREGATES.values()), query


def sessions(rng: random.Random) -> Both:
    TABLES["l"] = random_prices(rng)
    gap = rng.choice([4, 10, 30])
    window = "WINDOW w AS (PARTITION BY k ORDER BY ts)"
    begins = f"SELECT *, coalesce(ts - lag(ts) OVER w > {gap}, true)::INT AS b FROM l {window}"
    placed = f"SELECT *, sum(b) OVER w AS number FROM ({begins}) {window}"
    query = f"SELECT k, min(ts), max(ts) + {gap}, {FOLDS} FROM ({placed}) GROUP BY k, number"
    return frame_of(TABLES["l"]).window(Session(gap)).group_by("k").agg(*AGGREGATES.values()), query


def window_join(rng: random.Random) -> Both:
    TABLES.update(l=random_rows(rng), r=random_rows(rng, 100))
    how = rng.choice(["inner", "left", "right", "full"])

    def counts(name: str, shown: str) -> DataFrame:
        found = frame_of(TABLES[name]).window(Tumble(20)).group_by("k")
        return found.agg(pf.count().alias(shown))

    joined = counts("l", "a").join(counts("r", "b"), on=["k", "window_start", "window_end"], how=how)
    one = "SELECT k, ts - ts % 20 AS s, ts - ts % 20 + 20 AS e, count(*) AS n FROM {} GROUP BY ALL"
    columns = "coalesce(x.k, y.k), coalesce(x.s, y.s), coalesce(x.e, y.e), x.n, y.n"
    query = (
        f"SELECT {columns} FROM ({one.format('l')}) x {how.upper()} JOIN ({one.format('r')}) y "
        "ON x.k = y.k AND x.s = y.s AND x.e = y.e"
    )
    return joined, query


def most_of_window(rng: random.Random) -> Both:
    TABLES["l"] = random_rows(rng)
    counts = frame_of(TABLES["l"]).window(Tumble(20)).group_by("k").agg(pf.count().alias("n"))
    found = counts.group_by("window_start", "window_end").agg(col("n").max.alias("most"))
    one = "SELECT k, ts - ts % 20 AS s, count(*) AS n FROM l GROUP BY ALL"
    return found, f"SELECT s, s + 20, max(n) FROM ({one}) GROUP BY s"


def top_n(rng: random.Random) -> Both:
    TABLES["l"] = random_rows(rng)
    n, grouped = rng.choice([1, 2, 5]), rng.random() < 0.6
    down = rng.random() < 0.5
    order = [("v", "desc") if down else "v", "id"]
    windows = frame_of(TABLES["l"]).window(Tumble(25))
    found = windows.top_n(n, by=order, partition_by="k" if grouped else (), rank="place")
    by = "k, s" if grouped else "s"
    # Nulls are the smallest, as in Flink and Spark.
    sorting = "v DESC NULLS LAST, id" if down else "v NULLS FIRST, id"
    ranked = f"SELECT *, row_number() OVER (PARTITION BY {by} ORDER BY {sorting}) AS p FROM placed"
    placed = "placed AS (SELECT *, ts - ts % 25 AS s FROM l)"
    return found, f"WITH {placed} SELECT id, k, v, ts, p, s, s + 25 FROM ({ranked}) WHERE p <= {n}"


def over(rng: random.Random) -> Both:
    TABLES["l"] = random_prices(rng).drop_columns(["x"])
    frames: list[tuple[dict[str, Any], str]] = [
        ({}, "ORDER BY ts RANGE UNBOUNDED PRECEDING"),
        ({"rows": "unbounded"}, "ORDER BY ts, id ROWS UNBOUNDED PRECEDING"),
        ({"rows": 2}, "ORDER BY ts, id ROWS 2 PRECEDING"),
        ({"rows": 0}, "ORDER BY ts, id ROWS CURRENT ROW"),
        ({"range": 15}, "ORDER BY ts RANGE 15 PRECEDING"),
    ]
    options, sql = rng.choice(frames)
    found = frame_of(TABLES["l"]).over("k", **options)
    shown = found.agg(
        pf.count().alias("n"),
        col("v").sum.alias("s"),
        col("v").min.alias("a"),
        col("v").max.alias("b"),
        col("p").sum.alias("t"),
        col("p").min.alias("c"),
        col("p").avg.alias("m"),
    )
    frame = f"OVER (PARTITION BY k {sql})"
    folds = f"count(*) {frame}, sum(v) {frame}::BIGINT, min(v) {frame}, max(v) {frame}, sum(p) {frame}"
    mean = f"{{'sum': sum(p) {frame}, 'by': count(p) {frame}}}"
    return shown, f"SELECT id, k, v, ts, p, {folds}, min(p) {frame}, {mean} FROM l"


def versions(rng: random.Random) -> Both:
    table = random_rows(rng, 100)
    table = table.filter(pa.compute.is_valid(table.column("k")))
    seen: set[Any] = set()
    kept = []
    for at, pair in enumerate(
        zip(table.column("k").to_pylist(), table.column("ts").to_pylist(), strict=True)
    ):
        if pair not in seen:
            seen.add(pair)
            kept.append(at)
    TABLES.update(l=random_rows(rng), r=table.take(pa.array(kept, pa.int64())))
    how = rng.choice(["inner", "left"])
    joined = frame_of(TABLES["l"]).join_temporal(frame_of(TABLES["r"]), on="k", how=how)
    outer = "LEFT" if how == "left" else ""
    query = f"SELECT l.*, r.id, r.v, r.ts FROM l ASOF {outer} JOIN r ON l.k = r.k AND l.ts >= r.ts"
    return joined, query


def lookup(rng: random.Random) -> Both:
    TABLES.update(l=random_rows(rng), r=random_rows(rng, 100).drop_columns(["ts"]))
    how, on = rng.choice(["inner", "left"]), rng.choice(["k", "v", ["k", "v"]])
    joined = frame_of(TABLES["l"]).join_lookup(TABLES["r"], on=on, how=how)
    names = [on] if isinstance(on, str) else on
    others = [f"r.{name}" for name in ("id", "k", "v") if name not in names]
    condition = " AND ".join(f"l.{name} = r.{name}" for name in names)
    return joined, f"SELECT l.*, {', '.join(others)} FROM l {how.upper()} JOIN r ON {condition}"


KINDS: dict[str, Callable[[random.Random], Both]] = {
    **{f"interval {how}": interval(how) for how in ("inner", "left", "right", "full", "semi", "anti")},
    "windows": windows,
    "sessions": sessions,
    "window join": window_join,
    "most of a window": most_of_window,
    "top n": top_n,
    "over": over,
    "versions": versions,
    "lookup": lookup,
}


@pytest.mark.parametrize("kind", KINDS)
def test_as_duckdb_says(kind: str) -> None:
    for seed in range(SEEDS):
        rng = random.Random(f"{kind} {seed}")
        frame, query = KINDS[kind](rng)
        # Of rows with equal times those come first that arrive first, and two tasks are in no order.
        parallelism = 1 if kind == "over" else rng.choice([1, 2])
        assert found_in(frame, rng, parallelism) == said(query, **TABLES), f"seed {seed}: {query}"
