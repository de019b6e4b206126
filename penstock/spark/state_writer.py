"""State files from a Spark DataFrame: rows are divided by key group and written by the tasks that hold them.

Two steps: every row is told the number of its file (Penstock's own hash of the key), then Spark brings the
rows of a file together and a task writes it.  Only handles come back to the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, StructField, StructType

from penstock.core.handles import KeyedHandle
from penstock.snapshot.store import open_store
from penstock.spark.failures import wrong_python
from penstock.spark.shipping import share
from penstock.state_processor.files import Target, entries_of, keys_of, write_rows

_PART = "__part"

Batches = Iterable[pa.RecordBatch]


def write_frame(rows: DataFrame, url: str, target: Target) -> dict[int, KeyedHandle]:
    """Write the rows as the state ``target`` below ``url``; gives the handle of each file by its number."""
    share(rows.sparkSession)
    numbered = StructType([*rows.schema.fields, StructField(_PART, IntegerType())])
    divided = rows.mapInArrow(_numbering(target), numbered).repartitionById(target.parallelism, _PART)
    try:
        written = divided.mapInArrow(_writing(url, target), "part int, handle binary").collect()
    except Exception as error:
        raise wrong_python(error, rows.sparkSession.sparkContext.pythonExec) or error from None
    return {row.part: pickle.loads(bytes(row.handle)) for row in written}


def _numbering(target: Target) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def number(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                parts = pa.array(target.parts(keys_of(batch)), pa.int32())
                yield batch.append_column(_PART, parts)

    return number


def _writing(url: str, target: Target) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def write(batches: Batches) -> Iterator[pa.RecordBatch]:
        held = [batch for batch in batches if batch.num_rows]
        if not held:
            return
        table = pa.Table.from_batches(held).drop_columns([_PART])
        store = open_store(url)
        handles = write_rows(store, target, keys_of(table), entries_of(target, table))
        pickled = [pickle.dumps(handle) for handle in handles.values()]
        yield pa.RecordBatch.from_arrays(
            [pa.array(list(handles), pa.int32()), pa.array(pickled, pa.binary())], ["part", "handle"]
        )

    return write
