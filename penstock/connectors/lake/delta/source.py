"""One version of a Delta table as a bounded source of columnar batches.

The version is fixed when the job starts; each data file, or part of a large one, is a split.  VACUUM may
remove files of old versions, so keep its retention longer than the job runs.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.files.formats import FileRange
from penstock.connectors.files.parquet import ParquetReader
from penstock.connectors.files.source import SPLIT_BYTES
from penstock.connectors.files.unreadable import OnMissing, open_found
from penstock.connectors.lake.delta.table import TableAddress, arrow_schema
from penstock.connectors.source import Source, Split, SplitEnumerator, SplitReader, SplitsOnce
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.storage.contract import Storage
from penstock.storage.places import is_url


class DeltaPart(NamedTuple):
    """A part of a data file, with what the reader cannot see in it."""

    part: FileRange
    partition: dict[str, Any]
    """Values of the partition columns, which are not in the file."""
    schema: Any
    """The columns to deliver: the table's, as they were at that version."""


class DeltaSource(Source):
    """Reads a version of a Delta table, the newest unless given; ``columns`` are those to read.

    ``storage_options`` and ``file_options`` are as for ``DeltaSink``.  ``on_missing`` says what to do with
    data files that VACUUM has removed meanwhile: ``"error"``, or ``"skip"`` them.
    """

    read_in_order = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        version: int | None = None,
        columns: list[str] | None = None,
        storage_options: dict[str, str] | None = None,
        file_options: dict[str, Any] | None = None,
        on_missing: OnMissing | str = OnMissing.ERROR,
    ) -> None:
        self._address = TableAddress.of(path, storage_options, file_options)
        self._version = version
        self._columns = columns
        self._on_missing = OnMissing(on_missing)

    def check(self) -> None:
        self._open()

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return SplitsOnce(self.splits)

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        return open_found(
            lambda: _DeltaReader(split.info, position or 0, self._address.storage()),
            position or 0,
            self._on_missing,
            'on_missing="skip" of DeltaSource. VACUUM removes files of older versions: let it keep them for '
            "longer than the job may take or be down",
        )

    def splits(self) -> list[Split]:
        """All parts of all data files of the version. Called on the driver."""
        table = self._open()
        schema = arrow_schema(table)
        wanted = pa.schema([schema.field(name) for name in self._columns or schema.names])
        names = table.metadata().partition_columns
        found = []
        files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        for row in sorted(files, key=lambda row: str(row["path"])):
            partition = {name: row[f"partition.{name}"] for name in names}
            for part in self._divide(unquote(row["path"]), row["size_bytes"]):
                found.append(Split(f"{row['path']}@{part.start}", DeltaPart(part, partition, wanted)))
        return found

    def _divide(self, path: str, size: int) -> list[FileRange]:
        whole = path if is_url(path) or path.startswith("/") else f"{self._address.uri}/{path}"
        count = max(1, size // SPLIT_BYTES)
        edges = [size * number // count for number in range(count)]
        return [FileRange(whole, start, end) for start, end in zip(edges, [*edges[1:], None], strict=True)]

    def _open(self) -> Any:
        table = self._address.open(self._version)
        uri = self._address.uri
        mapping = table.metadata().configuration.get("delta.columnMapping.mode", "none")
        if mapping != "none" or pa.table(table.deletion_vectors()).num_rows:
            raise ConfigError(
                f"the Delta table {uri!r} has renamed columns or deletion vectors, which DeltaSource cannot "
                "read; rewrite it (REORG TABLE ... APPLY (PURGE)), or read it with Spark"
            )
        unknown = [name for name in self._columns or [] if name not in arrow_schema(table).names]
        if unknown:
            raise ConfigError(f"the Delta table {uri!r} has no column {', '.join(unknown)}")
        return table


class _DeltaReader(SplitReader):
    """Rows of a part of a data file, with the columns of the table."""

    def __init__(self, split: DeltaPart, row: int, storage: Storage) -> None:
        self._partition = split.partition
        self._schema = split.schema
        self._reader = ParquetReader(split.part, row, self._in_file(split.part.path, storage), None, storage)

    def _in_file(self, path: str, storage: Storage) -> list[str]:
        """Which of the columns the file has: those added to the table later are not in it."""
        with storage.open_read(path) as stream:
            names = pq.read_schema(stream).names
        return [name for name in self._schema.names if name in names] or names[:1]

    def poll(self, max_rows: int) -> Batch | None:
        batch = self._reader.poll(max_rows)
        if batch is None:
            return None
        arrays = [self._column(batch.columns, column) for column in self._schema]
        return Batch(columns=pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def _column(self, columns: Any, wanted: Any) -> Any:
        if wanted.name in columns.schema.names:
            return columns.column(wanted.name).cast(wanted.type)
        # A partition column, or one that was added to the table after the file was written.
        return pa.repeat(pa.scalar(self._partition.get(wanted.name), wanted.type), columns.num_rows)

    def position(self) -> int:
        return self._reader.position()

    def close(self) -> None:
        self._reader.close()
