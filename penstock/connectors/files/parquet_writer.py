"""Writing Parquet files, for ``FileSink.for_bulk_format``.

Batches gather until they make a decent row group, since a row group per batch would make files large
and slow to read.  Columnar batches are written as they are; rows are converted column by column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.files.column_types import fitted_values, rounded_column, schema_of
from penstock.connectors.files.compact import FileCompactor, merged_schema, widened
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError
from penstock.core.row import Row
from penstock.core.typeinfo import RowTypeInfo

_BUFFER_BYTES = 64 << 20


class ParquetWriterFactory:
    """Makes Parquet files of one schema: a ``pa.Schema``, or the type of a ROW.

    Decimals are rounded to the scale of their column, with ``strict_decimals`` refused if that changes them.
    """

    def __init__(
        self,
        schema: pa.Schema | RowTypeInfo,
        compression: str = "snappy",
        row_group_rows: int = 1_000_000,
        strict_decimals: bool = False,
    ) -> None:
        self.schema = schema if isinstance(schema, pa.Schema) else schema_of(schema)
        self.compression = compression
        self.row_group_rows = row_group_rows
        self.strict_decimals = strict_decimals

    def create(self, stream: BinaryIO, footer: list[Any] | None = None) -> ParquetWriter:
        """A writer of one file. The caller closes the stream after ``finish``.

        ``finish`` then puts the file's metadata into ``footer``, if given.
        """
        return ParquetWriter(stream, self, footer)

    def compactor(self) -> ParquetFileCompactor:
        """The way to merge such files."""
        return ParquetFileCompactor(self.compression, self.row_group_rows)


class ParquetWriter:
    """Writes one file."""

    def __init__(
        self, stream: BinaryIO, factory: ParquetWriterFactory, footer: list[Any] | None = None
    ) -> None:
        self._schema = factory.schema
        self._strict = factory.strict_decimals
        self._group_rows = factory.row_group_rows
        self._writer = pq.ParquetWriter(
            stream, factory.schema, compression=factory.compression, metadata_collector=footer
        )
        self._buffer: list[Any] = []
        self._rows = 0
        self._bytes = 0

    def write(self, batch: Batch) -> None:
        """Take the records of a batch."""
        columns = conform(batch, self._schema, self._strict)
        self._buffer.append(columns)
        self._rows += columns.num_rows
        self._bytes += columns.nbytes
        if self._rows >= self._group_rows or self._bytes >= _BUFFER_BYTES:
            self.write_group()

    @property
    def buffered_bytes(self) -> int:
        """What waits in memory for the next row group."""
        return self._bytes

    def write_group(self) -> None:
        """Make a row group of what waits, now."""
        if self._buffer:
            self._writer.write_table(pa.Table.from_batches(self._buffer), row_group_size=self._group_rows)
        self._buffer, self._rows, self._bytes = [], 0, 0

    def finish(self) -> None:
        """Write what is left and the footer; the stream stays open."""
        self.write_group()
        self._writer.close()


@dataclass(frozen=True, slots=True)
class ParquetFileCompactor(FileCompactor):
    """Rows of all files, gathered into larger row groups; one of those at a time is in memory."""

    compression: str = "snappy"
    row_group_rows: int = 1_000_000

    def compact(self, inputs: Sequence[BinaryIO], output: BinaryIO) -> None:
        files = [pq.ParquetFile(stream) for stream in inputs]
        schema = merged_schema([file.schema_arrow for file in files])
        writer = ParquetWriterFactory(schema, self.compression, self.row_group_rows).create(output)
        for file in files:
            for batch in file.iter_batches(use_threads=False):
                writer.write(Batch(columns=widened(batch, schema)))
        writer.finish()


def conform(batch: Batch, schema: Any, strict_decimals: bool = True) -> Any:
    """The batch as Arrow columns of exactly this schema; a ``ConnectorError`` names what does not fit.

    Without ``strict_decimals`` decimals are rounded to the scale of their column.
    """
    if batch.columns is not None:
        if batch.columns.schema.equals(schema):
            return batch.columns
        return _cast(batch.columns, schema, strict_decimals)
    values = _column_values(batch.to_rows(), schema.names)
    arrays = [_array(field, column, strict_decimals) for field, column in zip(schema, values, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(columns: Any, schema: Any, strict_decimals: bool) -> Any:
    unknown = [name for name in schema.names if name not in columns.schema.names]
    if unknown:
        raise ConnectorError(
            f"the records have no column {', '.join(unknown)}, which the file's schema asks for; "
            f"they have {', '.join(columns.schema.names)}"
        )
    arrays = []
    for field in schema:
        column = columns.column(field.name)
        try:
            near = column if strict_decimals else rounded_column(column, field.type)
            arrays.append(near.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
            raise _misfit(field, e) from e
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column_values(rows: list[Any], names: list[str]) -> list[list[Any]]:
    """The values of each field. The first record shows the shape: by name, by position, or bare."""
    if not rows:
        return [[] for _ in names]
    first = rows[0]
    fields = first.field_names() if isinstance(first, Row) else None
    if isinstance(first, dict):
        return [[row.get(name) for row in rows] for name in names]
    if fields is not None and all(name in fields for name in names):
        return [[row[i] for row in rows] for i in map(fields.index, names)]
    if isinstance(first, (Row, tuple, list)):
        if len(first) != len(names):
            raise ConnectorError(
                f"a record has {len(first)} fields, the file's schema {len(names)}: {first!r}"
            )
        return [list(column) for column in zip(*rows, strict=True)]
    if len(names) == 1:
        return [rows]
    raise ConnectorError(
        f"a {type(first).__name__} cannot become a row of {', '.join(names)}; map it to a Row, tuple or dict"
    )


def _array(field: Any, values: list[Any], strict_decimals: bool) -> Any:
    if pa.types.is_integer(field.type):
        _refuse_fractions(field, values)
    try:
        return pa.array(values, type=field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return _fitted(field, values, strict_decimals)


def _fitted(field: Any, values: list[Any], strict_decimals: bool) -> Any:
    try:
        return pa.array(fitted_values(values, field.type, strict_decimals), type=field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError) as e:
        raise _misfit(field, e) from e


def _refuse_fractions(field: Any, values: list[Any]) -> None:
    """Arrow would cut them off without a word."""
    if any(issubclass(kind, float | np.floating) for kind in set(map(type, values))):
        broken = [value for value in values if isinstance(value, float | np.floating) and value % 1]
        if broken:
            raise _misfit(field, f"{broken[0]!r} is no whole number")


def _misfit(field: Any, reason: Any) -> ConnectorError:
    return ConnectorError(
        f"the records do not fit the file's schema: column {field.name!r} of type {field.type} cannot hold "
        f"its values: {reason}"
    )
