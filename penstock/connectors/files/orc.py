"""ORC files as columnar batches. The position is the number of the next row in the file.

Arrow tells neither where stripes begin nor how long they are, so a file is read whole by one subtask, and
to go on in the middle the stripes before it are read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pyarrow import orc

from penstock.connectors.files.formats import BulkFormat, some_of
from penstock.connectors.files.unreadable import reading, shrunk
from penstock.connectors.source import EndOfSplit, SplitReader
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError
from penstock.storage.places import storage_of


class OrcFormat(BulkFormat):
    """Reads ORC into Arrow columns: those in ``columns``, or all."""

    def __init__(self, columns: list[str] | None = None) -> None:
        self.columns = columns

    def open(self, path: str, position: Any | None) -> SplitReader:
        return OrcReader(path, position or 0, self.columns)

    def narrowed(self, columns: Collection[str]) -> OrcFormat:
        return OrcFormat(some_of(self.columns, columns))


class OrcReader(SplitReader):
    """Reads one ORC file from a row on."""

    def __init__(self, path: str, row: int, columns: list[str] | None) -> None:
        self._stream = storage_of(path).open_read(path)
        self._path = path
        try:
            with reading(path, "ORC"):
                self._file = orc.ORCFile(self._stream)
        except Exception:
            self._stream.close()
            raise
        if row > self._file.nrows:
            raise shrunk(path, "row", row, self._file.nrows)
        unknown = [name for name in columns or [] if name not in self._file.schema.names]
        if unknown:
            known = ", ".join(self._file.schema.names)
            raise ConnectorError(f"{path!r} has no column {', '.join(unknown)}; it has {known}")
        self._columns = columns
        self._row = row
        self._batches = self._decode()
        self._current: Any = None
        """What is decoded and not handed out yet."""

    def _decode(self) -> Iterator[Any]:
        skip = self._row
        # Asked for no columns, because all come from directories, Arrow would tell of no rows either.
        columns = self._file.schema.names[:1] if self._columns == [] else self._columns
        for number in range(self._file.nstripes if self._row < self._file.nrows else 0):
            stripe = self._file.read_stripe(number, columns=columns)
            if skip < stripe.num_rows:
                yield stripe.slice(skip)
            skip = max(0, skip - stripe.num_rows)

    def poll(self, max_rows: int) -> Batch | None:
        if self._current is None:
            with reading(self._path, "ORC", self._row):
                self._current = next(self._batches, None)
        if self._current is None:
            raise EndOfSplit
        rows = self._current.slice(0, max_rows)
        left = self._current.num_rows - rows.num_rows
        self._current = self._current.slice(rows.num_rows) if left else None
        self._row += rows.num_rows
        return Batch(columns=rows if self._columns is None else rows.select(self._columns))

    def position(self) -> int:
        return self._row

    def close(self) -> None:
        self._stream.close()
