"""Filters that let Parquet's row groups be passed over give what DuckDB gives; and they do pass some over."""

from __future__ import annotations

import datetime as dt
import operator
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock.dataframe as pf
from penstock.connectors.files.formats import FileRange
from penstock.connectors.files.parquet import ParquetFormat
from penstock.connectors.source import Bound, Comparison, EndOfSplit
from penstock.dataframe import col
from penstock.sql import Session
from penstock.testing.local import local_cluster
from tests.duck import connected

duckdb = pytest.importorskip("duckdb")
SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "m": pa.int8(),
        "x": pa.float64(),
        "s": pa.string(),
        "d": pa.date32(),
        "ts": pa.timestamp("us"),
    }
)
CONSTANTS = {
    "n": ["-3", "0", "7", "12", "400", "2.5", "3e0"],
    "m": ["-2", "3", "300"],
    "x": ["-1e0", "0e0", "1", "3e0"],
    "s": ["''", "'m'", "'ü'", "'z'"],
    "d": ["DATE '2020-01-05'", "DATE '1969-12-31'"],
    "ts": ["TIMESTAMP '2020-01-05 00:00:00'", "TIMESTAMP '2020-01-02 03:00:00'"],
}
SIGNS = ["=", "<", "<=", ">", ">=", "<>"]


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


def table(rng: random.Random, rows: int) -> pa.Table:
    """Values that go up, so that row groups differ, with nulls and NaN among them."""
    start = dt.datetime.fromisoformat("2020-01-01")

    def at(place: int, value: Any) -> Any:
        return None if rng.random() < 0.2 or place // 10 == 3 else value

    made: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    for place in range(rows):
        near = place // 5 + rng.randint(-2, 2)
        values = (
            near,
            max(-128, min(127, near)),
            rng.choice([float(near), float("nan"), -0.0]),
            chr(97 + near % 26) * rng.randint(0, 2) + rng.choice(["", "ü"]),
            (start + dt.timedelta(days=near)).date(),
            start + dt.timedelta(hours=near),
        )
        for name, value in zip(SCHEMA.names, values, strict=True):
            made[name].append(at(place, value))
    return pa.table(made, SCHEMA)


def condition(rng: random.Random, depth: int = 2) -> str:
    if depth and rng.random() < 0.6:
        both = f"({condition(rng, depth - 1)} {rng.choice(['AND', 'AND', 'OR'])} {condition(rng, depth - 1)})"
        return f"NOT {both}" if rng.random() < 0.15 else both
    name = rng.choice(SCHEMA.names)
    parts = [name, rng.choice(CONSTANTS[name])]
    if rng.random() < 0.3:
        parts.reverse()
    return f"{parts[0]} {rng.choice(SIGNS)} {parts[1]}"


@pytest.mark.parametrize("part", range(2))
def test_filtered_files(part: int, tmp_path: Path) -> None:
    rng = random.Random(f"files {part}")
    rows = table(rng, 120)
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=10)
    session = Session()
    session.register("t", pf.read_parquet(tmp_path / "t.parquet"))
    with connected() as db:
        db.register("t", rows)
        for _ in range(20):
            query = f"SELECT n, s FROM t WHERE {condition(rng)}"
            said = sorted(map(repr, db.sql(query).fetchall()))
            assert sorted(repr(tuple(row.values())) for row in session.sql(query).to_pylist()) == said, query


READ = [
    (Bound("n", Comparison.EQUAL, 42, pa.int64()), 10),
    (Bound("n", Comparison.LESS, 20, pa.int64()), 20),
    (Bound("n", Comparison.LESS_EQUAL, 20, pa.int64()), 30),
    (Bound("n", Comparison.GREATER, 89, pa.int64()), 10),
    (Bound("n", Comparison.GREATER_EQUAL, 89, pa.int64()), 20),
    (Bound("n", Comparison.GREATER, 1000, pa.int64()), 0),
    (Bound("n", Comparison.GREATER, 1000, pa.int32()), 100),
    (Bound("other", Comparison.GREATER, 1000, pa.int64()), 100),
]


def read(reader: Any) -> int:
    count = 0
    with pytest.raises(EndOfSplit):
        while True:
            batch = reader.poll(1000)
            count += 0 if batch is None else len(batch)
    return count


@pytest.mark.parametrize(("bound", "count"), READ)
def test_row_groups_are_passed_over(bound: Bound, count: int, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"n": range(100)}), path, row_group_size=10)
    reader = ParquetFormat(["n"]).within([bound]).open(str(path), None)
    assert read(reader) == count
    assert reader.position() == 100


