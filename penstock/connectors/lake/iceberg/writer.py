"""The writer of the Iceberg sink: data files at every barrier."""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.connectors.lake.iceberg.table import data_storage
from penstock.connectors.lake.table_files import DataFile, TableFilesWriter, TableLayout
from penstock.connectors.sink import SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError
from penstock.core.ids import Epoch


class IcebergCommittable(NamedTuple):
    """What one subtask wrote in one epoch: all of it is committed, or none."""

    app_id: str
    """Whose the files are: of this sink, job, and start of the job."""
    subtask: int
    epoch: int
    """Grows from one committable of a subtask to the next."""
    paths: tuple[str, ...]


class IcebergWriter(SinkWriter):
    """Writes data files of one subtask."""

    def __init__(self, layout: TableLayout, io: Any, location: str, run: str, context: WriterContext) -> None:
        self._app_id = f"{context.job_name}/{context.sink_id}/{run}"
        self._subtask = context.subtask
        self._partition_by = layout.partition_by
        self._data = f"{location.rstrip('/')}/data"
        storage, directory = data_storage(io, location)
        self._files = TableFilesWriter(layout, storage, directory, run, context)

    def write(self, batch: Batch) -> None:
        self._files.write(batch)

    def flush(self, end_of_input: bool) -> None:
        self._files.finish_all()

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        files = self._files.take()
        for done in files:
            _check_partition(done, self._partition_by)
        paths = tuple(f"{self._data}/{done.path}" for done in files)
        return [IcebergCommittable(self._app_id, self._subtask, int(epoch), paths)] if paths else []

    def close(self) -> None:
        self._files.abandon()


def _check_partition(done: DataFile, partition_by: tuple[str, ...]) -> None:
    """The commit finds a file's partition by its statistics; Parquet has none for NaN and very long text."""
    group = done.metadata.row_group(0)
    columns = {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}
    for name, value in zip(partition_by, done.values, strict=True):
        statistics = columns[name].statistics
        if value is not None and (statistics is None or not statistics.has_min_max):
            raise ConnectorError(
                f"{str(value)[:40]!r} cannot be a partition of an Iceberg table (column {name!r}): it is "
                "NaN, or too long a text; map such values to others before the sink"
            )
