"""What lies in a checkpoint of a database: its files, and a description of the tables in them.

Files with rows never change and are stored once for all checkpoints of a job; the small rest (which of them
belong together, and what the tables are) goes with each checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.core.errors import CorruptSnapshotError
from penstock.core.handles import NativeHandle
from penstock.core.own_files import make_directory, write_file
from penstock.state.frozen_files import FileStorage
from penstock.state.rocks import values
from penstock.state.schema import StateSchema
from penstock.state.table import EntryShape

BACKEND = "rocksdb"
TABLES = "tables.json"
"""Describes the tables; lies beside RocksDB's files in a checkpoint."""
_FORMAT = 2
"""Of the rows: 1 had no data format."""


@dataclass(frozen=True, slots=True)
class TableInfo:
    """One table of a checkpoint."""

    id: int
    name: str
    shape: EntryShape
    schema: StateSchema | None
    elements: bool = False
    """Whether it holds the elements of the containers of the table of that name."""


def is_rows(name: str) -> bool:
    """Whether a file holds rows: written once, never changed, and never followed by another of its name."""
    return name.endswith(".sst")


def describe(tables: Iterable[TableInfo]) -> bytes:
    """The bytes of :data:`TABLES`."""
    found = [
        {
            "id": table.id,
            "name": table.name,
            "shape": table.shape.name,
            "state": None if table.schema is None else table.schema.to_json(),
            "elements": table.elements,
        }
        for table in tables
    ]
    return json.dumps({"format": _FORMAT, "tables": found}, separators=(",", ":")).encode()


def described(handle: NativeHandle, storage: FileStorage) -> list[TableInfo]:
    """The tables of a checkpoint."""
    blob = dict(handle.files).get(TABLES)
    if handle.backend != BACKEND or blob is None:
        raise CorruptSnapshotError(f"files of backend {handle.backend!r} are not those of a RocksDB state")
    try:
        found = json.loads(storage.read_blob(blob))
        if found["format"] not in (1, _FORMAT):
            raise ValueError(f"format {found['format']}")
        return [_table(each) for each in found["tables"]]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptSnapshotError(f"the list of tables in a checkpoint is unreadable: {error!r}") from error


def _table(found: dict[str, Any]) -> TableInfo:
    state = found["state"]
    schema = None if state is None else StateSchema.from_json(state)
    shape = EntryShape[found["shape"]]
    return TableInfo(int(found["id"]), str(found["name"]), shape, schema, bool(found["elements"]))


def download(handle: NativeHandle, storage: FileStorage, directory: Path) -> None:
    """Lay the files of a checkpoint into ``directory``, which is made."""
    values.guard()
    make_directory(directory)
    for name, blob in handle.files:
        if name == TABLES:
            continue
        if Path(name).name != name:
            raise CorruptSnapshotError(f"a checkpoint names a file outside of its directory: {name!r}")
        write_file(directory / name, storage.read_blob(blob))
