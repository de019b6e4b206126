"""Vertices as Spark stages.

Each vertex is a ``mapInArrow`` over rows of :mod:`penstock.batch.wire`, or over the DataFrame that it reads,
for some sources; each exchange is a shuffle to the partition that the sender chose, sorted there.  Vertices
between two shuffles run in one stage, and all of them in one Spark job, whose plan names them.  Only a vertex
that several others read has a job of its own before that, and its rows are kept on the executors' disks.

Order within a partition is total (no two rows have the same place), so a task that Spark runs again sees the
same input and does the same: what other tasks have read of its first run stays true.

Of a DataFrame as the input of a source nothing is copied or written: the scan, its pruning, pushed-down
filters, locality and retries are Spark's.  The partitions of the frame become the subtasks of the source.
There are at most as many as the source's parallelism, so partitions of a larger frame are joined; each row
brings the number of its subtask, because Spark's own numbers run through everything that shares a stage.  A
partition without rows has no number and runs nothing: it would have nothing to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark import StatusTracker, StorageLevel
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, VariantType

from penstock.batch.runner import Progress, Stage
from penstock.batch.wire import FIRST_PART, HERE, SORTED_BY, TO_DRIVER
from penstock.batch.work import Feed
from penstock.connectors.source import Source
from penstock.core.error_codes import Code
from penstock.core.errors import JobFailedError
from penstock.core.ids import VertexId
from penstock.core.pickling import ship
from penstock.spark.batch.task import new_mark, unpacked
from penstock.spark.description import Description
from penstock.spark.failures import translate
from penstock.spark.frame_source import FrameSource
from penstock.spark.shipping import Shipment, wearing
from penstock.spark.terms import use_pool

SUBTASK = "_penstock_subtask"
"""The last column of what tasks get."""

_UNORDERED = re.compile(
    r"\b(Exchange|ReusedExchange|Scan|BatchScan|TakeOrderedAndProject|CollectLimit|CollectTail)\b"
)
"""What a plan may hold that gives the rows of a partition in another order when it is read again.

