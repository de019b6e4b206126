"""The file sink: exactly-once files.

Records go into hidden part files; at each barrier these are closed and become part of the snapshot;
when it is published they are renamed to their final names, all records of the epoch and nothing else.
Readers that ignore hidden names see complete files only.  Without checkpointing, all files appear at
the end of the input.

The trap: two running jobs of the same name must not write with the same sink into one directory, since
a restart removes what earlier attempts of that job and sink left behind.

The columns of the short forms (``FileSink.parquet`` and its like) may be known when the sink is made, or only
when it is put on a typed stream; either way the same settings come out of here.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.connectors.files.buckets import (
    BasePathBuckets,
    BucketAssigner,
    BucketsByFunction,
    PartitionBuckets,
)
from penstock.connectors.files.column_parts import (
    CsvParts,
    GzipParts,
    JsonLinesParts,
    LateParts,
    OrcParts,
    compactor_of,
)
from penstock.connectors.files.column_types import schema_of
from penstock.connectors.files.compact import FileCompactor, FileCompactStrategy
from penstock.connectors.files.csv import CsvDialect
from penstock.connectors.files.manifest import Manifest, place_of, refuse_unlisted
from penstock.connectors.files.parquet_writer import ParquetWriterFactory
from penstock.connectors.files.part_files import OutputFileConfig, RollingPolicy
from penstock.connectors.files.parts import EncodedParts, PartFormat
from penstock.connectors.files.writer import FileCommitter, FileSinkSettings, FileWriter
from penstock.connectors.sink import Committer, SinkWriter, TypedSink, WriterContext
from penstock.core.discreet import discreet
from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.typeinfo import RowTypeInfo, TypeInformation
from penstock.storage.places import join, normalise, storage_of

PathLike = str | os.PathLike[str]
Schema: TypeAlias = pa.Schema | RowTypeInfo


class ColumnKind(Enum):
    """The formats with columns; the value is the suffix of their files."""

    PARQUET = ".parquet"
    ORC = ".orc"
    CSV = ".csv"
    JSON_LINES = ".json"


_MAKERS: dict[ColumnKind, Any] = {
    ColumnKind.PARQUET: ParquetWriterFactory,
    ColumnKind.ORC: OrcParts,
    ColumnKind.CSV: CsvParts,
    ColumnKind.JSON_LINES: JsonLinesParts,
}


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """A format, its options, and the columns that become directories."""

    kind: ColumnKind
    options: dict[str, Any]
    partition_by: tuple[str, ...] = ()
    gzip: bool = False

    @property
    def suffix(self) -> str:
        """How names of files end."""
        return self.kind.value + (".gz" if self.gzip else "")

    @property
    def strict_decimals(self) -> bool:
        """Whether decimals are refused that the scale of their column would round."""
        dialect = self.options.get("dialect")
        return bool(self.options.get("strict_decimals", dialect is None or dialect.strict_decimals))

    def parts(self, schema: pa.Schema | None) -> PartFormat:
        """The format of files for records of ``schema``, or of whatever columns come."""
        if schema is None:
            return LateParts(self._make)
        left = [column for column in schema if column.name not in self.partition_by]
        unknown = [name for name in self.partition_by if name not in schema.names]
        if unknown or not left:
            raise ConfigError(
                f"cannot partition by {', '.join(self.partition_by)}: the columns are "
                f"{', '.join(schema.names)}, and at least one must be left for the files"
            )
        return self._make(pa.schema(left))

    def _make(self, schema: pa.Schema) -> PartFormat:
        made: PartFormat = _MAKERS[self.kind](schema, **self.options)
        return GzipParts(made) if self.gzip else made

    def apply(self, settings: FileSinkSettings, schema: pa.Schema | None) -> FileSinkSettings:
        """The settings with this shape."""
        settings = replace(settings, part_format=self.parts(schema))
        if not self.partition_by:
            return settings
        return replace(settings, buckets=PartitionBuckets(self.partition_by, schema, self.strict_decimals))


class FileSink(TypedSink):
    """Writes files. Made by a builder: ``FileSink.for_row_format(...)...build()``."""

    def __init__(self, settings: FileSinkSettings, shape: ColumnShape | None = None) -> None:
        self._settings = settings
        self._shape = shape
        self._running: set[int] = set()

    @staticmethod
    def for_row_format(base_path: str | os.PathLike[str], encoder: Any) -> FileSinkBuilder:
        """Each record encoded by itself: see :class:`~penstock.connectors.files.parts.EncodedParts`."""
        return FileSinkBuilder(base_path, EncodedParts(encoder), RollingPolicy.default_rolling_policy())

    @staticmethod
    def for_bulk_format(base_path: str | os.PathLike[str], writer_factory: PartFormat) -> FileSinkBuilder:
        """Records encoded many at a time, as in Parquet (``ParquetWriterFactory``)."""
        return FileSinkBuilder(base_path, writer_factory, RollingPolicy.on_checkpoint_rolling_policy())

    @staticmethod
    def parquet(
        base_path: PathLike,
        schema: Schema | None = None,
        *,
        compression: str = "snappy",
        strict_decimals: bool = False,
        **more: Any,
    ) -> FileSink:
        """Parquet files; ``more`` is described at :func:`columnar`."""
        options = {"compression": compression, "strict_decimals": strict_decimals}
        return columnar(base_path, ColumnKind.PARQUET, schema, options, **more)

    @staticmethod
    def orc(
        base_path: PathLike,
        schema: Schema | None = None,
        *,
        compression: str = "snappy",
        strict_decimals: bool = False,
        **more: Any,
    ) -> FileSink:
        """ORC files; ``more`` is described at :func:`columnar`."""
        options = {"compression": compression, "strict_decimals": strict_decimals}
        return columnar(base_path, ColumnKind.ORC, schema, options, **more)

    @staticmethod
    def csv(
        base_path: PathLike,
        schema: Schema | None = None,
        *,
        header: bool = False,
        delimiter: str = ",",
        gzip: bool = False,
        strict_decimals: bool = False,
        **more: Any,
    ) -> FileSink:
        """CSV files; ``more`` is described at :func:`columnar`."""
        dialect = CsvDialect(delimiter=delimiter, header=header, strict_decimals=strict_decimals)
        options = {"dialect": dialect}
        return columnar(base_path, ColumnKind.CSV, schema, options, gzip=gzip, **more)

    @staticmethod
    def json_lines(
        base_path: PathLike, schema: Schema | None = None, *, gzip: bool = False, **more: Any
    ) -> FileSink:
        """Files of one JSON object per line; ``more`` is described at :func:`columnar`."""
        return columnar(base_path, ColumnKind.JSON_LINES, schema, {}, gzip=gzip, **more)

    def typed(self, type_info: TypeInformation | None) -> FileSink:
        """The same sink for a stream of this type: it gives the columns, if they were not given.

        Text is then rendered as Flink renders it.
        """
        if self._shape is not None and isinstance(type_info, RowTypeInfo):
            return FileSink(self._shape.apply(self._settings, schema_of(type_info)))
        part_format = self._settings.part_format
        if not isinstance(part_format, EncodedParts):
            return self
        return FileSink(replace(self._settings, part_format=part_format.typed(type_info)))

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return FileWriter(self._settings, context)

    def create_committer(self) -> Committer:
        return FileCommitter(self._settings.base_path, self._running, self._settings.manifest)

    def on_driver_message(self, message: int) -> None:
        """Writers of an attempt have started: what they prepare from now on must be there."""
        self._running.add(message)

    def __repr__(self) -> str:
        return f"FileSink({discreet(self._settings.base_path)!r})"

    def check(self) -> None:
        """Create the base path if it is missing, try to write a file there, and see to its manifest."""
        base = self._settings.base_path
        storage = storage_of(base)
        probe = join(base, f".penstock-probe-{uuid.uuid4().hex}")
        try:
            storage.make_directory(base)
            storage.seal(storage.create(probe))
            storage.remove(probe)
            if self._settings.manifest is None:
                refuse_unlisted(base)
            else:
                Manifest(self._settings.manifest).check()
        except OSError as e:
            raise ConnectorError(
                f"the file sink cannot write to {base!r}: {e.strerror or e}. It must be a directory that the "
                "driver and all executors may write to."
            ) from e


class FileSinkBuilder:
    """Settings of a file sink."""

    def __init__(
        self, base_path: str | os.PathLike[str], part_format: PartFormat, rolling: RollingPolicy
    ) -> None:
        self._settings = FileSinkSettings(
            normalise(base_path), part_format, None, rolling, OutputFileConfig(), 60_000
        )

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner | Callable[[Any], str]) -> FileSinkBuilder:
        """Choose folders: an assigner, or a function from a record to a relative path.

        Without a choice there is one per hour of writing, ``yyyy-MM-dd--HH``, as in Flink.
        """
        if not isinstance(bucket_assigner, BucketAssigner):
            bucket_assigner = BucketsByFunction(bucket_assigner)
        self._settings = replace(self._settings, buckets=bucket_assigner)
        return self

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> FileSinkBuilder:
        """Close files more often than at each barrier."""
        self._settings = replace(self._settings, rolling=rolling_policy)
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> FileSinkBuilder:
        """Choose how file names begin and end."""
        self._settings = replace(self._settings, names=output_file_config)
        return self

    def with_bucket_check_interval(self, interval: DurationLike) -> FileSinkBuilder:
        """How often the rolling policy looks at open files that nobody writes to."""
        self._settings = replace(self._settings, check_interval_ms=max(1, to_millis(interval)))
        return self

    def enable_compact(
        self, strategy: FileCompactStrategy, compactor: FileCompactor | None = None
    ) -> FileSinkBuilder:
        """Merge small files before they become visible; by default in the format's own way."""
        chosen = compactor or compactor_of(self._settings.part_format)
        if chosen is None:
            raise ConfigError(
                "the sink's format does not say how its files are merged; give enable_compact a compactor, "
                "such as FileCompactor.concat_file_compactor()"
            )
        self._settings = replace(self._settings, compact=strategy, compactor=chosen)
        return self

    def disable_compact(self) -> FileSinkBuilder:
        """Do not merge; files that an earlier run of the job still holds come out one by one."""
        self._settings = replace(self._settings, compact=None, compactor=None)
        return self

    def with_manifest(self, read_as: str | None = None) -> FileSinkBuilder:
        """List committed files in a log that Spark's readers follow: they see whole checkpoints only.

        ``read_as`` is the URL that Spark reads the directory by, if it is not that of the base path: by any
        other, Spark finds the log and none of its files.
        """
        self._settings = replace(self._settings, manifest=place_of(self._settings.base_path, read_as))
        return self

    def build(self) -> FileSink:
        """The sink."""
        return FileSink(self._settings)


