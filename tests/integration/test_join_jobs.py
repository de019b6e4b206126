"""Joins written as users write them, in whole jobs; rows and columns give the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.common import WatermarkStrategy
from penstock.core.errors import ConfigError, GraphError, JobFailedError
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.window import CountEvictor, EventTimeSessionWindows, TumblingEventTimeWindows
from penstock.testing.local import local_cluster

COUNT = 60
WINDOWS = TumblingEventTimeWindows.of(100)


def make_clicks(index: Any) -> pa.RecordBatch:
    return pa.record_batch({"user": index % 4, "ts": index * 10, "n": index})


def make_views(index: Any) -> pa.RecordBatch:
    names = pa.array([f"view {i}" for i in index.tolist()])
    return pa.record_batch({"id": pa.array(index % 3, pa.int32()), "ts": index * 15, "n": names})


def streams(env: StreamExecutionEnvironment) -> tuple[Any, Any]:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    made = [
        env.from_source(DataGeneratorSource(make, COUNT, columns=True), strategy, "numbers")
        for make in (make_clicks, make_views)
    ]
    return made[0], made[1]


@pytest.fixture
def env() -> Any:
    with local_cluster(2):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(2)
        yield env


def truth(lower: int, upper: int) -> list[Any]:
    clicks, views = (make(np.arange(COUNT)).to_pylist() for make in (make_clicks, make_views))
    return sorted(
        (c["n"], v["n"])
        for c in clicks
        for v in views
        if c["user"] == v["id"] and lower <= v["ts"] - c["ts"] <= upper
    )


def test_interval_join_of_rows_and_of_columns(env: Any) -> None:
    clicks, views = streams(env)
    joined = clicks.key_by("user").interval_join(views.key_by("id")).between(-20, 40)
    rows = joined.process(lambda click, view: (click["n"], view["n"]))
    assert sorted(rows.execute_and_collect()) == truth(-20, 40)
    clicks, views = streams(env)
    joined = clicks.key_by("user").interval_join(views.key_by("id")).between("-20 ms", "40 ms")
    found = list(joined.columns().execute_and_collect())
    assert set(found[0].as_dict()) == {"user", "ts_left", "n_left", "ts_right", "n_right"}
    assert sorted((row["n_left"], row["n_right"]) for row in found) == truth(-20, 40)


def test_window_join_of_rows_and_of_columns(env: Any) -> None:
    clicks, views = streams(env)
    windows = clicks.join(views).where("user").equal_to(lambda view: view["id"]).window(WINDOWS)
    rows = sorted(windows.apply(lambda click, view: (click["n"], view["n"])).execute_and_collect())
    clicks, views = streams(env)
    windows = clicks.join(views).where("user").equal_to("id").window(WINDOWS)
    found = list(windows.columns(("", "_view")).execute_and_collect())
    assert set(found[0].as_dict()) == {
        "user", "ts", "n", "ts_view", "n_view", "window_start", "window_end"
    }  # fmt: skip
    assert sorted((row["n"], row["n_view"]) for row in found) == rows
    assert all(row["window_start"] <= row["ts"] < row["window_end"] for row in found)


CLICKS = pa.schema([("user", pa.int64()), ("ts", pa.int64()), ("n", pa.int64())])
VIEWS = pa.schema([("id", pa.int32()), ("ts", pa.int64()), ("n", pa.string())])
Numbers = list[tuple[Any, Any]]


def by_number(pairs: Any) -> Numbers:
    return sorted(pairs, key=repr)


def pair(click: Any, view: Any) -> tuple[Any, Any]:
    return (click and click["n"], view and view["n"])


def numbers(found: Any) -> Numbers:
    return by_number((row["n_left"], row["n_right"]) for row in found)


@pytest.mark.parametrize("how", ["left", "right", "full"])
def test_outer_joins_of_rows_and_of_columns(env: Any, how: str) -> None:
    types = (CLICKS, VIEWS)
    clicks, views = streams(env)
    joined = clicks.key_by("user").interval_join(views.key_by("id"), how=how).between(-2, 4)
    rows = by_number(joined.process(pair).execute_and_collect())
    assert any(None in pair for pair in rows)
    assert numbers(joined.columns(types=types).execute_and_collect()) == rows
    windows = clicks.join(views, how=how).where("user").equal_to("id").window(TumblingEventTimeWindows.of(20))
    rows = by_number(windows.apply(pair).execute_and_collect())
    found = list(windows.columns(types=types).execute_and_collect())
    assert numbers(found) == rows and any(None in pair for pair in rows)
    assert all(isinstance(row["user"], int) for row in found), "keys are there, whichever side is not"


@pytest.mark.parametrize("how", ["inner", "left"])
def test_temporal_join_of_rows_and_of_columns(env: Any, how: str) -> None:
    clicks, views = streams(env)
    joined = clicks.key_by("user").temporal_join(views.key_by("id"), how=how)
    rows = by_number(joined.process(pair).execute_and_collect())
    types = (None, None) if how == "inner" else (CLICKS, VIEWS)
    assert numbers(joined.columns(types=types).execute_and_collect()) == rows
    assert len(rows) == COUNT if how == "left" else 0 < len(rows) < COUNT


def test_co_group_sessions_late_data_and_evictors(env: Any) -> None:
    clicks, views = streams(env)
    grouped = clicks.co_group(views).where("user").equal_to("id")
    sessions = grouped.window(EventTimeSessionWindows.with_gap(1000)).allowed_lateness("1 s")
    late = OutputTag("late")
    sizes = sessions.side_output_left_late_data(late).apply(lambda ones, twos: [(len(ones), len(twos))])
    assert sorted(sizes.execute_and_collect()) == [(15, 0), (15, 20), (15, 20), (15, 20)]
    clicks, views = streams(env)
    windows = clicks.co_group(views).where("user").equal_to("id").window(WINDOWS).evictor(CountEvictor.of(1))
    sizes = windows.apply(lambda ones, twos: [len(ones) + len(twos)])
    assert set(sizes.execute_and_collect()) == {1}


def test_temporal_join(env: Any) -> None:
    clicks, views = streams(env)
    joined = clicks.key_by("user").temporal_join(views.key_by("id"), how="left")
    found = dict(joined.process(lambda click, view: (click["n"], view and view["n"])).execute_and_collect())
    views_known = make_views(np.arange(COUNT)).to_pylist()
    for n in range(COUNT):
        valid = [v["n"] for v in views_known if v["id"] == n % 4 and v["ts"] <= n * 10]
        assert found[n] == (valid[-1] if valid else None)


def test_what_cannot_be_joined_as_columns(env: Any) -> None:
    clicks, views = streams(env)
    with pytest.raises(ConfigError, match="columns of both sides"):
        clicks.join(views, how="left").where("user").equal_to("id").window(WINDOWS).columns()
    with pytest.raises(GraphError, match="field names"):
        clicks.join(views).where("user").equal_to(lambda view: view["id"]).window(WINDOWS).columns()
    with pytest.raises(GraphError, match="apply"):
        clicks.join(views).where("user").equal_to("id").window(EventTimeSessionWindows.with_gap(1)).columns()
    with pytest.raises(ConfigError, match="suffixes"):
        clicks.join(views).where("user").equal_to("id").window(WINDOWS).columns(("", ""))
    with pytest.raises(ConfigError, match="as many key columns"):
        clicks.key_by("user", "n").interval_join(views.key_by("id")).between(0, 1).columns()
    rows = clicks.map(lambda click: (click["user"], click["n"]))
    bad = rows.join(views).where("f0").equal_to("id").window(WINDOWS).columns()
    with pytest.raises(JobFailedError):
        list(bad.execute_and_collect())


def test_loops_are_refused(env: Any) -> None:
    with pytest.raises(GraphError, match="iterative streams are not supported"):
        env.from_collection([1]).iterate()