Scans of files are called ``FileScan``; the others may be databases, or RDDs that nobody can look into.  The
last three gather what other tasks send, without an exchange in the plan.
"""


def numbered(frame: DataFrame, subtasks: int, in_order: bool) -> DataFrame:
    """The rows of the frame in at most so many partitions, each with the number of its own.

    If receivers are chosen in turn somewhere behind it (``in_order``), a task that is tried again must read
    in the same order as before, or records would be lost between those who have read of a first try and
    those who read of a second.  Files are read in order.  What other tasks or a database have sent is not,
    so it is sorted; Spark does the same for its own ``repartition``.
    """
    rows = frame.coalesce(subtasks)
    if in_order and has_no_order(rows._jdf.queryExecution().executedPlan().toString()):
        rows = rows.sortWithinPartitions(*(functions.expr(order) for order in total_order(frame.schema)))
    return rows.select("*", functions.spark_partition_id().alias(SUBTASK))


def has_no_order(plan: str) -> bool:
    """Whether the rows of a partition of what this plan reads may come in another order next time."""
    return _UNORDERED.search(plan) is not None


def total_order(schema: StructType) -> list[str]:
    """What to sort by so that only equal rows are in any order: all columns, or their text."""
    return [_order_of(field) for field in schema]


def _order_of(field: StructField) -> str:
    name = f"`{field.name.replace('`', '``')}`"
    return name if _has_order(field.dataType) else f"CAST({name} AS STRING)"


def _has_order(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_order(kind.elementType)
    if isinstance(kind, StructType):
        return all(_has_order(field.dataType) for field in kind)
    return not isinstance(kind, (MapType, VariantType))


_OF_KEPT = 3
"""Spark stages of a vertex that is computed early: its rows, and two that count them."""


def planned_stages(stages: Sequence[Stage], readers: Mapping[VertexId, int]) -> int:
    """How many stages Spark will make of a job: one behind each shuffle, and what is computed early."""
    kept = sum(count > 1 for count in readers.values())
    return 1 + sum(bool(stage.feeds) for stage in stages) + _OF_KEPT * kept


class StageTracker:
    """Counts the stages and tasks of a job group.

    Spark plans as it goes: a job lists stages that it will skip, and stages may turn up that nobody planned.
    So stages count once they are done or have tasks, and the total is at least that.
    """

    def __init__(self, tracker: StatusTracker, group: str) -> None:
        self._tracker = tracker
        self._group = group
        self._done: set[int] = set()
        self._over: set[int] = set()
        """Spark jobs that ended; there is nothing new to learn about them."""

    def progress(self, planned: int) -> Progress:
        """Where the job is now; from any thread."""
        running: dict[int, tuple[int, int]] = {}
        for job in set(self._tracker.getJobIdsForGroup(self._group)) - self._over:
            info = self._tracker.getJobInfo(job)
            if info is None:
                continue
            for stage in set(info.stageIds) - self._done:
                self._look_at(stage, running)
            if info.status != "RUNNING":
                self._over.add(job)
        done = len(self._done)
        tasks_done = sum(count for count, _ in running.values())
        tasks = sum(count for _, count in running.values())
        return Progress(done, max(planned, done + len(running)), tasks_done, tasks)

    def _look_at(self, stage: int, running: dict[int, tuple[int, int]]) -> None:
        info = self._tracker.getStageInfo(stage)
        if info is None or not info.numActiveTasks + info.numCompletedTasks:
            return
        if info.numCompletedTasks == info.numTasks:
            self._done.add(stage)
        else:
            running[stage] = info.numCompletedTasks, info.numTasks


_ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_READ_BYTES = str(8 << 20)
"""What a task is given at once, about.  Rows are large here: by their number it would be far too much."""
ROWS = "edge int, target int, part long, time long, place long, body binary"
_NAME = 60


class SparkStages:
    """Runs the stages of one job in a Spark session."""

    def __init__(
        self,
        spark: SparkSession,
        description: Description,
        group: str,
        shipment: Shipment,
        pool: str | None = None,
    ) -> None:
        """``pool``: of Spark's fair scheduler."""
        self._spark = spark
        self._pool = pool
        self._shipment = shipment
        self._description = description
        self._group = group
        self._kept: list[DataFrame] = []
        self._cancelled = False
        self._mark = new_mark()
        self._planned = 0
        self._tracker = StageTracker(spark.sparkContext.statusTracker(), group)

    def run(self, stages: Sequence[Stage]) -> Iterator[bytes]:
        """Run all stages; what is for the driver, once all is done."""
        readers = _readers(stages)
        self._planned = planned_stages(stages, readers)
        outputs: dict[VertexId, DataFrame] = {}
        try:
            for stage in stages:
                rows = self._stage(stage, outputs)
                if readers[stage.work.vertex.id] > 1:
                    rows = self._keep(stage, rows)
                outputs[stage.work.vertex.id] = rows
            yield from self._collect(stages, outputs)
        except Exception as error:
            python = self._spark.sparkContext.pythonExec
            raise unpacked(error, self._mark) or translate(error, python) from None
        finally:
            self._spark.sparkContext.setLocalProperty(_ARROW_BYTES, None)
            for rows in self._kept:
                rows.unpersist()

    def table_of(self, source: Source) -> DataFrame | None:
        """The DataFrame behind a source that has one."""
        return source.frame if isinstance(source, FrameSource) else None

    def progress(self) -> Progress:
        """Spark's stages and tasks."""
        return self._tracker.progress(self._planned)

    def cancel(self) -> None:
        """End the Spark jobs of this one, and start no more."""
        self._cancelled = True
        self._spark.sparkContext.cancelJobGroup(self._group)

    # --- plans ------------------------------------------------------------------------------

    def _stage(self, stage: Stage, outputs: Mapping[VertexId, DataFrame]) -> DataFrame:
        read = [_only(outputs[feed.source], feed) for feed in stage.feeds]
        count = stage.work.vertex.parallelism
        if stage.table is not None:
            rows = numbered(stage.table, count, stage.work.in_order)
        elif not read:
            rows = self._marks(count, count)
        else:
            rows = reduce(DataFrame.union, read, self._marks(count, 1)).repartitionById(count, "target")
            rows = rows.sortWithinPartitions(*SORTED_BY)
        with wearing(self._spark.sparkContext, self._shipment.python):
            return rows.mapInArrow(task_function(stage, self._mark, self._shipment), ROWS)

    def _marks(self, count: int, partitions: int) -> DataFrame:
        """A row for each of ``count`` subtasks, to be the first in its partition.

        Spark numbers the partitions of a stage, and a stage may hold several vertices side by side.
        """
        return self._spark.range(count, numPartitions=partitions).select(
            functions.lit(HERE).alias("edge"),
            functions.col("id").cast("int").alias("target"),
            functions.lit(FIRST_PART).cast("long").alias("part"),
            functions.lit(FIRST_PART).cast("long").alias("time"),
            functions.lit(-1).cast("long").alias("place"),
            functions.lit(bytearray()).alias("body"),
        )

    def _keep(self, stage: Stage, rows: DataFrame) -> DataFrame:
        """Compute a vertex now that several others read, and keep its rows on disk."""
        self._describe([stage.work.vertex.name])
        rows = rows.persist(StorageLevel.DISK_ONLY)
        self._kept.append(rows)
        rows.count()
        return rows

    def _collect(self, stages: Sequence[Stage], outputs: Mapping[VertexId, DataFrame]) -> Iterator[bytes]:
        last = [stage for stage in stages if stage.work.is_collected]
        self._describe([stage.work.vertex.name for stage in stages])
        said = [outputs[stage.work.vertex.id].where(f"edge = {TO_DRIVER}").select("body") for stage in last]
        for row in reduce(DataFrame.union, said).collect():
            yield bytes(row[0])

    def _describe(self, vertices: Sequence[str]) -> None:
        """What the next Spark job is called."""
        if self._cancelled:
            raise JobFailedError("the job was cancelled", code=Code.JOB_CANCELLED)
        # Tasks look for settings of a session among these; those that the session itself has come on top.
        self._spark.sparkContext.setLocalProperty(_ARROW_BYTES, _READ_BYTES)
        text = self._description.of("batch", vertices)
        self._spark.sparkContext.setJobGroup(self._group, text, True)
        use_pool(self._spark.sparkContext, self._pool)


