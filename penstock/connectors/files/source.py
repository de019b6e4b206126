"""The file source: each file, or part of a large one, is a split, read from its start to its end.

With ``monitor_continuously`` the driver lists the directories again and again, and every new file
becomes a split; which paths were seen is part of each snapshot.

The trap: a file is read to where it ends *at that time*.  Bytes appended later are not seen, and a
half-written file is read half.  So write under a hidden name and rename when complete.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.connectors.files.column_types import schema_of
from penstock.connectors.files.csv import CsvDialect, CsvFormat
from penstock.connectors.files.discovery import (
    FileEnumerator,
    FileEnumeratorProvider,
    FileSplitAssignerProvider,
    root_of,
)
from penstock.connectors.files.formats import BulkFormat, FileFormat, FileRange
from penstock.connectors.files.json_lines import JsonLinesFormat
from penstock.connectors.files.lines import StreamFormat
from penstock.connectors.files.orc import OrcFormat
from penstock.connectors.files.parquet import ParquetFormat
from penstock.connectors.files.partitions import PartitionColumns
from penstock.connectors.files.unreadable import OnMissing, open_found
from penstock.connectors.source import Bound, Source, Split, SplitEnumerator, SplitReader
from penstock.core.clock import Clock
from penstock.core.durations import DurationLike, to_bytes, to_millis
from penstock.core.errors import ConfigError
from penstock.core.typeinfo import RowTypeInfo
from penstock.formats.bad_records import BadRecords, ErrorPolicy, OnError
from penstock.storage.contract import MissingFileError
from penstock.storage.places import normalise, storage_of

PathLike = str | os.PathLike[str]
Columns: TypeAlias = pa.Schema | Sequence[str]
Schema: TypeAlias = pa.Schema | RowTypeInfo

SPLIT_BYTES = 128 << 20
"""Files of at least twice this size are divided, where the format allows."""


@dataclass(frozen=True, slots=True)
class FileSourceSettings:
    """Everything that can be chosen."""

    interval_ms: int | None = None
    split_bytes: int = SPLIT_BYTES
    partitions: PartitionColumns | None = None
    policy: ErrorPolicy = field(default_factory=ErrorPolicy)
    on_missing: OnMissing = OnMissing.ERROR


class FileSource(Source):
    """Reads files: single ones, directories, globs.

    Made by a builder, ``FileSource.for_record_stream_format(...)...build()``, or by a short form such as
    ``FileSource.parquet(...)``.  ``partitions`` are columns that come from directories such as
    ``country=DE/``: names, or a ``pa.Schema`` where they are not text.
    """

    read_in_order = True

    def __init__(
        self, file_format: FileFormat, paths: Iterable[PathLike], settings: FileSourceSettings
    ) -> None:
        self._format = file_format
        self._paths = [normalise(path) for path in paths]
        self._settings = settings
        self.discovery_interval_ms = settings.interval_ms
        self.bounded = settings.interval_ms is None
        self.diverts_to = settings.policy.tag
        if not self._paths:
            raise ConfigError("a file source needs at least one path")

    @staticmethod
    def for_record_stream_format(stream_format: FileFormat, *paths: PathLike) -> FileSourceBuilder:
        """Read record by record, such as lines: ``StreamFormat.text_line_format()``."""
        return FileSourceBuilder(stream_format, paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: PathLike) -> FileSourceBuilder:
        """Read blocks of records, such as Parquet."""
        return FileSourceBuilder(bulk_format, paths)

    @staticmethod
    def for_record_file_format(record_format: FileFormat, *paths: PathLike) -> FileSourceBuilder:
        """The older name of :meth:`for_record_stream_format`."""
        return FileSourceBuilder(record_format, paths)

    @staticmethod
    def parquet(
        *paths: PathLike,
        columns: list[str] | None = None,
        filter: Any | None = None,
        partitions: Columns | None = None,
    ) -> FileSource:
        """All of the given Parquet files, as columnar batches; ``filter`` is a pyarrow expression."""
        builder = FileSourceBuilder(ParquetFormat(_in_files(columns, partitions), filter), paths)
        return builder.with_partition_columns(partitions or ()).build()

    @staticmethod
    def orc(
        *paths: PathLike, columns: list[str] | None = None, partitions: Columns | None = None
    ) -> FileSource:
        """All of the given ORC files, as columnar batches."""
        builder = FileSourceBuilder(OrcFormat(_in_files(columns, partitions)), paths)
        return builder.with_partition_columns(partitions or ()).build()

    @staticmethod
    def csv(
        *paths: PathLike,
        schema: Schema,
        partitions: Columns | None = None,
        on_error: OnError | str = OnError.FAIL,
        divert_to: Any = None,
        **dialect: Any,
    ) -> FileSource:
        """All of the given CSV files, as columnar batches; ``dialect`` is that of ``CsvDialect``."""
        builder = FileSourceBuilder(CsvFormat(arrow_schema(schema), CsvDialect(**dialect)), paths)
        return builder.with_partition_columns(partitions or ()).on_error(on_error, divert_to).build()

    @staticmethod
    def json_lines(
        *paths: PathLike,
        schema: Schema | None = None,
        partitions: Columns | None = None,
        on_error: OnError | str = OnError.FAIL,
        divert_to: Any = None,
    ) -> FileSource:
        """All of the given files of JSON lines, as columnar batches; without a schema, as dictionaries."""
        known = None if schema is None else arrow_schema(schema)
        builder = FileSourceBuilder(JsonLinesFormat(known), paths)
        return builder.with_partition_columns(partitions or ()).on_error(on_error, divert_to).build()

    @staticmethod
    def text(
        *paths: PathLike,
        charset: str = "UTF-8",
        on_error: OnError | str = OnError.FAIL,
        divert_to: Any = None,
    ) -> FileSource:
        """All lines of the given text files."""
        builder = FileSourceBuilder(StreamFormat.text_line_format(charset), paths)
        return builder.on_error(on_error, divert_to).build()

    def check(self) -> None:
        for path in self._paths:
            base = root_of(path)
            if not storage_of(base).exists(base):
                raise MissingFileError(base)

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return FileEnumerator(self._paths, self._format, self._settings.split_bytes, self.bounded)

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        # Snapshots of older versions hold the path alone.
        part = split.info if isinstance(split.info, FileRange) else FileRange(split.info)
        bad = BadRecords(self._settings.policy, part.path, split.id, f"{part.path!r}, byte")
        reader = open_found(
            lambda: self._format.open_range(part, position, bad),
            position,
            self._settings.on_missing,
            'on_missing("skip") of FileSource\'s builder',
        )
        partitions = self._settings.partitions
        return reader if partitions is None else partitions.open(reader, part.path)

    def narrowed(self, columns: Collection[str]) -> FileSource:
        found = copy(self)
        found._format = self._format.narrowed(columns)
        return found

    def within(self, bounds: Sequence[Bound]) -> FileSource:
        found = copy(self)
        found._format = self._format.within(bounds)
        return found

    def produced_type(self) -> Any | None:
        return None if self._settings.partitions is not None else self._format.produced_type()


class FileSourceBuilder:
    """Settings of a file source."""

    def __init__(self, file_format: FileFormat, paths: Iterable[PathLike]) -> None:
        self._format = file_format
        self._paths = [_one_path(path) for path in paths]
        self._settings = FileSourceSettings()

    def monitor_continuously(self, discovery_interval: DurationLike) -> FileSourceBuilder:
        """Look for new files at this interval, for ever: the source becomes unbounded."""
        interval_ms = to_millis(discovery_interval)
        if interval_ms <= 0:
            raise ConfigError(f"the discovery interval is {interval_ms} ms; give 1 or more")
        return self._with(interval_ms=interval_ms)

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that are there at the start, and end. This is the default."""
        return self._with(interval_ms=None)

    def with_split_size(self, size: int | str) -> FileSourceBuilder:
        """About how much of a large file one subtask reads at a time, ``"128 mb"`` unless set."""
        split_bytes = to_bytes(size)
        if split_bytes <= 0:
            raise ConfigError(f"parts of {split_bytes} bytes are too small; give 1 or more")
        return self._with(split_bytes=split_bytes)

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Whether large files are divided."""
        divided = file_enumerator is FileEnumeratorProvider.SPLITTABLE
        return self._with(split_bytes=SPLIT_BYTES if divided else sys.maxsize)

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        """Accepted for ported programs; there is one way to deal splits."""
        return self

    def with_partition_columns(self, columns: Columns) -> FileSourceBuilder:
        """Columns that come from directories such as ``country=DE/``; those the files have themselves win."""
        return self._with(partitions=PartitionColumns(columns) if len(columns) else None)

    def on_error(self, on_error: OnError | str, divert_to: Any = None) -> FileSourceBuilder:
        """What to do with lines that cannot be decoded; ``divert_to`` is the ``OutputTag`` to divert to."""
        return self._with(policy=ErrorPolicy.of(on_error, divert_to))

    def on_missing(self, on_missing: OnMissing | str) -> FileSourceBuilder:
        """What to do with files that are gone when they are to be read: ``"error"``, or ``"skip"`` them."""
        return self._with(on_missing=OnMissing(on_missing))

    def build(self) -> FileSource:
        """The source."""
        return FileSource(self._format, self._paths, self._settings)

    def _with(self, **changes: Any) -> FileSourceBuilder:
        self._settings = replace(self._settings, **changes)
        return self


def _in_files(columns: list[str] | None, partitions: Columns | None) -> list[str] | None:
    """Without columns that come from directories; these are always delivered, behind the others."""
    if columns is None or partitions is None:
        return columns
    names = PartitionColumns(partitions).schema.names
    return [name for name in columns if name not in names]


def arrow_schema(schema: Schema) -> pa.Schema:
    """The schema in Arrow's terms."""
    return schema_of(schema) if isinstance(schema, RowTypeInfo) else schema


def _one_path(path: Any) -> PathLike:
    if isinstance(path, (str, os.PathLike)):
        return path
    raise ConfigError(f"a path is wanted, not {path!r:.80}: give several as several arguments, *paths")
