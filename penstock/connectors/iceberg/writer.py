"""The writer of the Iceberg sink: data files at every barrier."""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.connectors.files.table_files import TableFilesWriter, TableLayout
from penstock.connectors.iceberg.table import data_storage
from penstock.connectors.sink import SinkWriter, WriterContext
from penstock.core.batch import Batch
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
        self._data = f"{location.rstrip('/')}/data"
        storage, directory = data_storage(io, location)
        self._files = TableFilesWriter(
            layout, storage, directory, f"part-{context.generation}-{context.subtask}"
        )

    def write(self, batch: Batch) -> None:
        self._files.write(batch)

    def flush(self, end_of_input: bool) -> None:
        self._files.finish_all()

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        paths = tuple(f"{self._data}/{done.path}" for done in self._files.take())
        return [IcebergCommittable(self._app_id, self._subtask, int(epoch), paths)] if paths else []

    def close(self) -> None:
        self._files.abandon()
