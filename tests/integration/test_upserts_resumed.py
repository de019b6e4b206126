"""A table of upserts of which nothing was kept is not gone on with by a query that needs the old rows."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from flow_graphs import SINKS, Pace
from local_jobs import NO_TIME, environment, finish, wait_for_snapshots

from penstock.core.changes import CHANGE, UPDATE_AFTER
from penstock.core.errors import JobFailedError
from penstock.dataframe import DataFrame, col
from penstock.dataframe.upserted import upserted
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.testing.local import LocalLauncher, local_cluster
from tests.patience import PATIENCE_S

SCHEMA = pa.schema({"seat": pa.int64(), "price": pa.int64()})
COUNT = 600
SEATS = 6


@pytest.fixture
def launcher() -> Iterator[LocalLauncher]:
    with local_cluster(slots=2) as launcher:
        yield launcher


def make_stock(index: Any) -> pa.RecordBatch:
    numbers = np.asarray(index)
    kinds = np.full(len(numbers), UPDATE_AFTER, np.int8)
    return pa.record_batch({"seat": numbers % SEATS, "price": numbers, CHANGE: kinds})


def stock(env: Env, gate: Path) -> DataFrame:
    source = Pace(None, gate).source(make_stock, COUNT, columns=True)
    return upserted(lambda env: env.from_source(source, NO_TIME, "stock"), SCHEMA, ["seat"], env, "stock")


def dear(frame: DataFrame) -> DataFrame:
    """Nothing of it needs old rows."""
    return frame.filter(col("price") >= 0)


def summed(frame: DataFrame) -> DataFrame:
    """Which takes them back."""
    return frame.group_by((col("seat") % 2).alias("row")).agg(col("price").sum.alias("sum"))


def start(path: Path, made: Any, **settings: str) -> Any:
    env = environment(path / "chk", **settings)
    env.set_parallelism(1)
    changes = made(stock(env, path / "gate")).to_changelog_stream(env, upsert=True)
    changes.map(lambda row: repr(tuple(row))).sink_to(SINKS["log"][0](path / "out")).uid("out")
    return env.execute_async("stock")


def stopped(path: Path, made: Any, launcher: LocalLauncher) -> str:
    """A savepoint in the middle."""
    client = start(path, made)
    wait_for_snapshots(launcher, 2)
    found = client.stop_with_savepoint(False, str(path / "sp")).result(PATIENCE_S)
    finish(client)
    (path / "gate").touch()
    return str(found)


def most(lines: Iterable[str]) -> dict[int, int]:
    """The last value of each key: they go up."""
    found: dict[int, int] = {}
    for line in lines:
        key, value = ast.literal_eval(line)
        found[key] = max(value, found.get(key, -1))
    return found


LAST = {price % SEATS: price for price in range(COUNT - SEATS, COUNT)}
WANTED = {
    dear: LAST,
    summed: {row: sum(price for seat, price in LAST.items() if seat % 2 == row) for row in (0, 1)},
}


@pytest.mark.parametrize("queries", [(dear, summed), (summed, dear)])
def test_another_need_of_old_rows_is_refused(
    queries: tuple[Any, Any], tmp_path: Path, launcher: LocalLauncher
) -> None:
    before, behind = queries
    savepoint = stopped(tmp_path, before, launcher)
    with pytest.raises(JobFailedError, match="operators that the program does not have: .*'Source: stock'"):
        finish(start(tmp_path / "next", behind, execution__state_recovery__path=savepoint))


def test_without_that_state_the_table_is_read_from_its_beginning(
    tmp_path: Path, launcher: LocalLauncher
) -> None:
    savepoint = stopped(tmp_path, dear, launcher)
    (tmp_path / "next").mkdir()
    (tmp_path / "next" / "gate").touch()
    settings = {"execution__state_recovery__ignore_unclaimed_state": "true"}
    finish(start(tmp_path / "next", summed, execution__state_recovery__path=savepoint, **settings))
    assert most(SINKS["log"][1](tmp_path / "next" / "out")) == WANTED[summed]


@pytest.mark.parametrize("made", [dear, summed])
def test_the_same_query_goes_on(made: Any, tmp_path: Path, launcher: LocalLauncher) -> None:
    savepoint = stopped(tmp_path, made, launcher)
    assert most(SINKS["log"][1](tmp_path / "out")) != WANTED[made]
    finish(start(tmp_path, made, execution__state_recovery__path=savepoint))
    assert most(SINKS["log"][1](tmp_path / "out")) == WANTED[made]