def _readers(stages: Sequence[Stage]) -> dict[VertexId, int]:
    """How many read the rows of each vertex; the driver counts."""
    readers = {stage.work.vertex.id: int(stage.work.is_collected) for stage in stages}
    for stage in stages:
        for feed in stage.feeds:
            readers[feed.source] += 1
    return readers


def _only(rows: DataFrame, feed: Feed) -> DataFrame:
    return rows.where(f"edge in ({', '.join(map(str, feed.edges))})")


def task_function(stage: Stage, mark: str, shipment: Shipment) -> Any:
    """The function Spark runs for a vertex. It is pickled by value, so it carries only plain data."""
    work = ship(stage.work)
    luggage, engine = shipment.luggage, shipment.engine

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import sys

        from pyspark import SparkFiles, TaskContext

        if engine and engine not in sys.path:
            sys.path.append(engine)
        try:
            from penstock.luggage.arrival import carrying
            from penstock.spark.batch.task import run_task
        except ImportError as error:
            raise RuntimeError(f"PENSTOCK-MISSING {error}") from None
        context = TaskContext.get()
        attempt = context.attemptNumber(), context.taskAttemptId()
        with carrying(luggage, SparkFiles.getRootDirectory()):
            yield from run_task(work, mark, attempt, batches)

    run.__module__ = "__main__"
    run.__name__ = run.__qualname__ = _plain(stage.work.vertex.name)
    return run


def _plain(name: str) -> str:
    """A vertex's name as Spark's plans show it."""
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:_NAME] or "vertex"
