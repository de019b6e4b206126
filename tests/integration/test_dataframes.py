"""DataFrames on the in-process cluster: what comes out, what keeps its event time, and what is refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock.dataframe as pf
from penstock.core.errors import ConfigError
from penstock.dataframe import DataFrame, Session, Slide, Tumble, coalesce, col
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.local import local_cluster

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC).replace(tzinfo=None)


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


def orders() -> DataFrame:
    return pf.from_dict(
        {
            "country": ["de", "fr", "de", None, "fr", "de"],
            "price": [3, 5, 4, 9, None, 1],
            "ts": pa.array([100, 200, 900, 1_500, 2_100, 2_200], pa.timestamp("ms")),
        },
        time="ts",
    )


def in_order(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in rows), key=str)


def test_rows_are_filtered_and_computed() -> None:
    found = orders().filter(col("price") > 3).select("country", (col("price") * 2).alias("double"))
    assert found.columns == ["country", "double"]
    assert in_order(found.to_pylist()) == [("de", 8), ("fr", 10), (None, 18)]


def test_columns_come_and_go() -> None:
    found = orders().with_columns({"price": col("price") + 1, "old": col("price")}).drop("ts")
    found = found.rename({"country": "where"}).fill_null(0, "price").drop_null("where")
    assert found.columns == ["where", "price", "old"]
    wanted = [("de", 2, 1), ("de", 4, 3), ("de", 5, 4), ("fr", 0, None), ("fr", 6, 5)]
    assert in_order(found.to_pylist()) == wanted


@pytest.mark.parametrize(
    ("window", "wanted"),
    [
        (
            Tumble("1 s"),
            [("?", 1, 1, 9.0), ("de", 0, 2, 3.5), ("de", 2, 1, 1.0), ("fr", 0, 1, 5.0), ("fr", 2, 1, None)],
        ),
        (
            Slide("2 s", "1 s"),
            [
                *[("?", 0, 1, 9.0), ("?", 1, 1, 9.0)],
                *[("de", -1, 2, 3.5), ("de", 0, 2, 3.5), ("de", 1, 1, 1.0), ("de", 2, 1, 1.0)],
                *[("fr", -1, 1, 5.0), ("fr", 0, 1, 5.0), ("fr", 1, 1, None), ("fr", 2, 1, None)],
            ],
        ),
        (
            Session(dt.timedelta(seconds=1)),
            [
                ("?", 1.5, 1, 9.0),
                ("de", 0.1, 2, 3.5),
                ("de", 2.2, 1, 1.0),
                ("fr", 0.2, 1, 5.0),
                ("fr", 2.1, 1, None),
            ],
        ),
    ],
    ids=["tumble", "slide", "session"],
)
def test_windows(window: Any, wanted: list[Any]) -> None:
    groups = orders().window(window).group_by(coalesce(col("country"), "?").alias("country"))
    found = groups.agg(
        pf.count().alias("orders"), (col("price").sum / (col("price").count * 1.0)).alias("mean")
    )
    assert [str(field.type) for field in found.schema][1:] == [
        "timestamp[ms]",
        "timestamp[ms]",
        "int64",
        "double",
    ]
    rows = [
        (row["country"], (row["window_start"] - EPOCH).total_seconds(), row["orders"], row["mean"])
        for row in found.to_pylist()
    ]
    assert sorted(rows, key=str) == sorted([(a, float(b), c, d) for a, b, c, d in wanted], key=str)


def test_event_time_survives_what_drops_its_column() -> None:
    found = orders().drop_null().select("country", "price")
    assert found.has_event_time
    sums = found.window(Tumble("10 s")).group_by("country").agg(col("price").sum.alias("total"))
    again = sums.window(Tumble("10 s")).group_by("country").agg(col("total").max.alias("most"))
    assert in_order(again.filter(col("country") == "de").select("country", "most").to_pylist()) == [("de", 8)]


def test_batches_through_a_function() -> None:
    schema = pa.schema({"n": pa.int64(), "squared": pa.int64()})

    def square(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"squared": pc.multiply(batch["id"], batch["id"]), "n": batch["id"]})

    found = pf.range(2, 5).map_batches(square, schema)
    assert in_order(found.to_pylist()) == [(2, 4), (3, 9), (4, 16)]


def test_parquet_in_and_frames_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"k": ["a", "b", "a"], "v": [1, 2, 3]}), tmp_path / "part.parquet")
    frame = pf.read_parquet(tmp_path).union(pf.from_records([("c", 9)], ["k", "v"]))
    assert frame.to_pandas().sort_values("v")["k"].tolist() == ["a", "b", "a", "c"]
    assert frame.to_arrow().schema == frame.schema
    assert len(frame.take(2)) == 2
    frame.show(9)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()][0] == "k"


def test_streams_become_frames_and_frames_streams() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([{"k": "a", "v": 1}, {"k": "b", "v": 2}])
    frame = pf.from_data_stream(stream, pa.schema({"k": pa.string(), "v": pa.float64()}))
    doubled = frame.with_column("v", col("v") * 2).to_data_stream().map(lambda row: (row.k, row.v))
    assert sorted(doubled.execute_and_collect()) == [("a", 2.0), ("b", 4.0)]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: orders().select("pric"), "there is no column 'pric'"),
        (lambda: orders().select(), "at least one column"),
        (lambda: orders().select("price", col("ts").alias("price")), "two columns 'price'"),
        (
            lambda: orders().select(3),  # type: ignore[arg-type]
            "a constant is lit",
        ),
        (lambda: orders().filter(col("price")), "a condition is true or false"),
        (
            lambda: orders().filter("price > 3"),  # type: ignore[arg-type]
            "filter takes an expression",
        ),
        (lambda: pf.range(3).window(Tumble("1 s")), "windows need event time"),
        (
            lambda: orders().window("1 s"),  # type: ignore[arg-type]
            "takes Tumble, Slide, Session or Cumulate",
        ),
        (lambda: orders().window(Tumble(0)).group_by("country").agg(pf.count()), "more than nothing"),
        (lambda: orders().window(Tumble("1 s")).group_by("country").agg(col("price")), "is no aggregate"),
        (lambda: orders().window(Tumble("1 s")).group_by("country").agg(), "at least one aggregate"),
        (
            lambda: orders().window(Tumble("1 s")).group_by("country").agg(col("country").sum),
            "cannot be summed",
        ),
        (
            lambda: orders().window(Tumble("1 s")).group_by("country").agg(col("price").sum + col("price")),
            "neither a key nor within an aggregate",
        ),
        (lambda: orders().union(pf.range(3)), "union needs the same columns"),
        (lambda: orders().drop("country", "price", "ts"), "leaves no column"),
        (lambda: pf.from_dict({"a": [1]}, time="b"), "no column 'b' for event time"),
        (lambda: pf.from_dict({"a": ["x"]}, time="a"), "event time is a timestamp"),
        (lambda: pf.from_records([]), "say which columns"),
        (lambda: pf.read_parquet("nowhere.parquet"), "no Parquet file"),
    ],
)
def test_refused_when_it_is_written(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make()


def test_a_column_that_is_not_as_promised_ends_the_job() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([{"k": "a", "v": "x"}])
    frame = pf.from_data_stream(stream, pa.schema({"k": pa.string(), "v": pa.int64()}))
    with pytest.raises(Exception, match="column 'v' was promised as int64 and is string"):
        frame.select("v").to_pylist()
