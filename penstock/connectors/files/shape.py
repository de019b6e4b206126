"""What the short forms of the file sink (``FileSink.parquet`` and its like) have in common.

The columns may be known when the sink is made, or only when it is put on a typed stream; either way the
same settings come out of here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pyarrow as pa

from penstock.connectors.files.buckets import PartitionBuckets
from penstock.connectors.files.column_parts import CsvParts, GzipParts, JsonLinesParts, LateParts, OrcParts
from penstock.connectors.files.parquet_writer import ParquetWriterFactory
from penstock.connectors.files.parts import PartFormat
from penstock.connectors.files.writer import FileSinkSettings
from penstock.core.errors import ConfigError


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
