"""Opening, creating and checking a Delta table, through the ``deltalake`` package."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.core.discreet import discreet
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.optional import require
from penstock.storage.contract import Storage
from penstock.storage.local import LocalStorage
from penstock.storage.places import is_url, normalise
from penstock.storage.remote import RemoteStorage

_COLUMN_RULES = ("delta.generationExpression", "delta.invariants")
_DECORATION = re.compile(r"\x1b\[\d+m|↳")
_TABLE_RULES = re.compile(r"delta\.constraints\..*|delta\.columnMapping\.mode")


@dataclass(frozen=True, slots=True)
class TableAddress:
    """Where a table is and how to get there. Options may hold secrets, so they are never shown."""

    uri: str
    options: dict[str, str] = field(default_factory=dict, repr=False)
    """For the ``deltalake`` package, which reads and writes the log."""
    file_options: dict[str, Any] = field(default_factory=dict, repr=False)
    """For the fsspec package that writes data files, beside what is known from ``options``."""

    def __repr__(self) -> str:
        return f"TableAddress({discreet(self.uri)!r})"

    @staticmethod
    def of(path: Any, options: dict[str, str] | None, file_options: dict[str, Any] | None) -> TableAddress:
        """The address of a local path or URL."""
        return TableAddress(normalise(path), dict(options or {}), dict(file_options or {}))

    def find(self, version: int | None = None) -> Any | None:
        """The table, or ``None`` if there is none."""
        deltalake = require("deltalake", "delta")
        try:
            return deltalake.DeltaTable(self.uri, version, self.options)
        except deltalake.exceptions.TableNotFoundError:
            return None
        except (OSError, ValueError, deltalake.exceptions.DeltaError) as e:
            raise ConnectorError(f"the Delta table {self.uri!r} cannot be opened: {_one_line(e)}") from None

    def open(self, version: int | None = None) -> Any:
        """The table; a ``ConnectorError`` if there is none."""
        found = self.find(version)
        if found is None:
            raise ConnectorError(f"there is no Delta table at {self.uri!r}; check the path")
        return found

    def create(self, schema: Any, partition_by: tuple[str, ...], properties: dict[str, str]) -> Any:
        """A new empty table, or the one that somebody else has just made."""
        deltalake = require("deltalake", "delta")
        try:
            return deltalake.DeltaTable.create(
                self.uri,
                deltalake.Schema.from_arrow(schema),
                mode="ignore",
                partition_by=list(partition_by),
                configuration=properties or None,
                storage_options=self.options or None,
            )
        except Exception as e:  # deltalake raises plain exceptions, by the kind of trouble
            raise ConnectorError(
                f"the Delta table {self.uri!r} cannot be created: {_one_line(e)}. Check that the driver "
                "may write there and that Delta has all of the columns' types (it has no unsigned integers)."
            ) from None

    def sync_log(self, first: int) -> None:
        """Make entries of the log durable, from version ``first`` on. Object stores need no such thing."""
        if is_url(self.uri):
            return
        log = Path(self.uri) / "_delta_log"
        entries = [path for path in log.glob("*.json") if path.stem.isdigit() and int(path.stem) >= first]
        LocalStorage().sync_files([str(path) for path in entries])

    def storage(self) -> Storage:
        """Where data files are written.

        Not deltalake's own file system: it keeps Python's lock while it waits for the network, and with
        it every other thread of the slot.
        """
        if not is_url(self.uri):
            return LocalStorage()
        options = _s3_options(self.options) if self.uri.startswith(("s3://", "s3a://")) else {}
        return RemoteStorage(self.uri, {**options, **self.file_options})


def arrow_schema(table: Any) -> Any:
    """The table's schema in Arrow's terms, as its data files hold it."""
    return pa.schema(table.schema().to_arrow())


def check_writable(uri: str, table: Any) -> None:
    """Refuse tables whose rules only the engine that made them can keep."""
    rules = [
        name
        for name, value in table.metadata().configuration.items()
        if _TABLE_RULES.fullmatch(name) and value != "none"
    ]
    for column in table.schema().fields:
        rules += [name for name in column.metadata if name in _COLUMN_RULES]
    if rules:
        raise ConfigError(
            f"the Delta table {uri!r} has rules that DeltaSink cannot keep "
            f"({', '.join(sorted(set(rules)))}); write to a table without them and let Spark merge from there"
        )


def _s3_options(options: dict[str, str]) -> dict[str, Any]:
    """Options of deltalake for S3, as fsspec's package for it calls them."""
    given = {name.upper().removeprefix("AWS_"): value for name, value in options.items()}
    client = {
        name: given[key]
        for key, name in (("ENDPOINT_URL", "endpoint_url"), ("REGION", "region_name"))
        if key in given
    }
    found: dict[str, Any] = {
        name: given[key]
        for key, name in (
            ("ACCESS_KEY_ID", "key"),
            ("SECRET_ACCESS_KEY", "secret"),
            ("SESSION_TOKEN", "token"),
        )
        if key in given
    }
    return {**found, "client_kwargs": client} if client else found


def _one_line(error: Exception) -> str:
    return " ".join(_DECORATION.sub(" ", str(error)).split())
