"""``stream.for_each_epoch`` and ``stream.to_dataframe``: what a job gives back as DataFrames.

Slots write the rows to Parquet files, Spark reads them; no row passes through the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkTypeError
from pyspark.resource import ResourceProfile
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.connectors.sink import Committer, SinkWriter, WriterContext
from penstock.connectors.staged import EpochCommitter, StagedEpochs
from penstock.core.errors import ClusterError, ConfigError
from penstock.graph.nodes import Node
from penstock.spark.slots import available_slots
from penstock.storage.places import is_url, storage_of

FOLDER = "_epochs"
"""Beside the directories of the jobs, below the checkpoint directory."""

EpochFunction = Callable[[DataFrame, int], object]
"""Takes the rows of an epoch and its number, on the driver."""


class EpochDataFrames(StagedEpochs):
    """Hands each epoch to ``function(frame, epoch)`` on the driver once its snapshot is published.

    The same epoch always has the same rows, also after a crash, when the call may come again: a function
    that is idempotent in the epoch makes the output exact.  The frame can be used only during the call: its
    files are removed behind it.  Epochs without rows are left out.  ``directory`` is where rows wait; it must
    be seen by the driver and every executor.
    """

    def __init__(
        self,
        function: EpochFunction,
        spark: SparkSession,
        directory: str,
        schema: pa.Schema | None = None,
    ) -> None:
        if not callable(function):
            raise ConfigError(f"for_each_epoch takes a function of (frame, epoch), not {function!r}")
        super().__init__(lambda epoch, files: _call(function, spark, files, epoch), directory, schema)


def _call(function: EpochFunction, spark: SparkSession, files: Sequence[str], epoch: int) -> None:
    function(read_files(spark, files), epoch)


class ResultFrame(StagedEpochs):
    """Behind ``stream.to_dataframe``: gathers the files of a job, and is a frame when it is over."""

    feeds_program = True

    def __init__(self, directory: str, schema: pa.Schema | None = None) -> None:
        files: set[str] = set()
        self._files = files
        self._beginnings: dict[int, int | None] = {}
        """The epochs that attempts of this program were restored from, by their generations."""
        super().__init__(lambda epoch, names: files.update(names), directory, schema)

    def create_committer(self) -> Committer:
        return EpochCommitter(self.deliver, keep=True, base=self.directory)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        context.to_driver((context.generation, context.restored_epoch))
        return super().create_writer(context)

    def on_driver_message(self, message: Any) -> None:
        generation, restored = message
        self._beginnings[generation] = restored

    def frame(self, spark: SparkSession) -> DataFrame:
        """All rows of the job that has finished."""
        restored = self._beginnings[min(self._beginnings)] if self._beginnings else None
        if restored is not None:
            raise ConfigError(
                f"the job went on from snapshot {restored} of an earlier program, so the rows up to there "
                "are not in this DataFrame. Begin anew, with another job_execution_name or no checkpoints"
            )
        if self._files:
            return read_files(spark, sorted(self._files))
        if self.schema is None:
            raise ConfigError(
                "the job gave no rows and its stream declares no type, so the DataFrame's columns are not "
                "known; declare output_type on the last step, or give to_dataframe a pyarrow schema"
            )
        return spark.createDataFrame([], from_arrow_schema(self.schema))


def read_files(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Staged files as a frame, without a Spark job to look at their columns."""
    with storage_of(files[0]).open_read(files[0]) as stream:
        columns = _plain(pq.read_schema(stream))
    paths = [file if is_url(file) else f"file://{file}" for file in files]
    try:
        return spark.read.schema(from_arrow_schema(columns)).parquet(*paths)
    except PySparkTypeError:  # a type that Spark knows by another name: let it look for itself
        return spark.read.parquet(*paths)


def _plain(schema: pa.Schema) -> pa.Schema:
    """Without dictionaries: they are a way to store columns, not a type."""
    kinds = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in schema]
    return pa.schema(list(zip(schema.names, kinds, strict=True)))


def needs_room(nodes: Iterable[Node]) -> bool:
    """Whether the job has Spark jobs running beside it."""
    return any(isinstance(node.sink, EpochDataFrames) for node in nodes)


def check_room(spark: SparkSession, slots: int, profile: ResourceProfile | None) -> None:
    """Refuse a job that would leave no task slot for the frames of its epochs."""
    there = available_slots(spark, profile)
    if there > slots:
        return
    way = f"Lower the parallelism to {there - 1}, or give" if there > 1 else "Give"
    raise ClusterError(
        f"for_each_epoch runs Spark jobs beside this one, and the job holds {slots} of the {there} task "
        f"slots of Spark ({spark.sparkContext.master}) as long as it runs: they would wait for ever. {way} "
        "Spark more cores"
    )
