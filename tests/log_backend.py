"""A state backend that is no part of Penstock, written against ``penstock/state/backend.py`` alone.

It is a dictionary with a log.  Reads and writes go to the dictionary.  When something is frozen, what was
touched since the last time is appended to the log as one segment, which never changes: so a view is the
segments of then, and a checkpoint stores those that are not stored yet.  The log is never compacted.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.core.handles import Blob, NativeHandle
from penstock.core.keygroups import hash_values, key_groups
from penstock.core.pickling import dumps
from penstock.core.unpickling import loads_stored
from penstock.state.backend import (
    EntryShape,
    FileBackend,
    FileStorage,
    FrozenFiles,
    FrozenTable,
    StoredBlocks,
    Table,
    TableBlock,
    TimerQueue,
)
from penstock.state.schema import StateSchema
from penstock.state.timers import IndexedTimerQueue

TABLES = "tables.json"


class LogTable(Table):
    """A dictionary that notes what was touched."""

    def __init__(self, name: str, shape: EntryShape, sealed: Callable[[], tuple[bytes, ...]]) -> None:
        self.name = name
        self.shape = shape
        self.live: dict[Any, Any] = {}
        self.touched: dict[Any, None] = {}
        """Entries whose value is not that of the log, or may be changed by who got it."""
        self._sealed = sealed

    def get(self, entry: Any) -> Any:
        value = self.live.get(entry)
        if value is not None:
            self.touched[entry] = None
        return value

    def own(self, entry: Any) -> Any:
        return self.get(entry)

    def put(self, entry: Any, value: Any) -> None:
        self.live[entry] = value
        self.touched[entry] = None

    def remove(self, entry: Any) -> None:
        self.live.pop(entry, None)
        self.touched[entry] = None

    def __contains__(self, entry: Any) -> bool:
        return entry in self.live

    def entries(self) -> list[Any]:
        return list(self.live)

    def freeze(self) -> FrozenTable:
        return LogView(self.name, self.shape, self._sealed())


class LogView(FrozenTable):
    """A table as some segments have it."""

    def __init__(self, name: str, shape: EntryShape, segments: tuple[bytes, ...]) -> None:
        super().__init__(name, shape)
        self._segments = segments

    def items(self) -> Iterator[tuple[Any, Any]]:
        return iter(replayed(self._segments).get(self.name, {}).items())

    def release(self) -> None:
        self._segments = ()


def replayed(segments: Iterable[bytes]) -> dict[str, dict[Any, Any]]:
    """What tables hold after these changes."""
    found: dict[str, dict[Any, Any]] = {}
    for segment in segments:
        for name, entry, is_there, value in loads_stored(segment):
            if is_there:
                found.setdefault(name, {})[entry] = value
            else:
                found.setdefault(name, {}).pop(entry, None)
    return found


class LogBackend(FileBackend):
    """Tables in memory, with their log in a directory of its own."""

    name = "log"

    def __init__(self, directory: Path, max_parallelism: int, shares_files: bool = True) -> None:
        self._max_parallelism = max_parallelism
        self._shares_files = shares_files
        self._owner = uuid.uuid4().hex
        self._root = directory / f"log-{self._owner}"
        self._log = self._root / "segments"
        self._finish = weakref.finalize(self, shutil.rmtree, self._root, ignore_errors=True)
        self._segments: list[bytes] = []
        """Oldest first: in memory for views, in the directory for checkpoints."""
        self._tables: dict[str, LogTable] = {}
        self._checkpoints = 0
        self._known: dict[str, Blob] = {}

    def new_table(self, name: str, shape: EntryShape) -> Table:
        self._log.mkdir(parents=True, exist_ok=True)
        table = self._tables[name] = LogTable(name, shape, self._sealed)
        return table

    def timer_queue(self, table: Table) -> TimerQueue:
        return IndexedTimerQueue(table)

    def close(self) -> None:
        self._finish()

    def _sealed(self) -> tuple[bytes, ...]:
        """All segments, the last of them with what was touched since the one before."""
        changes = [
            (table.name, entry, entry in table.live, table.live.get(entry))
            for table in self._tables.values()
            for entry in table.touched
        ]
        if changes:
            self._segments.append(dumps(changes))
            (self._log / f"{len(self._segments):06}.log").write_bytes(self._segments[-1])
            for table in self._tables.values():
                table.touched.clear()
        return tuple(self._segments)

    def checkpoint(self, schemas: Mapping[str, StateSchema | None]) -> FrozenFiles | None:
        if not self._shares_files or not self._tables:
            return None
        self._sealed()
        self._checkpoints += 1
        target = self._root / f"checkpoint-{self._checkpoints}"
        shutil.copytree(self._log, target, copy_function=os.link)
        told = [
            (name, self._tables[name].shape.name, schema and schema.to_json())
            for name, schema in schemas.items()
        ]
        description = {TABLES: json.dumps(told).encode()}
        return FrozenFiles(self.name, target, _is_segment, description, True, self._owner, self._known)

    def read_files(self, handle: NativeHandle, storage: FileStorage, first: int, last: int) -> StoredBlocks:
        return LogBlocks(handle, storage, (first, last), self._max_parallelism)


class LogBlocks:
    """The entries of a checkpoint in a range of key groups."""

    def __init__(
        self, handle: NativeHandle, storage: FileStorage, groups: tuple[int, int], max_parallelism: int
    ) -> None:
        self._files = {name: storage.read_blob(blob) for name, blob in handle.files}
        self._first, self._last = groups
        self._max_parallelism = max_parallelism

    def tables(self) -> Iterator[TableBlock]:
        """One block for each table; an empty one still says what the state is."""
        found = replayed(data for name, data in sorted(self._files.items()) if _is_segment(name))
        for name, shape_name, stored in json.loads(self._files[TABLES]):
            shape, items = EntryShape[shape_name], list(found.get(name, {}).items())
            schema = None if stored is None else StateSchema.from_json(stored)
            hashes = hash_values([shape.key_of(entry) for entry, _ in items])
            groups = key_groups(hashes, self._max_parallelism).tolist()
            mine = [item for item, g in zip(items, groups, strict=True) if self._first <= g <= self._last]
            yield TableBlock(name, shape, [e for e, _ in mine], [v for _, v in mine], schema)

    def chunk_batches(self) -> Iterator[Any]:
        """Columnar state is not kept here."""
        return iter(())


def _is_segment(name: str) -> bool:
    return name.endswith(".log")
