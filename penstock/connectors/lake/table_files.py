"""Parquet data files of a table format: written by a sink's writer, made part of the table by its commit.

A data file is never visible by its name: a table's readers follow its log or manifests.  So there is no
hidden name and no rename here, and what a failed attempt leaves behind is an orphan that nobody reads.
The run is part of a name, so that what a run in BATCH mode leaves can be told from everybody else's.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, BinaryIO, NamedTuple, Protocol

import pyarrow as pa

from penstock.connectors.files.parquet_writer import ParquetWriter, ParquetWriterFactory, conform
from penstock.connectors.files.partitions import Values, split_by_columns
from penstock.connectors.files.parts import limit_buffers
from penstock.connectors.sink import SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError
from penstock.storage.contract import MissingFileError

_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class DataStorage(Protocol):
    """Where data files go: the part of ``Storage`` that a writer of tables needs."""

    def create(self, path: str) -> BinaryIO:
        """Open a new file for writing bytes, with its directories."""
        ...

    def seal(self, stream: BinaryIO) -> None:
        """Close a file that ``create`` opened, and make its bytes durable."""
        ...

    def sync_directories(self, paths: Iterable[str]) -> None:
        """Make the names in the directories of these files durable."""
        ...

    def list_files(self, path: str) -> list[str]:
        """The files below a directory that exists."""
        ...

    def remove(self, path: str) -> object:
        """Delete a file; it need not exist."""
        ...


@dataclass(frozen=True, slots=True)
class TableLayout:
    """What the data files of a table look like."""

    schema: Any
    """Arrow schema of the records, partition columns included."""
    partition_by: tuple[str, ...] = ()
    target_bytes: int = 128 << 20
    compression: str = "snappy"
    partitions_in_files: bool = False
    """Whether data files hold the partition columns as well: Iceberg's do, Delta's do not."""

    def file_schema(self) -> Any:
        """Schema of the data files."""
        if self.partitions_in_files:
            return self.schema
        return pa.schema([column for column in self.schema if column.name not in self.partition_by])


class DataFile(NamedTuple):
    """A complete data file."""

    path: str
    """Relative to the table's data directory."""
    size: int
    values: Values
    """Of the partition columns."""
    metadata: Any
    """The Parquet footer."""


@dataclass(slots=True)
class _OpenFile:
    path: str
    stream: BinaryIO
    writer: ParquetWriter
    footer: list[Any] = field(default_factory=list)


class TableFilesWriter(SinkWriter):
    """Writes the data files of one subtask; ``base`` is the table's data directory.

    A table format adds ``prepare_commit``, with what :meth:`take` gives.
    """

    def __init__(
        self, layout: TableLayout, storage: DataStorage, base: str, run: str, context: WriterContext
    ) -> None:
        self._layout = layout
        self._storage = storage
        self._base = base.rstrip("/")
        self._stem = f"part-{context.generation}-{context.subtask}-{run}-{uuid.uuid4().hex}"
        self._factory = ParquetWriterFactory(layout.file_schema(), layout.compression)
        self._open: dict[Values, _OpenFile] = {}
        self._done: list[DataFile] = []
        self._counter = 0

    def write(self, batch: Batch) -> None:
        columns = conform(batch, self._layout.schema)
        _refuse_nulls(columns, self._layout.schema)
        for values, part in split_by_columns(columns, self._layout.partition_by):
            opened = self._open.get(values) or self._start(values)
            opened.writer.write(Batch(columns=part.select(self._factory.schema.names)))
            if opened.stream.tell() >= self._layout.target_bytes:
                self._finish(values)
        limit_buffers([opened.writer for opened in self._open.values()])

    def _start(self, values: Values) -> _OpenFile:
        folders = [
            f"{_folder(name)}={_folder(value)}"
            for name, value in zip(self._layout.partition_by, values, strict=True)
        ]
        path = "/".join([*folders, f"{self._stem}-{self._counter}.parquet"])
        self._counter += 1
        stream = self._storage.create(f"{self._base}/{path}")
        footer: list[Any] = []
        opened = _OpenFile(path, stream, self._factory.create(stream, footer), footer)
        self._open[values] = opened
        return opened

    def _finish(self, values: Values) -> None:
        opened = self._open[values]
        opened.writer.finish()
        size = opened.stream.tell()
        self._storage.seal(opened.stream)
        del self._open[values]
        self._done.append(DataFile(opened.path, size, values, opened.footer[0]))

    def flush(self, end_of_input: bool = False) -> None:
        for values in list(self._open):
            self._finish(values)

    def take(self) -> list[DataFile]:
        """All files completed since the last call; their names are durable."""
        self.flush()
        self._storage.sync_directories(f"{self._base}/{done.path}" for done in self._done)
        done, self._done = self._done, []
        return done

    def close(self) -> None:
        """Remove what was never handed out."""
        for opened in self._open.values():
            with contextlib.suppress(Exception):
                opened.writer.finish()
            with contextlib.suppress(Exception):
                opened.stream.close()
        paths = [opened.path for opened in self._open.values()] + [done.path for done in self._done]
        for path in paths:
            with contextlib.suppress(Exception):
                self._storage.remove(f"{self._base}/{path}")
        self._open, self._done = {}, []


def remove_files_of(run: str, storage: DataStorage, base: str) -> None:
    """Delete what writers of a run have written, of which nothing was or will be committed."""
    with contextlib.suppress(MissingFileError):  # nobody has written anything yet
        for path in storage.list_files(base):
            if f"-{run}-" in path.rpartition("/")[2]:
                storage.remove(path)


def _folder(value: Any) -> str:
    """A name for people: readers take columns and values from the table's log, so nothing needs escaping."""
    text = "null" if value is None else str(value)
    return text if _PLAIN.fullmatch(text) else sha256(text.encode()).hexdigest()[:16]


def _refuse_nulls(columns: Any, schema: Any) -> None:
    for column in schema:
        if not column.nullable and columns.column(column.name).null_count:
            raise ConnectorError(
                f"column {column.name!r} of the table may not be null, but a record has no value for it; "
                "filter such records out, or change the column"
            )
