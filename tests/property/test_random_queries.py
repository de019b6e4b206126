"""Random queries of queries over random rows give what DuckDB gives: of tables at hand, and of files.

Batches are of any size, files have row groups of a few rows, and what is pushed into them must not be seen.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from queries_in_duckdb import RandomQueries, random_table

import penstock.dataframe as pf
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment as Env
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
    """A value by which equal ones are found, whatever types engines give numbers."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float | Decimal):
        return "nan" if math.isnan(value) else float(f"{value:.7g}") + 0.0
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def rows_of(found: list[dict[str, Any]]) -> list[str]:
    return sorted(repr([key(value) for value in row.values()]) for row in found)


def session_of(rng: random.Random, tables: dict[str, pa.Table], path: Path, timed: bool) -> Session:
    """The tables in batches of some size, or files of small row groups.  With event time, if ``timed``."""
    settings = Configuration()
    settings.set_integer("penstock.batch.max-rows", rng.choice([1, 2, 3, 5, 8192]))
    settings.set_string("execution.runtime-mode", rng.choice(["STREAMING", "STREAMING", "BATCH"]))
    session = Session(Env.get_execution_environment(settings))
    of_files = rng.random() < 0.5
    for name, table in tables.items():
        time = "ts" if timed or rng.random() < 0.5 else None
        frame = pf.from_arrow(table, time=time)
        if of_files:
            file = path / f"{name}.parquet"
            pq.write_table(table, file, row_group_size=rng.choice([1, 3, 4, 100]))
            frame = pf.read_parquet(file, time=time)
        session.register(name, frame)
    return session


@pytest.mark.parametrize("part", range(PARTS))
def test_queries_of_queries(part: int, tmp_path: Path) -> None:
    checked = 0
    for seed in range(part, SEEDS, PARTS):
        rng = random.Random(f"queries {seed}")
        tables = {name: random_table(rng, rng.choice([0, 1, 5, 12, 30])) for name in "tu"}
        query = RandomQueries(rng).query(rng.choice([1, 2, 2, 3]))
        session = session_of(rng, tables, tmp_path, "DESCRIPTOR(ts)" in query.mine)
        with connected() as db:
            for name, table in tables.items():
                db.register(name, table)
            try:
                said = db.sql(query.theirs).to_arrow_table().to_pylist()
            except duckdb.OutOfRangeException:  # an overflow; which rows are computed is up to each engine
                continue
        found = session.sql(query.mine).to_pylist()
        assert rows_of(found) == rows_of(said), f"seed {seed}: {query.mine}"
        checked += 1
    assert checked > SEEDS // PARTS // 2
