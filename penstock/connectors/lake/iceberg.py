"""An Iceberg table as a sink: each checkpoint appends one snapshot, exactly once, through ``pyiceberg``.

Writers put data files into the table's directory; nobody reads them until the committer adds them to
the table, with all other files of the epoch, in one change.

What a crashed attempt wrote and no checkpoint knows stays behind as orphan files, which the table's own
``remove_orphan_files`` (a procedure of Spark) removes.  A run in BATCH mode that fails removes its own.

The committer makes one transaction of the table per epoch, known again by a property.  Beside the files, a
transaction sets a property of the table: for every subtask of this start of the job, the epoch up to which
its output is in the table.  Files and property are one change of the table's metadata, so they are there
together or not at all.  A property stays when old snapshots are expired, which is why the note is not only in
the snapshot's summary.  Design note 015 has the argument.

Whoever else commits in between, also another driver with the same epoch, moves the table's head, and our
change is refused: then we look again.  pyiceberg would repeat the append by itself, without looking;
that is turned off for our own copy of the table's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
from pyarrow.fs import FileSelector

from penstock.connectors.lake.table_files import DataFile, DataStorage, TableFilesWriter, TableLayout
from penstock.connectors.lake.table_sink import (
    TableCommitter,
    TableConflict,
    TableSink,
    match_columns,
    partition_columns,
)
from penstock.connectors.sink import Committer, SinkWriter, WriterContext
from penstock.core.durations import to_bytes
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.ids import Epoch
from penstock.core.optional import require
from penstock.core.typeinfo import RowTypeInfo
from penstock.storage.local import LocalStorage
from penstock.storage.places import normalise

_NARROW = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
_NO_RETRIES = {"commit.retry.num-retries": "0"}


@dataclass(frozen=True, slots=True)
class IcebergAddress:
    """A table of a catalog. Properties may hold secrets, so they are never shown."""

    table: str
    """Its name with the namespace: ``"sales.orders"``."""
    catalog: str = "default"
    """The catalog's name, as pyiceberg's own configuration may know it."""
    properties: dict[str, str] = field(default_factory=dict, repr=False)

    def describe(self) -> str:
        """For messages."""
        return f"the Iceberg table {self.table!r}"

    def find(self) -> Any | None:
        """The table as it is now, or ``None`` if there is none."""
        missing = require("pyiceberg.exceptions", "iceberg").NoSuchTableError
        catalog = self._open_catalog()
        try:
            return catalog.load_table(self.table)
        except missing:
            return None

    def open(self) -> Any:
        """The table as it is now; a ``ConnectorError`` if there is none."""
        found = self.find()
        if found is None:
            raise ConnectorError(
                f"there is no {self.describe().removeprefix('the ')} in its catalog any more"
            )
        return found

    def create(self, schema: pa.Schema, partition_by: tuple[str, ...]) -> Any:
        """A new empty table, or the one that somebody else has just made."""
        errors = require("pyiceberg.exceptions", "iceberg")
        catalog = self._open_catalog()
        try:
            catalog.create_namespace_if_not_exists(self.table.rpartition(".")[0])
            with (
                catalog.create_table_transaction(self.table, schema) as creation,
                creation.update_spec() as spec,
            ):
                for name in partition_by:
                    spec.add_identity(name)
        except (errors.TableAlreadyExistsError, errors.CommitFailedException):
            return self.open()
        except Exception as e:  # whatever the catalog's own client raises
            raise ConnectorError(f"{self.describe()} cannot be created: {e}") from None
        return self.open()

    def _open_catalog(self) -> Any:
        try:
            return require("pyiceberg.catalog", "iceberg").load_catalog(self.catalog, **self.properties)
        except ConfigError:
            raise
        except Exception as e:  # whatever the catalog's own client raises
            raise ConnectorError(
                f"the Iceberg catalog {self.catalog!r} cannot be opened: {type(e).__name__}. Check its "
                "properties; they are those of pyiceberg, such as type, uri and warehouse."
            ) from None


class FileIOStorage:
    """A remote store through the table's own client, which the catalog has set up."""

    def __init__(self, io: Any) -> None:
        self._io = io

    def create(self, path: str) -> BinaryIO:
        """Open a new file for writing bytes."""
        stream: BinaryIO = self._io.new_output(path).create()
        return stream

    def seal(self, stream: BinaryIO) -> None:
        """Close the file; it is durable then."""
        stream.close()

    def sync_directories(self, paths: Iterable[str]) -> None:
        """Nothing to do: an object is durable when it is closed."""

    def list_files(self, path: str) -> list[str]:
        """The files below a directory; none if the client is one that cannot tell."""
        if not hasattr(self._io, "fs_by_scheme"):
            return []
        scheme, host, inner = self._io.parse_location(path)
        chosen = FileSelector(inner, allow_not_found=True, recursive=True)
        found = self._io.fs_by_scheme(scheme, host).get_file_info(chosen)
        return [f"{path}{info.path.removeprefix(inner)}" for info in found if info.is_file]

    def remove(self, path: str) -> None:
        """Delete a file; it need not exist."""
        self._io.delete(path)


