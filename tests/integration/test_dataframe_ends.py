"""DataFrames in and out of files, other data frames and plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import penstock.dataframe as pf
from penstock.common import WatermarkStrategy
from penstock.core.errors import ConfigError
from penstock.dataframe import DataFrame, Tumble, col
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.testing.local import local_cluster

ROWS = [{"k": "a", "v": 1, "ts": 10}, {"k": "b", "v": None, "ts": 20}, {"k": "a, b", "v": 3, "ts": 1_030}]
SCHEMA = pa.schema({"k": pa.string(), "v": pa.int64(), "ts": pa.int64()})


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


def frame() -> DataFrame:
    return pf.from_arrow(pa.Table.from_pylist(ROWS, schema=SCHEMA), time="ts")


def by_time(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["ts"])


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
@pytest.mark.parametrize("said", [True, False], ids=["schema", "guessed"])
def test_what_is_written_is_read_again(kind: str, said: bool, tmp_path: Path) -> None:
    given = frame() if said else frame().fill_null(2, "v")
    getattr(given, f"write_{kind}")(tmp_path / "rows")
    options: dict[str, Any] = {"schema": SCHEMA} if said else {}
    again = getattr(pf, f"read_{kind}")(tmp_path / "rows", time="ts", max_delay="1 min", **options)
    assert again.schema.names == SCHEMA.names
    assert by_time(again.to_pylist()) == by_time(given.to_pylist())
    sums = again.window(Tumble("1 s")).agg(col("v").sum.alias("s"))
    assert sorted(row["s"] for row in sums.to_pylist()) == [1 if said else 3, 3]


def test_several_sinks_of_one_job(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    rows = frame()
    rows.write_csv(tmp_path / "all", env=env)
    rows.filter(col("v") > 1).write_json(tmp_path / "some", env=env)
    assert not list(tmp_path.rglob("*.csv"))
    env.execute()
    written = list((tmp_path / "all").rglob("*.csv"))
    assert sum(pacsv.read_csv(path).num_rows for path in written) == 3
    assert pf.read_json(tmp_path / "some").to_pylist() == [ROWS[2]]


def test_polars_in_and_out() -> None:
    polars = pytest.importorskip("polars")
    given = polars.DataFrame({"k": ["a", "b"], "l": [[1], [2, 3]]})
    found = pf.from_polars(given)
    assert [str(field.type) for field in found.schema] == ["string", "list<item: int64>"]
    assert found.to_polars().sort("k").equals(given)


def test_plans_and_summaries(capsys: pytest.CaptureFixture[str]) -> None:
    counts = frame().window(Tumble("1 s")).group_by("k").agg(pf.count().alias("n"))
    told = counts.explain()
    assert "window_start: timestamp[ms]" in told and "Window Aggregate" in told
    summary = frame().describe()
    assert summary.loc["count", "k"] == 3
    assert summary.loc["max", "v"] == 3


def endless() -> DataFrame:
    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(lambda index: pa.record_batch({"n": index}), None, columns=True)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    return pf.from_data_stream(stream, pa.schema({"n": pa.int64()}))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: endless().describe(), "numbers' has no end"),
        (lambda: pf.read_csv("nowhere.csv"), "no file to read the columns from"),
        (lambda: pf.read_csv("x.csv", header=False), "do not name their columns"),
        (lambda: pf.read_json("nowhere.json"), "no file to read the columns from"),
        (lambda: pf.from_polars([1]), "takes a polars DataFrame, not list"),
        (lambda: pf.from_dataframe([1]), "takes a Spark DataFrame, not list"),
        (
            lambda: pf.from_dict({"m": [b"x"]}).write_kafka("t", "nowhere:1"),
            "column 'm' is binary, for which JSON has no form",
        ),
        (
            lambda: pf.read_kafka(
                "t", bootstrap_servers="nowhere:1", schema=pa.schema({"m": pa.map_(pa.string(), pa.int64())})
            ),
            "column 'm' is map",
        ),
    ],
)
def test_refused_when_it_is_written(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make()


@pytest.mark.parametrize(("kind", "text"), [("csv", "a,b\n1,\n"), ("json", '{"a": 1, "b": null}\n')])
def test_a_column_of_which_nothing_is_known_is_refused(kind: str, text: str, tmp_path: Path) -> None:
    (tmp_path / f"rows.{kind}").write_text(text)
    with pytest.raises(ConfigError, match="has no value of column 'b'; give schema="):
        getattr(pf, f"read_{kind}")(tmp_path / f"rows.{kind}")


def test_topics_are_described() -> None:
    read = pf.read_kafka("t", bootstrap_servers="nowhere:1", schema=SCHEMA, time="ts", client_id="me")
    assert read.has_event_time and read.columns == ["k", "v", "ts"]
