"""An Iceberg table as a sink: each checkpoint appends one snapshot, exactly once.

Writers put data files into the table's directory; nobody reads them until the committer adds them to the
table, with all other files of the epoch, in one change.

What a crashed attempt wrote and no checkpoint knows stays behind as orphan files, which the table's own
``remove_orphan_files`` (a procedure of Spark) removes.
"""

from __future__ import annotations

import copy
import uuid
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.connectors.files.parquet_writer import schema_of
from penstock.connectors.files.table_files import TableLayout
from penstock.connectors.files.table_schema import match_columns, partition_columns
from penstock.connectors.iceberg.commit import IcebergCommitter
from penstock.connectors.iceberg.table import IcebergAddress, arrow_schema, partition_names
from penstock.connectors.iceberg.writer import IcebergWriter
from penstock.connectors.sink import Committer, SinkWriter, TypedSink, WriterContext
from penstock.core.durations import to_bytes
from penstock.core.errors import ConfigError
from penstock.core.optional import require
from penstock.core.typeinfo import RowTypeInfo, TypeInformation


class IcebergSink(TypedSink):
    """Appends to an Iceberg table, which is created if it does not exist.

    ``table`` is ``"namespace.name"``.  ``catalog`` names a catalog of pyiceberg's configuration, or
    ``properties`` say what it is (``type``, ``uri``, ``warehouse``, ...).  ``schema`` is a ``pa.Schema`` or
    the type of a ROW.  Without it, the stream's declared type is taken if it is a ROW, else the schema of the
    table, which must then exist.  ``partition_by`` names columns; for an existing table it may be left out.
    """

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
        self._address = IcebergAddress(table, catalog, dict(properties or {}))
        self._schema = schema_of(schema) if isinstance(schema, RowTypeInfo) else schema
        self._partition_by = tuple(partition_by)
        self._layout = TableLayout(
            None, (), to_bytes(target_file_size), compression, partitions_in_files=True
        )
        self._ready: tuple[TableLayout, Any, str] | None = None
        self._run = ""

    def typed(self, type_info: TypeInformation | None) -> IcebergSink:
        """The same sink for a stream of this type, which gives the schema if none was given."""
        if self._schema is not None or not isinstance(type_info, RowTypeInfo):
            return self
        typed = copy.copy(self)
        typed._schema = schema_of(type_info)
        return typed

    def check(self) -> None:
        """Create the table if there is none, else see that the records fit it."""
        require("pyiceberg", "iceberg")
        self._ready = self._match()
        # Epochs of a job that starts from nothing begin at 1 again, and must not look committed.
        self._run = uuid.uuid4().hex[:16]

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return IcebergWriter(*self._matched(), self._run or uuid.uuid4().hex[:16], context)

    def create_committer(self) -> Committer:
        layout, _, _ = self._matched()
        return IcebergCommitter(self._address, layout.schema, layout.partition_by)

    def _matched(self) -> tuple[TableLayout, Any, str]:
        if self._ready is None:
            self._ready = self._match()
        return self._ready

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
        if self._schema is None:
            raise ConfigError(
                f"there is no {self._address.describe().removeprefix('the ')}, and IcebergSink does not know "
                "the records' columns; give it a schema, or declare the stream's type as Types.ROW_NAMED"
            )
        unknown = [name for name in self._partition_by if name not in self._schema.names]
        if unknown:
            raise ConfigError(f"partition_by names {', '.join(unknown)}, which is not among the columns")
        return self._address.create(self._schema, self._partition_by)
