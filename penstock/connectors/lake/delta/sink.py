"""A Delta table as a sink: each checkpoint appends one transaction, exactly once.

Writers put data files into the table's directory; nobody reads them until the committer names them in
the table's log, with all other files of the epoch, in one entry.

What a crashed attempt wrote and no checkpoint knows stays behind as orphan files.  They take space and
nothing else; the table's own ``VACUUM`` removes them.  A run in BATCH mode that fails removes its own.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.connectors.lake.delta.commit import DeltaCommitter
from penstock.connectors.lake.delta.table import TableAddress, arrow_schema, check_writable
from penstock.connectors.lake.delta.writer import DeltaWriter
from penstock.connectors.lake.table_files import TableLayout
from penstock.connectors.lake.table_schema import match_columns, partition_columns
from penstock.connectors.lake.table_sink import TableSink
from penstock.connectors.sink import Committer, SinkWriter, WriterContext
from penstock.core.durations import to_bytes
from penstock.core.typeinfo import RowTypeInfo


class DeltaSink(TableSink[TableLayout]):
    """Appends to a Delta table, which is created if it does not exist.

    ``schema`` is a ``pa.Schema`` or the type of a ROW.  Without it, the stream's declared type is taken if
    it is a ROW, else the schema of the table, which must then exist.  ``partition_by`` names columns; for
    an existing table it may be left out.  ``storage_options`` are those of the ``deltalake`` package
    (``AWS_ENDPOINT_URL`` and so on); data files are written through fsspec, for S3 with the same options, and
    with ``file_options`` for any other store.  ``properties`` are table properties for a new table.
    """

    package = ("deltalake", "delta")

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: pa.Schema | RowTypeInfo | None = None,
        *,
        partition_by: list[str] | tuple[str, ...] = (),
        storage_options: dict[str, str] | None = None,
        file_options: dict[str, Any] | None = None,
        properties: dict[str, str] | None = None,
        target_file_size: int | str = "128 mb",
        compression: str = "snappy",
    ) -> None:
        layout = TableLayout(None, (), to_bytes(target_file_size), compression)
        super().__init__(schema, tuple(partition_by), layout)
        self._address = TableAddress.of(path, storage_options, file_options)
        self._properties = dict(properties or {})

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return DeltaWriter(self._address, self._matched(), self._run_name, context)

    def create_committer(self) -> Committer:
        layout = self._matched()
        return DeltaCommitter(self._address, layout.schema, layout.partition_by, self._run)

    def _match(self) -> TableLayout:
        """How to write to the table as it is now."""
        uri = self._address.uri
        table = self._address.find() or self._create()
        check_writable(uri, table)
        there = arrow_schema(table)
        schema = match_columns(
            f"the Delta table {uri!r}", there if self._schema is None else self._schema, there
        )
        partition_by = tuple(table.metadata().partition_columns)
        partition_columns(f"the Delta table {uri!r}", schema, self._partition_by, partition_by)
        return replace(self._layout, schema=schema, partition_by=partition_by)

    def _create(self) -> Any:
        schema = self._schema_for(f"Delta table at {self._address.uri!r}")
        table = self._address.create(schema, self._partition_by, self._properties)
        self._address.sync_log(0)
        return table
