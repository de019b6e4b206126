"""Nexmark as DataFrames and in SQL equals DuckDB: in streaming and BATCH, after a crash, rescaled."""

from __future__ import annotations

import pickle
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from flow_graphs import Pace, committed_files, read_text, text_file_sink
from local_jobs import environment, finish, kill_slot, until, wait_for_snapshots

from benchmarks.nexmark.by_sql import sql_frame
from benchmarks.nexmark.events import Feed
from benchmarks.nexmark.queries import CHANGING, frame_of
from benchmarks.nexmark.tables import MakeSource, Rows, generated, stream
from benchmarks.nexmark.truth import QUERIES, Truth
from penstock.common import Types
from penstock.connectors.source import Source
from penstock.dataframe import DataFrame
from penstock.datastream import RuntimeExecutionMode
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.datastream.connectors.file_system import FileSink
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S

FEED = Feed(events=6_000, per_second=250)
"""24 seconds, so that windows of ten begin and end."""
BATCHED = [query for query in QUERIES if query != "q12"]
"""The clock's windows are for streams."""


@pytest.fixture(scope="module")
def truth() -> Iterator[Truth]:
    with Truth(FEED) as found:
        yield found


@pytest.fixture(params=QUERIES)
def query(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def frame(env: Env, query: str, make_source: MakeSource = generated, by_sql: bool = False) -> DataFrame:
    made: dict[str, DataFrame] = {}

    def table(kind: str) -> DataFrame:
        if kind not in made:
            made[kind] = stream(env, kind, FEED, make_source=make_source)
        return made[kind]

    return sql_frame(env, query, table) if by_sql else frame_of(query)(table)


def gated(gate: Path, rows: Rows, count: int | None, rate: float | None) -> Source:
    """The source that waits in the middle for a gate."""
    assert count is not None
    return Pace(rate, gate).source(rows, count, columns=True)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_streaming(query: str, parallelism: int, truth: Truth) -> None:
    with local_cluster():
        env = environment().set_parallelism(parallelism)
        assert truth.check(query, frame(env, query).to_arrow()) > 0


@pytest.mark.parametrize("query", BATCHED)
def test_batch(query: str, truth: Truth) -> None:
    with local_cluster() as cluster:
        cluster.batch_rows = 1000
        env = environment().set_parallelism(2)
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        assert truth.check(query, frame(env, query).to_arrow()) > 0


@pytest.mark.parametrize(
    ("query", "mode"),
    [
        *[(query, RuntimeExecutionMode.STREAMING) for query in QUERIES],
        *[(query, RuntimeExecutionMode.BATCH) for query in BATCHED],
    ],
)
def test_sql(query: str, mode: RuntimeExecutionMode, truth: Truth) -> None:
    with local_cluster():
        env = environment().set_parallelism(2)
        env.set_runtime_mode(mode)
        assert truth.check(query, frame(env, query, by_sql=True).to_arrow()) > 0


def test_a_crash_in_the_middle(query: str, tmp_path: Path, truth: Truth) -> None:
    gate, found = tmp_path / "gate", []
    with local_cluster() as launcher:
        env = environment(tmp_path / "chk", penstock__batch__max_rows="256").set_parallelism(2)
        rows = frame(env, query, partial(gated, gate))
        running = threading.Thread(target=lambda: found.append(rows.to_arrow()))
        running.start()
        until(lambda: launcher.jobs, "the job is there")
        wait_for_snapshots(launcher, 2)
        kill_slot(launcher)
        gate.touch()
        running.join(PATIENCE_S)
        assert launcher.jobs[-1].driver.restarts > 0
    assert truth.check(query, found[0]) > 0


def change(row: Any) -> str:
    """A change as a line of text: whether a row comes or goes, and its values."""
    comes = row.get_row_kind().name in ("INSERT", "UPDATE_AFTER")
    return pickle.dumps((comes, tuple(row))).hex()


def into_files(query: str, env: Env, out: Path, make_source: MakeSource) -> pa.Schema:
    """The rows as Parquet, or the changes as text."""
    found: Any = frame(env, query, make_source)
    if query in CHANGING:
        found.to_changelog_stream().map(change, Types.STRING()).sink_to(text_file_sink(out))
    else:
        found.to_data_stream().sink_to(FileSink.parquet(str(out), found.schema))
    return found.schema


def left_in_files(query: str, out: Path, schema: pa.Schema) -> pa.Table:
    """Whatever order changes are read in, the rows that came more often than they went are left."""
    if query not in CHANGING:
        return pa.concat_tables([pq.read_table(file, partitioning=None) for file in committed_files(out)])
    rows: Counter[tuple[Any, ...]] = Counter()
    for line in read_text(out):
        comes, values = pickle.loads(bytes.fromhex(line))
        rows[values] += 1 if comes else -1
    assert min(rows.values()) >= 0, "a row went that had not come"
    return pa.Table.from_pylist([dict(zip(schema.names, row)) for row in rows.elements()], schema)


def test_going_on_at_another_parallelism(query: str, tmp_path: Path, truth: Truth) -> None:
    gate, out = tmp_path / "gate", tmp_path / "out"
    settings: dict[str, Any] = {"penstock__batch__max_rows": "256"}
    with local_cluster() as launcher:
        env = environment(tmp_path / "chk", **settings).set_parallelism(2)
        schema = into_files(query, env, out, partial(gated, gate))
        client = env.execute_async(query)
        wait_for_snapshots(launcher, 2)
        savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoint")).result(PATIENCE_S)
        finish(client)
        gate.touch()
        env = environment(None, execution__state_recovery__path=savepoint, **settings).set_parallelism(3)
        into_files(query, env, out, partial(gated, gate))
        finish(env.execute_async(query))
    assert truth.check(query, left_in_files(query, out, schema)) > 0


def test_bids_are_filed_by_day_and_minute(tmp_path: Path, truth: Truth) -> None:
    """q10 into a partitioned table of files."""
    with local_cluster():
        env = environment(tmp_path / "chk").set_parallelism(2)
        found = frame(env, "q10")
        sink = FileSink.parquet(str(tmp_path / "out"), found.schema, partition_by=["dt", "hm"])
        found.to_data_stream().sink_to(sink)
        finish(env.execute_async("q10"))
    folders = {str(file.parent.relative_to(tmp_path / "out")) for file in committed_files(tmp_path / "out")}
    assert folders == {"dt=2026-03-01/hm=07%3A59", "dt=2026-03-01/hm=08%3A00"}
