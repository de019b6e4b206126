"""What runs in a Spark task of a BATCH job."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from penstock.batch.vertex import run_vertex
from penstock.batch.wire import HERE
from penstock.batch.work import Try
from penstock.core.clock import SystemClock
from penstock.spark.batch.failures import packed


def run_task(
    work: bytes, attempt: tuple[int, int], rows: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run one subtask of a vertex; its errors travel as they are.

    ``attempt`` is the number of the try, and a number that no other try of any task has.  The first of
    ``rows`` says which subtask it is.
    """
    first = next(rows)
    assert first.column("edge")[0].as_py() == HERE, "a partition begins with the row that names it"
    subtask = first.column("target")[0].as_py()
    try:
        rest = chain((first.slice(1),), rows)
        yield from run_vertex(pickle.loads(work), Try(subtask, *attempt), rest, SystemClock())
    except Exception as error:
        raise packed(error) from None
