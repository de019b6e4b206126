"""Sources whose rows the runner brings: the same results as from splits, also in a Spark task."""

from __future__ import annotations

import contextlib
import gc
import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType

from penstock.batch.runner import LocalStages, Stage
from penstock.batch.vertex import run_vertex
from penstock.batch.wire import FIRST_PART, HERE, SCHEMA
from penstock.batch.work import TaskAttempt, VertexWork
from penstock.columns import Count, Sum
from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.connectors.builtin.collection import RowsAtHand, RowsReader
from penstock.connectors.builtin.driver_output import CollectSink
from penstock.connectors.source import EndOfSplit, FixedSplits, Source, Split, SplitEnumerator, SplitReader
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.core.ids import VertexId
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.spark.batch.stages import has_no_order, total_order
from penstock.spark.batch.task import run_task, unpacked
from penstock.spark.frame_source import frame_schema
from penstock.testing import local
from penstock.testing.local import local_cluster

ROWS = pa.schema([("k", pa.string()), ("v", pa.int64()), ("ts", pa.int64())])
ODD = OutputTag("odd", Types.TUPLE([Types.STRING(), Types.LONG()]))
BATCH, STREAMING = RuntimeExecutionMode.BATCH, RuntimeExecutionMode.STREAMING
Parts = Sequence[Sequence[pa.RecordBatch]]


class PartsSource(Source):
    """Partitions of a table, read one by one or brought by the runner."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return FixedSplits(Split(str(at), RowsAtHand(part)) for at, part in enumerate(self.parts))

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        return RowsReader(split.info, ROWS)


class BringingStages(LocalStages):
    """Brings the rows of tables, a partition for each subtask."""

    seen: list[VertexWork] = []
    planned: list[Stage] = []
    split_works: list[VertexWork] = []

    def table_of(self, source: Source) -> Any:
        return source.parts if isinstance(source, PartsSource) else None

    def run(self, stages: Sequence[Stage]) -> Iterator[bytes]:
        self.planned[:] = stages
        return super().run(stages)

    def _stage(self, stage: Stage, outputs: dict[VertexId, pa.Table]) -> pa.Table:
        if stage.table is None:
            if stage.work.splits:
                self.split_works.append(stage.work)
            return super()._stage(stage, outputs)
        self.seen.append(stage.work)
        written: list[pa.RecordBatch] = []
        for subtask, part in enumerate(stage.table):
            written += run_vertex(stage.work, TaskAttempt(subtask), iter(part), self._clock)
        return pa.Table.from_batches(written, SCHEMA)


@pytest.fixture(autouse=True)
def brought(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(local, "LocalStages", BringingStages)
    BringingStages.seen.clear()
    with local_cluster(2):
        yield


def table(rows: Sequence[tuple[str, int, int]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    arrays = [pa.array(list(values), field.type) for values, field in zip(columns, ROWS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROWS)


def parts_of(rows: Sequence[tuple[str, int, int]]) -> Parts:
    """Two partitions of small batches, some of them empty."""
    half = len(rows) // 2
    return [
        [table(part[at : at + 3]) for at in range(0, len(part) + 1, 3)] for part in (rows[:half], rows[half:])
    ]


def stream_of(parts: Parts, mode: RuntimeExecutionMode) -> Any:
    env = StreamExecutionEnvironment.get_execution_environment().set_runtime_mode(mode)
    late = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(10_000))
    return env.from_source(PartsSource(parts), late.with_timestamp_column("ts"), "rows")


class Aside(ProcessFunction):
    """Odd numbers with their times go to the side."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value["v"] % 2:
            yield ODD, (value["k"], ctx.timestamp())
        else:
            yield value["k"], value["v"]


def windowed(stream: Any) -> Any:
    return (
        stream.key_by("k")
        .window(TumblingEventTimeWindows.of(Time.milliseconds(100)))
        .agg(Count("n"), Sum("v", "s"))
    )


def aside(stream: Any) -> Any:
    split = stream.process(Aside(), Types.TUPLE([Types.STRING(), Types.LONG()]))
    return split.union(split.get_side_output(ODD))


def collected(stream: Any) -> Counter[Any]:
    return Counter(tuple(value) for value in stream.execute_and_collect())


ROW_LISTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5), st.integers(0, 1000)), max_size=30)