def columnar(
    base_path: PathLike,
    kind: ColumnKind,
    schema: Schema | None,
    options: dict[str, Any],
    *,
    partition_by: Sequence[str] = (),
    rolling: RollingPolicy | None = None,
    compact: FileCompactStrategy | None = None,
    gzip: bool = False,
    manifest: bool | str = False,
) -> FileSink:
    """A sink of columnar files, for ``FileSink.parquet`` and its like.

    Without a ``schema`` the stream's type gives the columns, or else each file has those of its first batch.
    ``partition_by`` names columns that become directories ``country=DE/``.  ``manifest`` may be the URL that
    ``with_manifest`` takes.
    """
    shape = ColumnShape(kind, options, tuple(partition_by), gzip)
    known = schema_of(schema) if isinstance(schema, RowTypeInfo) else schema
    names = OutputFileConfig(part_suffix=shape.suffix)
    builder = FileSinkBuilder(base_path, shape.parts(known), RollingPolicy.on_checkpoint_rolling_policy())
    builder.with_output_file_config(names).with_bucket_assigner(BasePathBuckets())
    if rolling is not None:
        builder.with_rolling_policy(rolling)
    if compact is not None:
        builder.enable_compact(compact)
    if manifest:
        builder.with_manifest(None if manifest is True else manifest)
    return FileSink(shape.apply(builder.build()._settings, known), shape if known is None else None)
