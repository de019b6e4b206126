"""What Spark reads itself in BATCH mode: a DataFrame as the input of a source's tasks.

Nothing is copied or written: the scan, its pruning, pushed-down filters, locality and retries are Spark's.
The partitions of the frame become the subtasks of the source.  There are at most as many as the source's
parallelism, so partitions of a larger frame are joined; each row brings the number of its subtask, because
Spark's own numbers run through everything that shares a stage.  A partition without rows has no number and
runs nothing: it would have nothing to say.
"""

from __future__ import annotations

import re

from pyspark.sql import DataFrame, functions
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, VariantType

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
