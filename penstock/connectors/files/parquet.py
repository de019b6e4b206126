"""Parquet files as columnar batches.

The position is the number of the next row in the file, counted before any filter.  To resume,
whole row groups are skipped by the file's metadata and only the last few rows by slicing.  One row group
at a time is fetched ahead, so memory is bounded by the row group, not by the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from copy import copy
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.files.formats import BulkFormat, FileRange, some_of
from penstock.connectors.files.parquet_bounds import may_have
from penstock.connectors.files.unreadable import reading, shrunk
from penstock.connectors.source import Bound, EndOfSplit, SplitReader
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError
from penstock.formats.bad_records import BadRecords
from penstock.storage.contract import Storage
from penstock.storage.places import storage_of

_DECODE_ROWS = 65_536
_FILTERED_BATCHES_PER_POLL = 8
"""How many batches without a match one poll may pass before it lets the task's other work run."""


class ParquetFormat(BulkFormat):
    """Reads Parquet into Arrow columns: those in ``columns``, of rows that ``filter`` accepts.

    ``filter`` is a pyarrow expression, such as ``pc.field("amount") > 10``; it may use columns that are
    not read otherwise.  Row groups whose statistics rule out a match are not read at all.
    """

    def __init__(self, columns: list[str] | None = None, filter: Any | None = None) -> None:
        self.columns = columns
        self.filter = filter
        self._bounds: tuple[Bound, ...] = ()

    def open(self, path: str, position: Any | None) -> SplitReader:
        return self.open_range(FileRange(path), position)

    def can_split(self, path: str) -> bool:
        return True

    def open_range(self, part: FileRange, position: Any | None, bad: BadRecords | None = None) -> SplitReader:
        return ParquetReader(part, position or 0, self.columns, self.filter, bounds=self._bounds)

    def narrowed(self, columns: Collection[str]) -> ParquetFormat:
        if self.filter is not None:
            return self  # it may need others
        found = copy(self)
        found.columns = some_of(self.columns, columns)
        return found

    def within(self, bounds: Sequence[Bound]) -> ParquetFormat:
        found = copy(self)
        # A column that is not read here, but comes from directories, may be in the file with other values.
        found._bounds = tuple(it for it in bounds if self.columns is None or it.column in self.columns)
        return found


class ParquetReader(SplitReader):
    """Reads the row groups that begin in a range of one Parquet file, from a row of the file on.

    ``storage`` is where the file is, if its path does not say enough.
    """

    def __init__(
        self,
        part: FileRange,
        row: int,
        columns: list[str] | None,
        row_filter: Any | None,
        storage: Storage | None = None,
        bounds: Sequence[Bound] = (),
    ) -> None:
        self._part = part
        self._path = path = part.path
        self._columns = columns
        self._filter = row_filter
        self._bounds = bounds
        self._row = row
        self._stream = (storage or storage_of(path)).open_read(path)
        try:
            with reading(path, "Parquet"):
                self._file = pq.ParquetFile(self._stream, pre_buffer=True)
        except Exception:
            self._stream.close()
            raise
        if row > self._file.metadata.num_rows:
            raise shrunk(path, "row", row, self._file.metadata.num_rows)
        self._read_columns = self._columns_to_read()
        self._batches = self._decode()
        self._current: Any = None
        """The decoded batch whose rows are being handed out, from ``_used`` on."""
        self._used = 0

    def _columns_to_read(self) -> list[str] | None:
        """The columns to decode: all of them, if the filter needs more than were asked for."""
        if self._columns is None:
            return None
        schema = self._file.schema_arrow
        unknown = [name for name in self._columns if name not in schema.names]
        if unknown:
            raise ConnectorError(
                f"{self._path!r} has no column {', '.join(unknown)}; it has {', '.join(schema.names)}"
            )
        if self._filter is not None:
            try:
                schema.empty_table().select(self._columns).filter(self._filter)
            except pa.ArrowInvalid:
                return None
        return self._columns

    def _decode(self) -> Iterator[Any]:
        """Batches from ``_row`` on; moves ``_row`` over rows that no batch will bring."""
        wanted = self._wanted_groups()
        end = 0
        for group in range(self._file.num_row_groups):
            start, end = end, end + self._file.metadata.row_group(group).num_rows
            if self._row >= end:
                continue
            if group not in wanted:
                self._row = end
                continue
            skip = self._row - start
            # One thread: a slot is one core, and its neighbours have their own decoding to do.
            for batch in self._file.iter_batches(
                batch_size=_DECODE_ROWS, row_groups=[group], columns=self._read_columns, use_threads=False
            ):
                if skip < batch.num_rows:
                    yield batch.slice(skip) if skip else batch
                skip = max(0, skip - batch.num_rows)

    def _wanted_groups(self) -> set[int]:
        """Row groups that begin in the range, without those that statistics rule out."""
        metadata, schema = self._file.metadata, self._file.schema_arrow
        inside = {
            group
            for group in range(metadata.num_row_groups)
            if self._part.holds(_start(metadata, group)) and may_have(metadata, schema, group, self._bounds)
        }
        if self._filter is None:
            return inside
        import pyarrow.dataset as ds  # brings all of pandas, which few programs need

        fragment = ds.ParquetFileFormat().make_fragment(self._stream)
        return inside & {group.id for group in fragment.subset(filter=self._filter).row_groups}

    def poll(self, max_rows: int) -> Batch | None:
        for _ in range(_FILTERED_BATCHES_PER_POLL):
            rows = self._take(max_rows)
            if self._filter is not None:
                rows = rows.filter(self._filter)
            if rows.num_rows:
                # Decoding gives the file's order of columns, and those the filter needed as well.
                return Batch(columns=rows if self._columns is None else rows.select(self._columns))
        return None

    def _take(self, max_rows: int) -> Any:
        """The next decoded rows, before the filter."""
        if self._current is None:
            with reading(self._path, "Parquet", self._row):
                self._current = next(self._batches, None)
            self._used = 0
            if self._current is None:
                raise EndOfSplit
        rows = self._current.slice(self._used, max_rows)
        self._used += rows.num_rows
        self._row += rows.num_rows
        if self._used >= self._current.num_rows:
            self._current = None
        return rows

    def position(self) -> int:
        return self._row

    def close(self) -> None:
        self._file.close()
        self._stream.close()


def _start(metadata: Any, group: int) -> int:
    """Offset of a row group's first byte."""
    row_group = metadata.row_group(group)
    if not row_group.num_columns:
        return 0
    column = row_group.column(0)
    return int(column.dictionary_page_offset or column.data_page_offset)