@settings(max_examples=12, deadline=None)
@given(ROW_LISTS, st.sampled_from([windowed, aside]))
def test_rows_at_hand_give_what_splits_give(rows: list[tuple[str, int, int]], program: Any) -> None:
    parts = parts_of(rows)
    expected = collected(program(stream_of(parts, STREAMING)))
    assert collected(program(stream_of(parts, BATCH))) == expected
    assert all(work.at_hand and not work.splits for work in BringingStages.seen)


class Double(AsyncFunction[Any, int]):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [2 * value["v"]]


def test_a_step_that_takes_a_few_records_at_a_time() -> None:
    rows = [("a", number, number) for number in range(40)]
    asked = AsyncDataStream.ordered_wait(
        stream_of(parts_of(rows), BATCH), Double(), Time.seconds(60), 3, Types.LONG()
    )
    assert sorted(asked.execute_and_collect()) == [2 * number for number in range(40)]


def test_who_deals_records_in_turn() -> None:
    list(stream_of(parts_of([("a", 1, 1)]), BATCH).map(lambda row: row["v"]).execute_and_collect())
    list(
        stream_of(parts_of([("a", 1, 1)]), BATCH).rebalance().map(lambda row: row["v"]).execute_and_collect()
    )
    assert [work.in_order for work in BringingStages.seen] == [False, True]


# --- the reader -----------------------------------------------------------------------------------


def test_batches_are_joined_and_cut_as_asked_for() -> None:
    reader = RowsReader(RowsAtHand([table([("a", n, n)] * 3) for n in range(5)]), ROWS)
    sizes = []
    with pytest.raises(EndOfSplit):
        for wanted in (7, 1, 4, 100, 1):
            batch = reader.poll(wanted)
            assert batch is not None
            sizes.append(len(batch))
    assert sizes == [7, 1, 4, 3] and reader.position() == 15


def test_types_are_those_of_the_source() -> None:
    wanted = pa.schema([("s", pa.string()), ("t", pa.timestamp("us"))])
    zoned = pa.array([1_000_000, None], pa.timestamp("us", "Asia/Tokyo"))
    brought = pa.RecordBatch.from_arrays([pa.array(["x", None], pa.large_string()), zoned], names=["s", "t"])
    batch = RowsReader(RowsAtHand([brought]), wanted).poll(10)
    assert batch is not None and batch.columns.schema == wanted
    assert batch.columns.column(1).cast(pa.int64()).to_pylist() == [1_000_000, None]


def test_the_order_of_rows_matters_before_whoever_deals_records_in_turn() -> None:
    stream = stream_of(parts_of([("a", 1, 1), ("b", 2, 2)]), BATCH)
    keyed = stream.key_by(lambda row: row["k"]).map(lambda row: row["v"])
    list(keyed.execute_and_collect())
    assert not any(stage.work.in_order for stage in BringingStages.planned)
    list(keyed.rebalance().map(lambda value: value).key_by(lambda v: v).map(str).execute_and_collect())
    found = [stage.work.in_order for stage in BringingStages.planned]
    assert found == [True, True, False, False], "the source and the keyed step, which deals"


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("+- *(1) ColumnarToRow\n   +- FileScan parquet [ts#0L] Batched: true, PushedFilters: []", False),
        ("*(1) Range (0, 10, step=1, splits=2)", False),
        ("BroadcastHashJoin\n+- BroadcastExchange HashedRelationBroadcastMode", False),
        ("+- Coalesce 2\n   +- Exchange RoundRobinPartitioning(3), REPARTITION_BY_NUM", True),
        ("Union\n:- FileScan orc []\n+- ReusedExchange [k#1], Exchange hashpartitioning(k#1, 2)", True),
        ("*(1) Scan JDBCRelation(t) [numPartitions=1]", True),
        ("*(1) Scan ExistingRDD[a#15]", True),
        ("BatchScan events[id#3]", True),
        ("Coalesce 2\n+- TakeOrderedAndProject(limit=9, orderBy=[k#1 ASC NULLS FIRST], output=[k#1])", True),
        ("InMemoryTableScan [k#1]\n   +- InMemoryRelation [k#1]\n         +- CollectLimit 9", True),
    ],
)
def test_what_may_come_in_another_order_next_time(plan: str, expected: bool) -> None:
    assert has_no_order(plan) is expected


