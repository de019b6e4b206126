"""Program: DataFrames at both ends of jobs, one after the other in one session.

    frames.py WORK

Prints ``done`` when everything was as it should be.
"""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
from progress import environment
from pyspark.sql import functions as F

from penstock.common import Types
from penstock.core.errors import ClusterError, ConfigError, GraphError
from penstock.datastream import RuntimeExecutionMode
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.operators.columnar import Count, Sum
from penstock.spark.launcher import start_session

MASTER = "local[3]"
ROWS = 1000


def refused(kind: type[Exception], words: str, action: Any) -> None:
    try:
        action()
    except kind as error:
        assert words in str(error), error
        return
    raise AssertionError(f"nobody said {words!r}")


def windows(work: Path, frame: Any, mode: RuntimeExecutionMode) -> None:
    """From a frame over event time to a frame; what was written on the way is gone behind it."""
    env = environment(MASTER, work / "chk").set_parallelism(2).set_runtime_mode(mode)
    stream = env.from_dataframe(frame, time_column="ts")
    names = stream.get_type().get_field_names()
    assert names == ["id", "k", "ts", "text", "list"], names
    sums = stream.key_by("k").window(TumblingEventTimeWindows.of(100_000)).agg(Count("n"), Sum("id", "total"))
    result = sums.to_dataframe()
    assert result.count() == 70 and "window_start" in result.columns
    found = result.agg(F.sum("n"), F.sum("total")).collect()[0]
    assert tuple(found) == (ROWS, ROWS * (ROWS - 1) // 2), found
    assert not [path for path in (work / "chk" / "_frames").rglob("*") if path.is_file()]


def values(spark: Any) -> None:
    """What becomes of the values of a frame on the way through a job of rows."""
    when = dt.datetime.fromisoformat("2026-01-02T03:04:05.000006")
    row = (1, 1.5, "text", True, dt.date(2026, 1, 2), when, b"bytes", [1, 2], Decimal("1.25"), None)
    schema = "i int, d double, s string, b boolean, day date, t timestamp_ntz, y binary, l array<int>, "
    frame = spark.createDataFrame([row], f"{schema} e decimal(10,2), n string")
    seen = list(environment(MASTER, None).set_parallelism(1).from_dataframe(frame).execute_and_collect())
    assert [tuple(found) for found in seen] == [row], seen
    typed = environment(MASTER, None).set_parallelism(1).from_dataframe(frame.drop("e"))
    back = typed.map(lambda r: r, output_type=typed.get_type()).to_dataframe().collect()
    assert [tuple(found) for found in back] == [tuple(v for v in row if v != row[8])], back


def odd_columns() -> None:
    """Arrow types that Spark has no name for, or another one."""
    batch = pa.record_batch(
        {
            "d": pa.array(["a", "b"]).dictionary_encode(),
            "u": pa.array([1, 2], pa.uint32()),
            "s": pa.array(["x", None]),
        }
    )
    env = environment(MASTER, None).set_parallelism(1)
    stream = env.from_collection([0]).map_batches(lambda rows: batch)
    assert sorted(map(tuple, stream.to_dataframe().collect())) == [("a", 1, "x"), ("b", 2, None)]


def empty() -> None:
    """A job without rows has a frame without rows, if its columns are known."""
    env = environment(MASTER, None).set_parallelism(1)
    nothing = env.from_collection([1]).filter(lambda i: False)
    assert nothing.map(str, output_type=Types.STRING()).to_dataframe().columns == ["value"]
    env = environment(MASTER, None).set_parallelism(1)
    refused(ConfigError, "declare output_type", env.from_collection([1]).filter(lambda i: False).to_dataframe)


def epochs(work: Path, frame: Any) -> None:
    """Each epoch once; the default parallelism leaves a slot for the function's own Spark jobs."""
    seen: list[int] = []

    def keep(rows: Any, epoch: int) -> None:
        seen.extend(row["id"] for row in rows.select("id").collect())

    for parallelism in (2, None):
        seen.clear()
        env = environment(MASTER, work / "chk")
        if parallelism:
            env.set_parallelism(parallelism)
        env.from_dataframe(frame).for_each_epoch(keep)
        env.execute("epochs")
        assert sorted(seen) == list(range(ROWS))


def example(work: Path, spark: Any) -> None:
    """The one in ``examples/frames_totals.py``."""
    sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
    program = import_module("frames_totals")
    env = environment(MASTER, work / "chk")
    out = str(work / "totals")
    program.totals(env, program.orders(spark)).for_each_epoch(program.keep_in(out)).uid("out")
    env.execute("totals")
    found = spark.read.parquet(out).agg(F.sum("orders"), F.sum("total")).collect()[0]
    assert tuple(found) == (program.ORDERS, program.ORDERS * 24.5), found


def refusals(spark: Any, frame: Any) -> None:
    env = environment(MASTER, None).set_parallelism(3)
    env.from_dataframe(frame).for_each_epoch(lambda rows, epoch: None)
    refused(ClusterError, "Lower the parallelism to 2", env.execute)
    env = environment(MASTER, None)
    refused(ConfigError, "not list", lambda: env.from_dataframe([1]))
    refused(ConfigError, "no column 'when'", lambda: env.from_dataframe(frame, time_column="when"))
    refused(ConfigError, "several columns", lambda: env.from_dataframe(frame.select("id", "id")))
    refused(ConfigError, "function of", lambda: env.from_dataframe(frame).for_each_epoch(5))
    endless = env.from_source(DataGeneratorSource(lambda i: i, None), _untimed(), "endless")
    refused(GraphError, "for_each_epoch", endless.to_dataframe)


def _untimed() -> Any:
    from penstock.common import WatermarkStrategy

    return WatermarkStrategy.no_watermarks()


def main(work: Path) -> None:
    """Run everything."""
    spark = start_session(environment(MASTER, None).configuration())
    frame = spark.range(0, ROWS, 1, 5).select(
        "id",
        (F.col("id") % 7).alias("k"),
        F.timestamp_millis((ROWS - F.col("id")) * 1000 - 1).alias("ts"),
        F.col("id").cast("string").alias("text"),
        F.array(F.col("id")).alias("list"),
    )
    windows(work, frame, RuntimeExecutionMode.STREAMING)
    windows(work, frame, RuntimeExecutionMode.BATCH)
    example(work, spark)
    values(spark)
    odd_columns()
    empty()
    epochs(work, frame)
    refusals(spark, frame)
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
