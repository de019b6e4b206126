"""Part files of columnar records: CSV, JSON lines, ORC, and any text format packed with gzip.

Parquet has a file of its own, ``parquet_writer.py``.  All of them take rows as well and convert them column
by column.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from pyarrow import orc

from penstock.connectors.files.compact import ConcatFileCompactor, FileCompactor, OrcFileCompactor
from penstock.connectors.files.csv import CsvDialect, header_of, lines_of
from penstock.connectors.files.parquet_writer import conform
from penstock.connectors.files.parts import PartFormat, PartWriter
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError
from penstock.formats.json_values import encode_columns

_NEWLINE, _NOTHING = pa.scalar(b"\n", pa.large_binary()), pa.scalar(b"", pa.large_binary())


@dataclass(frozen=True, slots=True)
class CsvParts:
    """Makes CSV files. Text is always quoted, null is nothing at all or the dialect's text for it."""

    schema: Any
    dialect: CsvDialect = field(default_factory=CsvDialect)

    def create(self, stream: BinaryIO) -> PartWriter:
        """A writer of one file."""
        return _CsvPart(stream, self)

    def compactor(self) -> FileCompactor:
        """The way to merge such files."""
        return ConcatFileCompactor(header_lines=int(self.dialect.header))


class _CsvPart:
    def __init__(self, stream: BinaryIO, parts: CsvParts) -> None:
        self._schema = parts.schema
        self._strict = parts.dialect.strict_decimals
        self._dialect = parts.dialect
        self._stream = stream
        flat = [
            pa.field(each.name, pa.string() if _is_list(each.type) else each.type) for each in parts.schema
        ]
        self._flat = pa.schema(flat)
        self._writer: Any = None
        if parts.dialect.is_plain:
            options = pacsv.WriteOptions(
                include_header=parts.dialect.header, delimiter=parts.dialect.delimiter, quoting_style="needed"
            )
            self._writer = pacsv.CSVWriter(stream, self._flat, write_options=options)
        elif parts.dialect.header:
            stream.write(header_of(self._flat, parts.dialect))

    def write(self, batch: Batch) -> None:
        columns = conform(batch, self._schema, self._strict)
        arrays = [
            self._joined(each, column) if _is_list(each.type) else column
            for each, column in zip(self._schema, columns.columns, strict=True)
        ]
        flat = pa.RecordBatch.from_arrays(arrays, schema=self._flat)
        if self._writer is not None:
            self._writer.write_batch(flat)
        else:
            self._stream.write(lines_of(flat, self._dialect))

    def _joined(self, field: Any, column: Any) -> Any:
        return pc.binary_join(
            column.cast(pa.list_(pa.string())), self._dialect.array_delimiter_of(field.name)
        )

    def finish(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


@dataclass(frozen=True, slots=True)
class JsonLinesParts:
    """Makes files of JSON lines: one object per record."""

    schema: Any

    def create(self, stream: BinaryIO) -> PartWriter:
        """A writer of one file."""
        return _JsonPart(stream, self.schema)

    def compactor(self) -> FileCompactor:
        """The way to merge such files."""
        return ConcatFileCompactor()


class _JsonPart:
    def __init__(self, stream: BinaryIO, schema: Any) -> None:
        self._stream = stream
        self._schema = schema

    def write(self, batch: Batch) -> None:
        objects = encode_columns(conform(batch, self._schema)).cast(pa.large_binary())
        lines = pc.binary_join_element_wise(objects, _NEWLINE, _NOTHING)
        if len(lines):
            # All lines stand one after the other in the array's last buffer.
            _, offsets, data = lines.buffers()
            self._stream.write(memoryview(data)[: np.frombuffer(offsets, np.int64)[len(lines)]])

    def finish(self) -> None:
        """Nothing is held back."""


@dataclass(frozen=True, slots=True)
class OrcParts:
    """Makes ORC files."""

    schema: Any
    compression: str = "snappy"
    strict_decimals: bool = False
    """Whether decimals are refused that the scale of their column would round."""

    def create(self, stream: BinaryIO) -> PartWriter:
        """A writer of one file."""
        return _OrcPart(stream, self)

    def compactor(self) -> FileCompactor:
        """The way to merge such files."""
        return OrcFileCompactor(self.compression)


class _OrcPart:
    def __init__(self, stream: BinaryIO, parts: OrcParts) -> None:
        self._schema = parts.schema
        self._strict = parts.strict_decimals
        self._writer = orc.ORCWriter(stream, compression=parts.compression)

    def write(self, batch: Batch) -> None:
        self._writer.write(pa.Table.from_batches([conform(batch, self._schema, self._strict)]))

    def finish(self) -> None:
        self._writer.close()


@dataclass(frozen=True, slots=True)
class GzipParts:
    """Packs the files of a text format."""

    inner: PartFormat

    def create(self, stream: BinaryIO) -> PartWriter:
        """A writer of one file."""
        return _GzipPart(stream, self.inner)

    def compactor(self) -> FileCompactor | None:
        """Packed files may be put one after the other, unless the inner ones may not."""
        inner = compactor_of(self.inner)
        return inner if inner == ConcatFileCompactor() else None


class _GzipPart:
    def __init__(self, stream: BinaryIO, inner: PartFormat) -> None:
        self._packer = gzip.GzipFile(fileobj=stream, mode="wb", mtime=0)
        self._inner = inner.create(self._packer)  # type: ignore[arg-type]

    def write(self, batch: Batch) -> None:
        self._inner.write(batch)

    def finish(self) -> None:
        self._inner.finish()
        self._packer.close()


@dataclass(frozen=True, slots=True)
class LateParts:
    """Files of a format whose schema is that of the first batch, for streams of undeclared columns."""

    make: Any
    """From a schema to the format."""

    def create(self, stream: BinaryIO) -> PartWriter:
        """A writer of one file."""
        return _LatePart(stream, self.make)

    def compactor(self) -> FileCompactor | None:
        """The way to merge such files."""
        return compactor_of(self.make(pa.schema([])))


class _LatePart:
    def __init__(self, stream: BinaryIO, make: Any) -> None:
        self._stream = stream
        self._make = make
        self._inner: PartWriter | None = None

    @property
    def buffered_bytes(self) -> int:
        """What waits in memory."""
        return int(getattr(self._inner, "buffered_bytes", 0))

    def write_group(self) -> None:
        """Write out what waits, if the format gathers blocks."""
        write = getattr(self._inner, "write_group", None)
        if write is not None:
            write()

    def write(self, batch: Batch) -> None:
        if self._inner is None:
            if batch.columns is None:
                raise ConnectorError(
                    "the file sink does not know the columns of these records; give it a schema, or declare "
                    "the stream's type as Types.ROW_NAMED"
                )
            self._inner = self._make(batch.columns.schema).create(self._stream)
        self._inner.write(batch)

    def finish(self) -> None:
        if self._inner is not None:
            self._inner.finish()


def compactor_of(part_format: PartFormat) -> FileCompactor | None:
    """The format's own way to merge files, if it has one."""
    make = getattr(part_format, "compactor", None)
    found: FileCompactor | None = None if make is None else make()
    return found
