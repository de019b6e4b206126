"""Opening, creating and checking an Iceberg table, through its catalog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow.fs import FileSelector

from penstock.connectors.lake.table_files import DataStorage
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.optional import require
from penstock.storage.local import LocalStorage
from penstock.storage.places import normalise

_NARROW = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


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
