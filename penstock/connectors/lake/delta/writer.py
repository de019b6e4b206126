"""The writer of the Delta sink: data files at every barrier, described for the log."""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.connectors.lake.delta.stats import file_stats, partition_text
from penstock.connectors.lake.delta.table import TableAddress
from penstock.connectors.lake.table_files import DataFile, TableFilesWriter, TableLayout
from penstock.connectors.sink import SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.ids import Epoch


class AddedFile(NamedTuple):
    """A data file as the log will hold it."""

    path: str
    size: int
    partition: dict[str, str | None]
    modified_ms: int
    stats: str


class DeltaCommittable(NamedTuple):
    """What one subtask wrote in one epoch: all of it is committed, or none."""

    app_id: str
    """Whose the files are: of this subtask, sink, job, and start of the job."""
    epoch: int
    """Grows from one committable of an ``app_id`` to the next."""
    files: tuple[AddedFile, ...]


class DeltaWriter(SinkWriter):
    """Writes data files of one subtask."""

    def __init__(self, address: TableAddress, layout: TableLayout, run: str, context: WriterContext) -> None:
        self._app_id = f"penstock/{context.job_name}/{context.sink_id}/{run}/{context.subtask}"
        self._partition_by = layout.partition_by
        self._clock: Clock = context.clock
        self._files = TableFilesWriter(layout, address.storage(), address.uri, run, context)

    def write(self, batch: Batch) -> None:
        self._files.write(batch)

    def flush(self, end_of_input: bool) -> None:
        self._files.finish_all()

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        now_ms = self._clock.now_ms()
        added = tuple(self._describe(done, now_ms) for done in self._files.take())
        return [DeltaCommittable(self._app_id, int(epoch), added)] if added else []

    def _describe(self, done: DataFile, now_ms: int) -> AddedFile:
        texts = [partition_text(value) for value in done.values]
        partition = dict(zip(self._partition_by, texts, strict=True))
        return AddedFile(done.path, done.size, partition, now_ms, file_stats(done.metadata))

    def close(self) -> None:
        self._files.abandon()
