"""DataFrames whose rows change, stopped with a savepoint and resumed at another parallelism, or killed."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from flow_graphs import SINKS, Pace
from local_jobs import NO_TIME, environment, finish, kill_slot, wait_for_snapshots

import penstock.dataframe as pf
from penstock.common import RowKind
from penstock.common.job_client import JobClient
from penstock.dataframe import DataFrame, col
from penstock.dataframe.regular_join import regular_join
from penstock.testing.local import LocalLauncher, local_cluster
from tests.patience import PATIENCE_S

COUNT = 3000
SCHEMA = pa.schema({"id": pa.int64(), "k": pa.int64(), "v": pa.int64()})


@pytest.fixture
def launcher() -> Iterator[LocalLauncher]:
    with local_cluster(slots=2) as launcher:
        yield launcher


def make_rows(index: Any) -> pa.RecordBatch:
    return pa.record_batch({"id": index, "k": index * 7919 % 23, "v": index * 104_729 % 1009}, schema=SCHEMA)


def groups(rows: DataFrame) -> DataFrame:
    best = rows.group_by("k").agg(col("v").max.alias("most"), col("v").count.distinct.alias("values"))
    return best.group_by((col("most") % 3).alias("rest")).agg(
        pf.count().alias("n"), col("values").sum.alias("v")
    )


def top(rows: DataFrame) -> DataFrame:
    return rows.top_n(2, [col("v").desc(), "id"], "k", rank="place")


def join(rows: DataFrame) -> DataFrame:
    totals = rows.group_by("k").agg(col("v").sum.alias("total"))
    return regular_join(rows.filter(col("id") % 50 == 0), totals, "k", "left")


def model(name: str) -> Counter[Any]:
    rows = make_rows(pa.array(range(COUNT)).to_numpy()).to_pylist()
    keys: dict[int, list[Any]] = {}
    for row in rows:
        keys.setdefault(row["k"], []).append(row)
    if name == "groups":
        found: dict[int, list[int]] = {}
        for mine in keys.values():
            values = {row["v"] for row in mine}
            found.setdefault(max(values) % 3, []).append(len(values))
        return Counter((rest, len(sizes), sum(sizes)) for rest, sizes in found.items())
    if name == "top":
        best = {key: sorted(mine, key=lambda row: (-row["v"], row["id"]))[:2] for key, mine in keys.items()}
        return Counter(
            (row["id"], row["k"], row["v"], place)
            for mine in best.values()
            for place, row in enumerate(mine, 1)
        )
    totals = {key: sum(row["v"] for row in mine) for key, mine in keys.items()}
    return Counter((row["id"], row["k"], row["v"], totals[row["k"]]) for row in rows if row["id"] % 50 == 0)


GRAPHS = {"groups": groups, "top": top, "join": join}


def signed(row: Any) -> str:
    added = row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER)
    return repr((1 if added else -1, tuple(row)))


def start(name: str, path: Path, parallelism: int, gate: Path | None, **settings: str) -> JobClient:
    env = environment(path / "chk", **settings)
    env.set_parallelism(parallelism)
    source = Pace(None, gate).source(make_rows, COUNT, columns=True)
    stream = env.from_source(source, NO_TIME, "rows").uid("rows")
    changes = GRAPHS[name](pf.from_data_stream(stream, SCHEMA)).to_changelog_stream(env)
    changes.map(signed).sink_to(SINKS["log"][0](path / "out")).uid("out")
    return env.execute_async(name)


def left(path: Path) -> Counter[Any]:
    """What all changes add up to."""
    counts: Counter[Any] = Counter()
    for line in SINKS["log"][1](path / "out"):
        sign, row = ast.literal_eval(line)
        counts[row] += sign
    return Counter({row: count for row, count in counts.items() if count})


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("parallelism", [(2, 1), (1, 2)])
def test_a_savepoint_and_another_parallelism(
    name: str, parallelism: tuple[int, int], tmp_path: Path, launcher: LocalLauncher
) -> None:
    client = start(name, tmp_path, parallelism[0], tmp_path / "gate")
    wait_for_snapshots(launcher, 2)
    path = client.stop_with_savepoint(False, str(tmp_path / "sp")).result(PATIENCE_S)
    finish(client)
    assert left(tmp_path) != model(name), "the first run was to be stopped in the middle"
    finish(start(name, tmp_path, parallelism[1], None, execution__state_recovery__path=path))
    assert left(tmp_path) == model(name)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_slot_is_killed(name: str, tmp_path: Path, launcher: LocalLauncher) -> None:
    client = start(name, tmp_path, 2, tmp_path / "gate")
    wait_for_snapshots(launcher, 2)
    kill_slot(launcher)
    (tmp_path / "gate").touch()
    finish(client)
    assert left(tmp_path) == model(name)
