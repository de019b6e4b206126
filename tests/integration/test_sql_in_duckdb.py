"""Some three hundred small queries, of what engines are apt to get wrong, give what DuckDB gives.

They are in ``queries_in_duckdb.sql``: nulls in joins and groups, IN with NULL, conditions behind outer joins,
names that hide others, types that meet, texts and times at their edges, ranks, windows and queries within.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock.dataframe as pf
from penstock.sql import Session
from penstock.testing.local import local_cluster
from tests.duck import connected

pytest.importorskip("duckdb")
INF, NAN = float("inf"), float("nan")
DAYS = ["2020-02-29", None, "1969-12-31", "2021-01-01", "2020-12-31", "2024-12-30"]
T = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5, 6], pa.int64()),
        "k": ["a", "b", None, "a", "b", None],
        "n": pa.array([1, None, 3, -7, 0, 2], pa.int64()),
        "i": pa.array([1, 2, None, -3, 0, 2147483647], pa.int32()),
        "x": [1.5, None, NAN, -0.0, 0.0, INF],
        "f": [1.5, None, 2.5, -2.5, 0.5, -0.5],
        "s": ["abc", "", None, "a%b", "Ünï", "a_b\\c"],
        "b": [True, None, False, True, False, None],
        "d": pa.array([it and dt.date.fromisoformat(it) for it in DAYS], pa.date32()),
        "p": pa.array(
            [it and Decimal(it) for it in ("1.25", None, "-1.25", "0.05", "99.99", "0.00")],
            pa.decimal128(6, 2),
        ),
        "ts": pa.array([1000, 2000, 2500, 61000, 62000, 125000], pa.timestamp("ms")),
    }
)
U = pa.table(
    {
        "id": pa.array([1, 1, 3, None, 9], pa.int64()),
        "k": ["a", "b", None, "c", "a"],
        "w": pa.array([10, 20, None, 40, 50], pa.int64()),
        "ts": pa.array([1000, 1500, 61000, 70000, 125000], pa.timestamp("ms")),
    }
)
TABLES = {"t": T, "u": U, "e": T.slice(0, 0)}


def read_queries() -> list[tuple[str, str]]:
    """Each as it is written for us, and for DuckDB."""
    found: list[tuple[str, str]] = []
    for line in Path(__file__).with_name("queries_in_duckdb.sql").read_text(encoding="utf-8").splitlines():
        if line.startswith("  -- "):
            found[-1] = found[-1][0], line[5:]
        elif not line.startswith("--"):
            found.append((line, line))
    return found


QUERIES = read_queries()


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


@pytest.fixture(scope="module")
def db() -> Iterator[Any]:
    with connected() as found:
        for name, table in TABLES.items():
            found.register(name, table)
        yield found


def key(value: Any) -> Any:
    """A value by which equal ones are found, whatever types engines give numbers."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float | Decimal):
        return "nan" if math.isnan(value) else float(f"{value:.9g}") + 0.0
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def shown(rows: Any) -> list[str]:
    return sorted(repr([key(value) for value in row]) for row in rows)


def test_there_are_many() -> None:
    assert len(QUERIES) > 300


@pytest.mark.parametrize(("query", "theirs"), QUERIES, ids=[it[0][:70] for it in QUERIES])
def test_a_query_gives_what_duckdb_gives(query: str, theirs: str, db: Any) -> None:
    session = Session()
    for name, table in TABLES.items():
        session.register(name, pf.from_arrow(table, time="ts"))
    found = session.sql(query.removesuffix(";")).to_pylist()
    assert shown(row.values() for row in found) == shown(db.sql(theirs).fetchall())
