"""An Iceberg table as a sink: each checkpoint appends one snapshot, exactly once.

Writers put data files into the table's directory; nobody reads them until the committer adds them to the
table, with all other files of the epoch, in one change.

What a crashed attempt wrote and no checkpoint knows stays behind as orphan files, which the table's own
``remove_orphan_files`` (a procedure of Spark) removes.  A run in BATCH mode that fails removes its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.connectors.lake.iceberg.commit import IcebergCommitter
from penstock.connectors.lake.iceberg.table import IcebergAddress, arrow_schema, partition_names
from penstock.connectors.lake.iceberg.writer import IcebergWriter
from penstock.connectors.lake.table_files import TableLayout
from penstock.connectors.lake.table_schema import match_columns, partition_columns
from penstock.connectors.lake.table_sink import TableSink
from penstock.connectors.sink import Committer, SinkWriter, WriterContext
from penstock.core.durations import to_bytes
from penstock.core.errors import ConfigError
from penstock.core.typeinfo import RowTypeInfo


class IcebergSink(TableSink[tuple[TableLayout, Any, str]]):
    """Appends to an Iceberg table, which is created if it does not exist.

    ``table`` is ``"namespace.name"``.  ``catalog`` names a catalog of pyiceberg's configuration, or
    ``properties`` say what it is (``type``, ``uri``, ``warehouse``, ...).  ``schema`` is a ``pa.Schema`` or
    the type of a ROW.  Without it, the stream's declared type is taken if it is a ROW, else the schema of the
    table, which must then exist.  ``partition_by`` names columns; for an existing table it may be left out.
    """

    package = ("pyiceberg", "iceberg")

    def __init__(
        self,
        table: str,
        schema: pa.Schema | RowTypeInfo | None = None,
        *,
        catalog: str = "default",
        properties: dict[str, str] | None = None,
        partition_by: list[str] | tuple[str, ...] = (),
        target_file_size: int | str = "128 mb",
        compression: str = "zstd",
    ) -> None:
        if not table.rpartition(".")[0]:
            raise ConfigError(f"an Iceberg table has a namespace: 'sales.orders', not {table!r}")
        size = to_bytes(target_file_size)
        layout = TableLayout(None, (), size, compression, partitions_in_files=True)
        super().__init__(schema, tuple(partition_by), layout)
        self._address = IcebergAddress(table, catalog, dict(properties or {}))

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return IcebergWriter(*self._matched(), self._run_name, context)

    def create_committer(self) -> Committer:
        layout, _, _ = self._matched()
        return IcebergCommitter(self._address, layout.schema, layout.partition_by, self._run)

    def _match(self) -> tuple[TableLayout, Any, str]:
        """How to write to the table as it is now: what the files are like, its client, its location."""
        table = self._address.find() or self._create()
        what = self._address.describe()
        there = arrow_schema(table)
        schema = match_columns(what, there if self._schema is None else self._schema, there)
        partition_by = partition_names(self._address, table)
        partition_columns(what, schema, self._partition_by, partition_by)
        layout = replace(self._layout, schema=schema, partition_by=partition_by)
        return layout, table.io, table.location()

    def _create(self) -> Any:
        schema = self._schema_for(self._address.describe().removeprefix("the "))
        return self._address.create(schema, self._partition_by)
