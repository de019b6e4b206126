"""``env.from_dataframe``: a Spark DataFrame as a bounded source.

In BATCH mode on Spark the frame is the input of the source's tasks: see :mod:`penstock.spark.batch.stages`.

For a stream the executors write its rows to Parquet files once, when the job begins and before it takes its
slots; no row passes through the driver.  The job reads the files: see
:mod:`penstock.connectors.combinators.materialized` for what that is good for after a crash.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.connectors.builtin.collection import RowsAtHand, RowsReader
from penstock.connectors.combinators.materialized import MaterialisedSource
from penstock.connectors.source import Split, SplitReader
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.core.job import JobStatus
from penstock.core.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.spark.failures import wrong_python
from penstock.spark.session import refuse_connect
from penstock.spark.shipping import share
from penstock.spark.slots import is_one_machine
from penstock.storage.places import join, normalise


def scratch(spark: SparkSession, what: str) -> str:
    """A directory of this machine, gone when the program ends; only where the executors see it too."""
    if not is_one_machine(spark):
        raise ConfigError(
            f"{what} passes rows through files that the driver and all executors see, and nothing says "
            "where; set execution.checkpointing.dir, or give directory=, on a shared file system"
        )
    place = tempfile.mkdtemp(prefix="penstock-frames-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def place_for(
    spark: SparkSession, what: str, directory: str | None, checkpoints: str | None, folder: str
) -> str:
    """Where ``what`` puts its files: as told, else beside the checkpoints, else on this machine."""
    refuse_connect()
    if directory is not None:
        return normalise(directory)
    return join(normalise(checkpoints), folder) if checkpoints else scratch(spark, what)


FOLDER = "_frames"
"""Beside the directories of the jobs, below the checkpoint directory."""

_ROW_GROUP = 1 << 18

_TYPES: dict[pa.DataType, TypeInformation] = {
    pa.string(): Types.STRING(),
    pa.bool_(): Types.BOOLEAN(),
    pa.int8(): Types.BYTE(),
    pa.int16(): Types.SHORT(),
    pa.int32(): Types.INT(),
    pa.int64(): Types.LONG(),
    pa.float32(): Types.FLOAT(),
    pa.float64(): Types.DOUBLE(),
    pa.date32(): Types.SQL_DATE(),
    pa.timestamp("us"): Types.SQL_TIMESTAMP(),
    pa.binary(): Types.PRIMITIVE_ARRAY(Types.BYTE()),
}


class FrameSource(MaterialisedSource):
    """The rows of a DataFrame, as they are when the job begins; in BATCH mode, while it reads them."""

    def __init__(
        self, frame: DataFrame, directory: str | None, checkpoints: str | None, sort_by: str | None = None
    ) -> None:
        if not isinstance(frame, DataFrame):
            raise ConfigError(
                f"from_dataframe takes a Spark DataFrame, not {type(frame).__name__}; spark.createDataFrame "
                "makes one of a pandas frame or an Arrow table"
            )
        refuse_connect(frame)
        self._is_ours = directory is None
        self._place: tuple[str | None, str | None] = directory, checkpoints
        self._schema = schema = frame_schema(frame)
        self.frame: DataFrame | None = frame
        if sort_by is not None and sort_by not in schema.names:
            raise ConfigError(
                f"the DataFrame has no column {sort_by!r} to take event time from; it has "
                f"{', '.join(schema.names)}"
            )
        ordered = frame if sort_by is None else frame.orderBy(sort_by)
        super().__init__(lambda directory: write_files(ordered, schema, directory), None, row_type(schema))

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "frame": None}

    def home(self) -> str:
        if self._home is None:
            assert self.frame is not None, "only the driver's copy of the source writes"
            self._home = place_for(self.frame.sparkSession, "from_dataframe", *self._place, FOLDER)
        return self._home

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        if isinstance(split.info, RowsAtHand):
            return RowsReader(split.info, self._schema)
        return super().open_split(split, position, clock)

    def job_ended(self, status: JobStatus, savepoints: int) -> None:
        """Remove the files, unless a snapshot may still need them or they are in a directory of the user."""
        if self._is_ours and status is JobStatus.FINISHED and not savepoints:
            self.discard()


def frame_schema(frame: DataFrame) -> pa.Schema:
    """The columns of a frame as Arrow has them; a TIMESTAMP is in UTC and has no zone."""
    names = frame.columns
    if not names:
        raise ConfigError("the DataFrame has no columns, so its rows would be nothing; select some first")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"the DataFrame has several columns called {', '.join(twice)}; rename them first")
    fields = [
        pa.field(field.name, pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type)
        for field in to_arrow_schema(frame.schema, timezone="UTC")
    ]
    return pa.schema(fields)


def row_type(schema: pa.Schema) -> RowTypeInfo | None:
    """The type of the rows, if every column has one."""
    kinds = [_type_of(field.type) for field in schema]
    found = [kind for kind in kinds if kind is not None]
    return Types.ROW_NAMED(schema.names, found) if len(found) == len(kinds) and kinds else None


def _type_of(kind: pa.DataType) -> TypeInformation | None:
    if pa.types.is_list(kind):
        element = _type_of(kind.value_type)
        return None if element is None else Types.LIST(element)
    return _TYPES.get(kind)


def write_files(frame: DataFrame, schema: pa.Schema, directory: str) -> list[str]:
    """Have the executors write the frame; the names of the files, in the order of its partitions."""
    share(frame.sparkSession)
    try:
        written = frame.mapInArrow(_partition_writer(directory, schema), "name string").collect()
    except Exception as error:
        raise wrong_python(error, frame.sparkSession.sparkContext.pythonExec) or error from None
    return sorted(row["name"] for row in written)


def _partition_writer(directory: str, schema: pa.Schema) -> Any:
    """The function for ``mapInArrow``. It is pickled by value, so it carries only plain data.

    A task that Spark runs twice writes two files; only those of the task that counted are named.
    """
    group = _ROW_GROUP

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow
        import pyarrow.parquet
        from pyspark import TaskContext

        from penstock.storage.places import join, storage_of

        context = TaskContext.get()
        assert context is not None
        name = f"part-{context.partitionId():06d}-{uuid.uuid4().hex[:16]}.parquet"
        storage, path = storage_of(directory), join(directory, name)
        writer = stream = None
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if writer is None:
                stream = storage.create(path)
                writer = pyarrow.parquet.ParquetWriter(stream, schema)
            writer.write_table(pyarrow.Table.from_batches([batch]).cast(schema), row_group_size=group)
        if writer is not None and stream is not None:
            writer.close()
            storage.seal(stream)
            storage.sync_directories([path])
            yield pyarrow.RecordBatch.from_pydict({"name": [name]})

    write.__module__ = "__main__"
    return write
