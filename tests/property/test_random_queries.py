"""Random queries of queries over random rows give what DuckDB gives."""

from __future__ import annotations

import datetime as dt
import math
import os
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from queries_in_duckdb import RandomQueries, random_table

import penstock.dataframe as pf
from penstock.sql import Session
from penstock.testing.local import local_cluster
from tests.duck import connected

duckdb = pytest.importorskip("duckdb")
SEEDS = int(os.environ.get("PENSTOCK_TEST_QUERIES", "48"))
PARTS = 4


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


def key(value: Any) -> Any:
    """A value by which equal ones are found."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else float(f"{value:.7g}") + 0.0
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def rows_of(found: list[dict[str, Any]]) -> list[str]:
    return sorted(repr([key(value) for value in row.values()]) for row in found)


@pytest.mark.parametrize("part", range(PARTS))
def test_queries_of_queries(part: int) -> None:
    checked = 0
    for seed in range(part, SEEDS, PARTS):
        rng = random.Random(f"queries {seed}")
        tables = {name: random_table(rng, rng.choice([0, 1, 5, 12, 30])) for name in "tu"}
        query = RandomQueries(rng).query(rng.choice([1, 2, 2, 3]))
        session = Session()
        with connected() as db:
            for name, table in tables.items():
                session.register(name, pf.from_arrow(table, time="ts"))
                db.register(name, table)
            try:
                said = db.sql(query.theirs).to_arrow_table().to_pylist()
            except duckdb.OutOfRangeException:  # an overflow; which rows are computed is up to each engine
                continue
        found = session.sql(query.mine).to_pylist()
        assert rows_of(found) == rows_of(said), f"seed {seed}: {query.mine}"
        checked += 1
    assert checked > SEEDS // PARTS // 2
