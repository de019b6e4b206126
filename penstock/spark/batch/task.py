"""What runs in a Spark task of a BATCH job."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from penstock.batch.vertex import run_vertex
from penstock.batch.wire import HERE
from penstock.batch.work import TaskAttempt, VertexWork
from penstock.core.clock import SystemClock
from penstock.spark.batch.failures import packed

Rows = Iterator[pa.RecordBatch]


def run_task(work: bytes, mark: str, attempt: tuple[int, int], rows: Rows) -> Rows:
    """Run one subtask of a vertex; its errors travel behind the ``mark``.

    ``attempt`` is the number of the try, and a number that no other try of any task has.  ``rows`` say which
    subtask it is; a table's partition without rows cannot, and has nothing to do.
    """
    try:
        vertex: VertexWork = pickle.loads(work)
        found = _of_table(rows) if vertex.at_hand else _of_exchange(rows)
        if found is not None:
            subtask, rest = found
            yield from run_vertex(vertex, TaskAttempt(subtask, *attempt), rest, SystemClock())
            # A source never looks at it; but Spark gives up a worker that has not read its input to the end.
            deque(rest, maxlen=0)
    except Exception as error:
        raise packed(error, mark) from None


def _of_exchange(rows: Rows) -> tuple[int, Rows]:
    """The first row names the subtask."""
    first = next(rows)
    assert first.column("edge")[0].as_py() == HERE, "a partition begins with the row that names it"
    return first.column("target")[0].as_py(), chain((first.slice(1),), rows)


def _of_table(rows: Rows) -> tuple[int, Rows] | None:
    """The last column names the subtask, the same in every row."""
    first = next((batch for batch in rows if batch.num_rows), None)
    if first is None:
        return None
    columns = list(range(first.num_columns - 1))
    subtask = first.column(len(columns))[0].as_py()
    return subtask, (batch.select(columns) for batch in chain((first,), rows))