def test_a_frame_is_sorted_by_all_columns_also_those_without_an_order() -> None:
    """Else rows that differ in these alone might change places, or there would be nothing to sort by."""
    tags = MapType(StringType(), StringType())
    inside = ArrayType(StructType([StructField("tags", tags)]))
    columns = [StructField("a`b", LongType()), StructField("tags", tags), StructField("inside", inside)]
    assert total_order(StructType(columns)) == [
        "`a``b`",
        "CAST(`tags` AS STRING)",
        "CAST(`inside` AS STRING)",
    ]


def test_a_frame_without_columns_is_refused_and_its_rows_are_not_lost() -> None:
    frame: Any = SimpleNamespace(columns=[], schema=StructType([]))
    with pytest.raises(ConfigError, match="no columns"):
        frame_schema(frame)


# --- a Spark task ---------------------------------------------------------------------------------


def work_of(program: Any) -> bytes:
    stream = stream_of(parts_of([("a", 1, 1)]), BATCH)
    program(stream).sink_to(CollectSink(SimpleQueue()))
    stream._env.execute()
    packed: bytes = cloudpickle.dumps(BringingStages.seen[-1])
    return packed


def with_number(batch: pa.RecordBatch, subtask: int) -> pa.RecordBatch:
    return batch.append_column("_penstock_subtask", pa.array([subtask] * batch.num_rows, pa.int32()))


def test_a_task_learns_its_number_from_its_rows() -> None:
    work = work_of(lambda stream: stream.map(lambda row: tuple(row)))
    batches = [
        with_number(table([]), 1),
        with_number(table([("a", 3, 4)]), 1),
        with_number(table([("b", 5, 6)]), 1),
    ]
    rows = pa.Table.from_batches(list(run_task(work, "mark", (0, 7), iter(batches))), SCHEMA)
    said: list[Any] = [pickle.loads(body) for body in rows.column("body").to_pylist()]
    assert said and all(delivery.subtask == 1 for delivery in said)


def test_a_partition_without_rows_runs_nothing() -> None:
    work = work_of(lambda stream: stream.map(lambda row: tuple(row)))
    assert list(run_task(work, "mark", (0, 7), iter([with_number(table([]), 1)]))) == []
    assert list(run_task(work, "mark", (0, 7), iter(()))) == []


def test_a_task_reads_its_input_to_the_end() -> None:
    """Spark uses the worker for the next task then; also a source that reads splits has a row of input."""
    env = StreamExecutionEnvironment.get_execution_environment().set_runtime_mode(BATCH)
    list(env.from_collection([1, 2]).map(lambda number: number + 1).execute_and_collect())
    rows = iter([mark(0), mark(0).slice(1)])
    assert list(run_task(cloudpickle.dumps(BringingStages.split_works[-1]), "mark", (0, 7), rows))
    assert next(rows, None) is None


@pytest.mark.parametrize("fails_at", [0, 77])
def test_garbage_is_looked_for_rarely_while_a_task_is_at_work(fails_at: int) -> None:
    usual, within = gc.get_threshold(), []

    def batches() -> Iterator[pa.RecordBatch]:
        for value in (76, 77):
            within.append(gc.get_threshold())
            yield with_number(table([("a", value, value)]), 1)

    work = work_of(lambda stream: stream.map(lambda row: 1 // (row["v"] - fails_at) if fails_at else 1))
    with pytest.raises(RuntimeError) if fails_at else contextlib.nullcontext():
        list(run_task(work, "mark", (0, 7), batches()))
    assert within[0] == usual and within[1][0] > 100 * usual[0]
    assert gc.get_threshold() == usual


def mark(subtask: int) -> pa.RecordBatch:
    columns = [[HERE], [subtask], [FIRST_PART], [FIRST_PART], [-1], [b""]]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def test_errors_of_steps_behind_the_source_travel_as_they_are() -> None:
    work = work_of(lambda stream: stream.map(lambda row: 1 // row["v"]))
    with pytest.raises(RuntimeError) as raised:
        list(run_task(work, "mark", (0, 7), iter([with_number(table([("a", 0, 4)]), 1)])))
    error = unpacked(raised.value, "mark")
    assert error is not None and "ZeroDivisionError" in str(error)