def data_storage(io: Any, location: str) -> tuple[DataStorage, str]:
    """Where data files of a table are written: the storage and the directory's name there."""
    data = f"{location.rstrip('/')}/data"
    if location.startswith(("file:", "/")):
        return LocalStorage(), normalise(data)
    return FileIOStorage(io), data


def arrow_schema(table: Any) -> pa.Schema:
    """The table's schema in Arrow's terms, as its data files hold it."""
    convert = require("pyiceberg.io.pyarrow", "iceberg").schema_to_pyarrow
    wide = convert(table.schema(), include_field_ids=False)
    return pa.schema([column.with_type(_NARROW.get(column.type, column.type)) for column in wide])


def partition_names(address: IcebergAddress, table: Any) -> tuple[str, ...]:
    """The columns that the table is partitioned by; a ``ConfigError`` if it is by more than their values."""
    names = []
    for part in table.spec().fields:
        if str(part.transform) != "identity":
            raise ConfigError(
                f"{address.describe()} is partitioned by {part.transform} of a column; IcebergSink writes "
                "tables that are partitioned by the values of columns, or not at all"
            )
        names.append(table.schema().find_column_name(part.source_id))
    return tuple(names)


class IcebergCommittable(NamedTuple):
    """What one subtask wrote in one epoch: all of it is committed, or none."""

    app_id: str
    """Whose the files are: of this sink, job, and start of the job."""
    subtask: int
    epoch: int
    """Grows from one committable of a subtask to the next."""
    paths: tuple[str, ...]


class IcebergWriter(TableFilesWriter):
    """Writes data files of one subtask."""

    def __init__(self, layout: TableLayout, io: Any, location: str, run: str, context: WriterContext) -> None:
        super().__init__(layout, *data_storage(io, location), run, context)
        self._app_id = f"{context.job_name}/{context.sink_id}/{run}"
        self._subtask = context.subtask
        self._data = f"{location.rstrip('/')}/data"

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        files = self.take()
        for done in files:
            _check_partition(done, self._layout.partition_by)
        paths = tuple(f"{self._data}/{done.path}" for done in files)
        return [IcebergCommittable(self._app_id, self._subtask, int(epoch), paths)] if paths else []


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


class IcebergCommitter(TableCommitter[IcebergAddress]):
    """Appends to the table."""

    def is_noted(self, table: Any, item: IcebergCommittable) -> bool:
        return _notes(table, item).get(str(item.subtask), -1) >= item.epoch

    def append(self, table: Any, items: list[IcebergCommittable]) -> None:
        self._check(table)
        notes: dict[str, dict[str, int]] = {}
        for item in items:
            noted = notes.setdefault(_key(item), _notes(table, item))
            noted[str(item.subtask)] = item.epoch
        properties = {**table.metadata.properties, **_NO_RETRIES}
        table.metadata = table.metadata.model_copy(update={"properties": properties})
        transaction = table.transaction()
        try:
            transaction.add_files(
                [path for item in items for path in item.paths],
                snapshot_properties={
                    "penstock.app-id": items[0].app_id,
                    "penstock.epoch": str(items[0].epoch),
                },
                check_duplicate_files=False,
            )
        except FileNotFoundError as e:
            raise ConnectorError(
                f"cannot commit to {self._address.describe()}: {e}. Either orphan files were removed before "
                "they were committed, or the driver does not see the storage that the executors write to, or "
                "the snapshot is of a sink that wrote to another table: then give this one another uid()."
            ) from None
        transaction.set_properties({key: json.dumps(noted) for key, noted in notes.items()})
        try:
            transaction.commit_transaction()
        except require("pyiceberg.exceptions", "iceberg").CommitFailedException as e:
            raise TableConflict from e

    def place(self) -> tuple[DataStorage, str]:
        table = self._address.open()
        return data_storage(table.io, table.location())

    def _check(self, table: Any) -> None:
        """The table may have changed since the job started."""
        partition_by = partition_names(self._address, table)
        self.check_layout(self._address.describe(), arrow_schema(table), partition_by)


def _key(item: IcebergCommittable) -> str:
    return f"penstock.committed.{item.app_id}"


def _notes(table: Any, item: IcebergCommittable) -> dict[str, int]:
    found: dict[str, int] = json.loads(table.properties.get(_key(item), "{}"))
    return found


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
