"""Program: DataFrames at both ends of jobs, one after the other in one session.

    frames.py WORK

Prints ``done`` when everything was as it should be.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections import Counter
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
from progress import environment
from pyspark.sql import functions as F

from penstock.columns import Count, Sum
from penstock.common import Types
from penstock.core.errors import ClusterError, ConfigError, GraphError
from penstock.datastream import OutputTag, ProcessFunction, RuntimeContext, RuntimeExecutionMode
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.spark import frame_source
from penstock.spark.batch.stages import numbered
from penstock.spark.frame_source import write_files
from penstock.spark.session import start_session

MASTER = "local[3,2]"
"""A task may fail once."""
ROWS = 1000
SIDE = OutputTag("side")
BATCH, STREAMING = RuntimeExecutionMode.BATCH, RuntimeExecutionMode.STREAMING


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


class Aside(ProcessFunction):
    """Odd numbers go to the side; the second task fails in the middle of its first try, in BATCH mode."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.fails = self.subtask == 1 and not runtime_context.get_attempt_number()
        self.seen = 0

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.seen += 1
        if self.seen == 100 and self.fails:
            raise ValueError("the first try")
        yield (SIDE, (value["id"], self.subtask)) if value["id"] % 2 else (value["id"], self.subtask)


def outcome(frame: Any, mode: RuntimeExecutionMode, program: Any) -> Counter[Any]:
    """What a program gives behind a frame; event time is in ``ts``."""
    env = environment(MASTER, None).set_parallelism(2).set_runtime_mode(mode)
    return Counter(map(tuple, program(env.from_dataframe(frame, time_column="ts")).execute_and_collect()))


def in_windows(stream: Any) -> Any:
    return stream.key_by("k").window(TumblingEventTimeWindows.of(100_000)).agg(Count("n"), Sum("id", "total"))


def split_up(stream: Any) -> Any:
    """Rows and a side output in one task, then dealt in turn, where a lost or doubled record would show."""
    split = stream.process(Aside())
    return split.union(split.get_side_output(SIDE)).rebalance().map(lambda pair: (pair[0], pair[1] < 2))


def read_by_spark(work: Path, spark: Any, frame: Any) -> None:
    """In BATCH mode Spark reads the frame in the job itself; the results are those of a stream."""
    frame.write.parquet(str(work / "table"))
    table = spark.read.parquet(f"file://{work}/table").where("id >= 100").select("id", "k", "ts")
    shuffled = table.repartition(7)
    frames = [table, shuffled, table.where("id < 0"), spark.createDataFrame([], table.schema)]
    streams = [outcome(each, STREAMING, in_windows) for each in (table, frames[2])]
    frame_source.write_files = _nobody_writes
    executions = spark._jsparkSession.sharedState().statusStore().executionsList
    assert outcome(table, BATCH, in_windows) == streams[0]
    plan = executions().last().physicalPlanDescription()
    assert (
        "GreaterThanOrEqual(id,100)" in plan and "ReadSchema: struct<id:bigint,k:bigint,ts:timestamp>" in plan
    ), plan
    assert "MapInArrow" in plan and "Exchange rangepartitioning" not in plan, "nothing is sorted beforehand"
    for empty in frames[2:]:
        assert outcome(empty, BATCH, in_windows) == streams[1] == Counter()
    expected = Counter((number, True) for number in range(100, ROWS))
    assert all(outcome(each, BATCH, split_up) == expected for each in frames[:2])
    plans = [numbered(each, 2, True)._jdf.queryExecution().executedPlan().toString() for each in frames[:2]]
    assert ["Sort [id" in plan for plan in plans] == [False, True], "only what other tasks sent is sorted"
    tags = shuffled.selectExpr("map('k', id) as tags")
    assert numbered(tags, 2, True).count() == ROWS - 100, "also if no column has an order"
    env = environment(MASTER, None).set_parallelism(2).set_runtime_mode(BATCH)
    both = env.from_dataframe(table).union(env.from_dataframe(shuffled)).process(Numbered())
    assert set(both.execute_and_collect()) == {0, 1}
    frame_source.write_files = write_files


class Numbered(ProcessFunction):
    """Which subtask saw a record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield self.subtask


def _nobody_writes(*_: Any) -> Any:
    raise AssertionError("the frame was written to files")


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
    """The one in ``examples/frames_totals.py``, as a stream and in BATCH mode."""
    sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
    program = import_module("frames_totals")
    found = []
    for mode in (RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH):
        env = environment(MASTER, work / "chk").set_runtime_mode(mode)
        out = str(work / f"totals-{mode.name}")
        program.totals(env, program.orders(spark)).for_each_epoch(program.keep_in(out)).uid("out")
        env.execute(f"totals-{mode.name}")
        rows = spark.read.parquet(out).drop("epoch")
        found.append(sorted(map(tuple, rows.collect())))
        sums = rows.agg(F.sum("orders"), F.sum("total")).collect()[0]
        assert tuple(sums) == (program.ORDERS, program.ORDERS * 24.5), sums
    assert found[0] == found[1]


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
    read_by_spark(work, spark, frame)
    example(work, spark)
    values(spark)
    odd_columns()
    empty()
    epochs(work, frame)
    refusals(spark, frame)
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
