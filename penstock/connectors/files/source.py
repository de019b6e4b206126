"""The file source: each file is a split, read from its start to its end by one subtask.

With ``monitor_continuously`` the driver lists the directories again and again, and every new file
becomes a split; which paths were seen is part of each snapshot.  Names with a leading ``.`` or ``_``
are left alone, below the given paths at any depth.

The trap: a file is read to where it ends *at that time*.  Bytes appended later are not seen, and a
half-written file is read half.  So write under a hidden name and rename when complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from penstock.connectors.files.formats import BulkFormat, FileFormat
from penstock.connectors.files.parquet import ParquetFormat
from penstock.connectors.files.storage import normalise, storage_of
from penstock.connectors.files.text import StreamFormat
from penstock.connectors.source import Source, Split, SplitEnumerator, SplitReader
from penstock.core.clock import Clock
from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import ConfigError

PathLike = str | os.PathLike[str]


class FileSource(Source):
    """Reads files. Made by a builder: ``FileSource.for_record_stream_format(...)...build()``."""

    read_in_order = True

    def __init__(self, file_format: FileFormat, paths: Iterable[PathLike], interval_ms: int | None) -> None:
        self._format = file_format
        self._paths = [normalise(path) for path in paths]
        self.discovery_interval_ms = interval_ms
        self.bounded = interval_ms is None
        if not self._paths:
            raise ConfigError("a file source needs at least one path")

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: PathLike) -> FileSourceBuilder:
        """Read record by record, such as lines: ``StreamFormat.text_line_format()``."""
        return FileSourceBuilder(stream_format, paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: PathLike) -> FileSourceBuilder:
        """Read blocks of records, such as Parquet."""
        return FileSourceBuilder(bulk_format, paths)

    @staticmethod
    def parquet(*paths: PathLike, columns: list[str] | None = None, filter: Any | None = None) -> FileSource:
        """All of the given Parquet files, as columnar batches; ``filter`` is a pyarrow expression."""
        return FileSource(ParquetFormat(columns, filter), paths, None)

    @staticmethod
    def text(*paths: PathLike, charset: str = "UTF-8") -> FileSource:
        """All lines of the given text files."""
        return FileSource(StreamFormat.text_line_format(charset), paths, None)

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return _FileEnumerator(self._paths)

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        return self._format.open(split.info, position)

    def produced_type(self) -> Any | None:
        return self._format.produced_type()


class FileSourceBuilder:
    """Settings of a file source."""

    def __init__(self, file_format: FileFormat, paths: Iterable[PathLike]) -> None:
        self._format = file_format
        self._paths = list(paths)
        self._interval_ms: int | None = None

    def monitor_continuously(self, discovery_interval: DurationLike) -> FileSourceBuilder:
        """Look for new files at this interval, for ever: the source becomes unbounded."""
        interval_ms = to_millis(discovery_interval)
        if interval_ms <= 0:
            raise ConfigError(f"the discovery interval is {interval_ms} ms; give 1 or more")
        self._interval_ms = interval_ms
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that are there at the start, and end. This is the default."""
        self._interval_ms = None
        return self

    def build(self) -> FileSource:
        """The source."""
        return FileSource(self._format, self._paths, self._interval_ms)


class _FileEnumerator(SplitEnumerator):
    """Lists files, in the order of their names."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths
        self._seen: set[str] = set()

    def discover(self) -> Iterable[Split]:
        fresh: list[Split] = []
        for root in self._paths:
            for path in storage_of(root).list_files(root):
                if path not in self._seen and not _is_hidden(path.removeprefix(root)):
                    self._seen.add(path)
                    fresh.append(Split(path, path))
        return fresh

    def snapshot(self) -> list[str]:
        return sorted(self._seen)

    def restore(self, state: Any) -> None:
        self._seen = set(state)


def _is_hidden(relative: str) -> bool:
    return any(part.startswith((".", "_")) for part in relative.split("/"))