def test_another_query_goes_on_where_one_was(tmp_path: Path) -> None:
    """Whatever columns and bounds each has, and however the file is divided: each row comes once."""
    rng = random.Random("positions")
    for _ in range(60):
        rows = rng.randint(1, 60)
        numbers = pa.array([place // 3 for place in range(rows)], pa.int64())
        table = pa.table({"at": pa.array(range(rows), pa.int64()), "n": numbers, "s": ["x"] * rows})
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=rng.randint(1, 9))
        path, cut = str(tmp_path / "t.parquet"), rng.randint(0, (tmp_path / "t.parquet").stat().st_size)
        for part in (FileRange(path, 0, cut), FileRange(path, cut)):
            whole = delivered(random_format(rng, []).open_range(part, None), rows)
            bounds = [random_bounds(rng) for _ in range(3)]
            position, found = None, list[int]()
            for some in bounds:
                reader = random_format(rng, some).open_range(part, position)
                polls = rows if some is bounds[-1] else rng.randint(0, 4)
                found += (came := delivered(reader, polls, rng.randint(1, 5)))
                after = reader.position()
                passed = [it for it in whole if (position or 0) <= it < after]
                assert came == [it for it in passed if it in came], "in order, and none of before"
                assert {it for it in passed if within(it // 3, some)} <= set(came)
                position = after
            assert len(found) == len(set(found)) and set(found) <= set(whole)


def random_bounds(rng: random.Random) -> list[Bound]:
    return [
        Bound("n", rng.choice(list(Comparison)), rng.randint(-1, 21), pa.int64())
        for _ in range(rng.randint(0, 2))
    ]


def within(value: int, bounds: list[Bound]) -> bool:
    signs = {"equal": "eq", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}
    return all(getattr(operator, signs[it.comparison.value])(value, it.value) for it in bounds)


def random_format(rng: random.Random, bounds: list[Bound]) -> ParquetFormat:
    columns = rng.choice([["at"], ["at", "s"], ["n", "at"]])
    return ParquetFormat(["at", "n", "s"]).narrowed(columns).within(bounds)


def delivered(reader: Any, polls: int, most: int = 1000) -> list[int]:
    found: list[int] = []
    with suppress(EndOfSplit):
        for _ in range(polls + 1):
            batch = reader.poll(most)
            found += [] if batch is None else batch.columns.column("at").to_pylist()
    return found


MAY_NOT_COMPARE = {
    "a column and a field": (
        pa.table({"a": [{"b": 1}], "a.b": [100]}),
        Bound("a.b", Comparison.GREATER, 50, pa.int64()),
    ),
    "a date that Python has none of": (
        pa.table({"d": pa.array([0, 3_000_000], pa.int32()).cast(pa.date32())}),
        Bound("d", Comparison.GREATER, dt.date(2020, 1, 1), pa.date32()),
    ),
    "a time that Python has none of": (
        pa.table({"d": pa.array([0, 2**60], pa.timestamp("us"))}),
        Bound("d", Comparison.GREATER, dt.datetime.fromisoformat("2020-01-01"), pa.timestamp("us")),
    ),
    "a number without a sign": (
        pa.table({"u": pa.array([2**64 - 1], pa.uint64())}),
        Bound("u", Comparison.GREATER, 2**63, pa.uint64()),
    ),
}


@pytest.mark.parametrize("name", MAY_NOT_COMPARE)
def test_what_statistics_do_not_say_for_sure_is_read(name: str, tmp_path: Path) -> None:
    table, bound = MAY_NOT_COMPARE[name]
    pq.write_table(table, tmp_path / "t.parquet")
    assert read(ParquetFormat().within([bound]).open(str(tmp_path / "t.parquet"), None)) == len(table)


@pytest.mark.parametrize("day", ["x", "y"])
def test_a_column_of_directories_is_not_that_of_files(day: str, tmp_path: Path) -> None:
    (tmp_path / "day=x").mkdir()
    pq.write_table(pa.table({"n": [1, 2], "day": ["y", "y"]}), tmp_path / "day=x" / "t.parquet")
    session = Session()
    options = f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet')"
    session.sql(f"CREATE TABLE t (n BIGINT, `day` STRING) PARTITIONED BY (`day`) {options}")
    every = [row for row in session.sql("SELECT * FROM t").to_pylist() if row["day"] == day]
    assert session.sql(f"SELECT * FROM t WHERE `day` = '{day}'").to_pylist() == every


def asked(frame: pf.DataFrame, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Bound, ...]]:
    """What files are asked to leave out."""
    found: list[tuple[Bound, ...]] = []
    within = ParquetFormat.within

    def told(self: ParquetFormat, bounds: Any) -> ParquetFormat:
        found.append(tuple(bounds))
        return within(self, bounds)

    monkeypatch.setattr(ParquetFormat, "within", told)
    frame.to_pylist()
    return found


def test_only_a_filter_behind_a_source_without_event_time_is_pushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"n": range(100), "ts": range(100)}), tmp_path / "t.parquet", row_group_size=10)
    plain = pf.read_parquet(tmp_path)
    timed = pf.read_parquet(tmp_path, time="ts")
    lower = (Bound("n", Comparison.GREATER, 50, pa.int64()),)
    assert asked(plain.filter(col("n") > 50), monkeypatch) == [lower]
    assert asked(plain.filter((col("n") > 50) | (col("ts") > 3)), monkeypatch) == []
    assert asked(plain.filter(col("n") > 50).union(plain), monkeypatch) == []
    assert asked(timed.filter(col("n") > 50), monkeypatch) == []
