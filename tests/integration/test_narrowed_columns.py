"""Columns that nobody reads are not made: a source that would fail to make them shows it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import penstock.dataframe as pf
from penstock.common import WatermarkStrategy
from penstock.connectors.builtin.datagen import DataGeneratorSource
from penstock.core.errors import JobFailedError
from penstock.dataframe import DataFrame, Tumble, col, lit
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.datastream.connectors.file_system import FileSource
from penstock.sql import Session
from penstock.testing.local import local_cluster

ALL = ("a", "b", "c", "ts", "broken")
SCHEMA = pa.schema(
    {"a": pa.int64(), "b": pa.int64(), "c": pa.string(), "ts": pa.int64(), "broken": pa.int64()}
)
ROWS = 100


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


class Made:
    """Rows of some columns; ``broken`` cannot be made."""

    def __init__(self, columns: Collection[str] = ALL) -> None:
        self._columns = columns

    def narrowed(self, columns: Collection[str]) -> Made:
        return Made([name for name in self._columns if name in columns])

    def __call__(self, numbers: Any) -> pa.RecordBatch:
        if "broken" in self._columns:
            raise ValueError("this column was asked for")
        made = {"a": numbers, "b": numbers % 7, "c": [f"t{n % 3}" for n in numbers], "ts": numbers * 10}
        return pa.record_batch(
            {name: pa.array(made[name], SCHEMA.field(name).type) for name in self._columns}
        )


def rows(strategy: WatermarkStrategy | None = None) -> DataFrame:
    chosen = strategy or WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    env = Env.get_execution_environment()
    stream = env.from_source(DataGeneratorSource(Made(), ROWS, columns=True), chosen, "made")
    return pf.from_data_stream(stream, SCHEMA, has_event_time=True)


def twice(frame: DataFrame) -> DataFrame:
    other = frame.filter(col("b") == 1).select("a", col("c").alias("text"))
    return frame.select("a", col("b").cast(pa.string()).alias("text")).union(other)


LEAN: dict[str, tuple[Callable[[DataFrame], DataFrame], int]] = {
    "select": (lambda it: it.select("a", "c"), 100),
    "filter and select": (lambda it: it.filter(col("b") == 3).filter(col("a") > 9).select("c"), 13),
    "a column that is replaced": (lambda it: it.with_columns({"broken": col("a") + 1}).select("broken"), 100),
    "what is computed and not read": (lambda it: it.with_column("d", col("broken") / 0).select("a"), 100),
    "no column at all": (lambda it: it.select(lit(1).alias("one")), 100),
    "rows alone": (lambda it: it.agg(pf.count().alias("n")), 1),
    "groups": (lambda it: it.group_by("c").agg(col("a").sum.alias("s")), 3),
    "windows": (lambda it: it.window(Tumble("1 s")).group_by("c").agg(pf.count().alias("n")), 3),
    "two readers": (twice, 115),
}  # fmt: skip


@pytest.mark.parametrize("name", LEAN)
def test_what_is_not_read_is_not_made(name: str) -> None:
    make, count = LEAN[name]
    assert len(make(rows()).to_pylist()) == count


WHOLE: dict[str, Callable[[DataFrame], DataFrame]] = {
    "all of it": lambda it: it,
    "a filter alone": lambda it: it.filter(col("a") > 3),
    "a function of batches": lambda it: it.map_batches(lambda batch: batch, SCHEMA).select("a"),
    "state of whole rows": lambda it: it.top_n(1, "a", "c").select("a"),
    "one of two readers": lambda it: it.select("a").union(it.select(col("broken").alias("a"))),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_read_is_made(name: str) -> None:
    with pytest.raises(JobFailedError, match="this column was asked for"):
        WHOLE[name](rows()).to_pylist()


def test_an_assigner_of_the_program_gets_whole_records() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row["ts"])
    with pytest.raises(JobFailedError, match="this column was asked for"):
        rows(strategy).select("a").to_pylist()


def test_event_time_stays_behind_rows_of_other_columns() -> None:
    env = Env.get_execution_environment()
    made = env.from_source(
        DataGeneratorSource(Made(), ROWS, columns=True), WatermarkStrategy.no_watermarks(), "made"
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    timed = pf.from_data_stream(made.assign_timestamps_and_watermarks(strategy), SCHEMA, has_event_time=True)
    found = timed.select("c").window(Tumble("500 ms")).group_by("c").agg(pf.count().alias("n")).to_pylist()
    assert sum(row["n"] for row in found) == ROWS and len(found) == 6


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_files_are_read_in_part(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"day": ["x", "y"] * 50, "a": range(100), "b": range(100)})
    if kind == "parquet":
        pq.write_to_dataset(table, tmp_path, partition_cols=["day"])
    else:
        for day in "xy":
            (tmp_path / f"day={day}").mkdir()
            part = table.filter(pc.equal(table["day"], day)).drop_columns("day")
            orc.write_table(part, tmp_path / f"day={day}/f.orc")
    session = Session()
    options = f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = '{kind}')"
    session.sql(f"CREATE TABLE t (a BIGINT, b BIGINT, `day` STRING) PARTITIONED BY (`day`) {options}")
    asked: list[Any] = []
    opened = FileSource.open_split

    def watched(self: Any, *args: Any) -> Any:
        asked.append(self._format.columns)
        return opened(self, *args)

    monkeypatch.setattr(FileSource, "open_split", watched)
    assert session.sql("SELECT SUM(b) AS s FROM t WHERE b > 97").to_pylist() == [{"s": 197}]
    assert session.sql("SELECT `day`, COUNT(*) AS c FROM t GROUP BY `day`").to_pylist()[0]["c"] == 50
    assert len(session.sql("SELECT * FROM t").to_pylist()) == 100
    assert sorted({tuple(it) for it in asked}) == [("a",), ("a", "b"), ("b",)]
