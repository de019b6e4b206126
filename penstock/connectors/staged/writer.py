"""The writers of staged epochs, and the names of their files.

A file is called ``<generation>-<subtask>-<run>-<number>-<epoch>.parquet``; until the epoch is known, which
is at the barrier, a part that was too large for memory ends in ``.open``.  All files of a sink are in one
directory named after job and sink, so that a later attempt knows what an earlier one left behind.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.files.parquet_writer import conform
from penstock.connectors.sink import SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError
from penstock.core.ids import Epoch
from penstock.storage.contract import Storage
from penstock.storage.places import join, storage_of

_MEMORY_BYTES = 64 << 20
_NAME = re.compile(r"(?P<generation>\d+)-\d+-\w+-\d+(-(?P<epoch>\d+)\.parquet|\.open)")


@dataclass(frozen=True, slots=True)
class StagedFiles:
    """The committable: what one subtask staged for one epoch."""

    epoch: Epoch
    directory: str
    names: tuple[str, ...]
    rows: int


class EpochFileWriter(SinkWriter):
    """Gathers the rows of one subtask and stages them at barriers."""

    def __init__(self, directory: str, schema: pa.Schema | None, context: WriterContext) -> None:
        self._storage: Storage = storage_of(directory)
        self._directory = directory_of(directory, context.job_name, context.sink_id)
        self._schema = schema
        self._stem = f"{context.generation}-{context.subtask}-{uuid.uuid4().hex[:16]}"
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._rows = 0
        self._number = 0
        self._open: list[str] = []
        self._storage.make_own_directory(self._directory)
        if context.subtask == 0:
            remove_leftovers(self._directory, context.generation, context.restored_epoch)

    def write(self, batch: Batch) -> None:
        columns = self._columns(batch)
        self._batches.append(columns)
        self._bytes += columns.nbytes
        self._rows += columns.num_rows
        if self._bytes >= _MEMORY_BYTES:
            name = f"{self._next_stem()}.open"
            self._store(name)
            self._open.append(name)

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        names = []
        for name in self._open:
            named = f"{name.removesuffix('.open')}-{epoch}.parquet"
            self._storage.move(join(self._directory, name), join(self._directory, named))
            names.append(named)
        if self._batches:
            names.append(f"{self._next_stem()}-{epoch}.parquet")
            self._store(names[-1])
        self._storage.sync_directories(join(self._directory, name) for name in names)
        staged = StagedFiles(epoch, self._directory, tuple(names), self._rows)
        self._open, self._rows = [], 0
        return [staged] if names else []

    def close(self) -> None:
        for name in self._open:
            self._storage.remove(join(self._directory, name))
        self._open, self._batches = [], []

    def _columns(self, batch: Batch) -> pa.RecordBatch:
        if self._schema is None:
            if batch.columns is None:
                raise ConnectorError(
                    "the records are Python objects and nothing says which columns they have; declare "
                    "output_type=Types.ROW_NAMED(...) on the step before, or give the sink a pyarrow schema"
                )
            self._schema = batch.columns.schema
        return conform(batch, self._schema)

    def _next_stem(self) -> str:
        self._number += 1
        return f"{self._stem}-{self._number}"

    def _store(self, name: str) -> None:
        stream = self._storage.create(join(self._directory, name))
        pq.write_table(pa.Table.from_batches(self._batches), stream)
        self._storage.seal(stream)
        self._batches, self._bytes = [], 0


def remove_leftovers(directory: str, generation: int, restored: Epoch | None) -> None:
    """What attempts before ``generation`` staged behind the restored epoch; the caller may be the zombie."""
    storage = storage_of(directory)
    for path in storage.list_files(directory) if storage.exists(directory) else []:
        name = _NAME.fullmatch(path.rpartition("/")[2])
        if name is None or int(name["generation"]) >= generation:
            continue
        if name["epoch"] is None or restored is None or int(name["epoch"]) > restored:
            storage.remove(path)


def directory_of(base: str, job_name: str, sink_id: str) -> str:
    """Where all files of a sink are."""
    return join(base, hashlib.sha256(f"{job_name}\0{sink_id}".encode()).hexdigest()[:16])
