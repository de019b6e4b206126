"""Columnar keyed state of spans of time: immutable Arrow tables of rows with a key, a start and an end.

A row is a part of a session: all rows of a key that overlap or touch are one.  They are not looked for when a
row comes, but when time has passed one of them (:meth:`SpanChunks.take`) and when tables are merged, which
happens ever more rarely as they grow: a row is merged about as often as its table doubles in size.

Freezing copies references, as with every :class:`~penstock.state.chunks.ChunkStore`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.error_codes import Code
from penstock.core.errors import SnapshotError
from penstock.core.ids import MIN_TIME
from penstock.state.chunks import Chunk, ChunkStore, FrozenChunks, Merge

START = "__start"
END = "__end"
DUE = "__due"
"""1 in a row whose session is going to fire at its end, 0 if it has fired and nothing has come since."""

_FAN_IN = 16
_FRESH_ROWS = 65536
_MOST_TAKEN = 0.5
"""Share of the rows from which on all are taken rather than looked for."""

Mask = npt.NDArray[np.bool_]


class SpanChunks(ChunkStore):
    """Rows by key and span. ``columns`` are those beside the span; ``merge`` joins rows of one session."""

    def __init__(
        self, name: str, keys: Sequence[str], columns: Sequence[str], merge: Merge, max_parallelism: int
    ) -> None:
        super().__init__(name, keys, [*columns, START, END, DUE], merge, max_parallelism)
        self._fresh: list[pa.Table] = []
        self._tables: list[pa.Table] = []

    def __len__(self) -> int:
        return sum(table.num_rows for table in self._all())

    def _retype(self, change: Callable[[pa.Table], pa.Table]) -> None:
        self._fresh = list(map(change, self._fresh))
        self._tables = list(map(change, self._tables))

    def add(self, table: pa.Table) -> None:
        """Add rows (conforming ones)."""
        if not table.num_rows:
            return
        self._fresh.append(table)
        if len(self._fresh) < _FAN_IN and sum(each.num_rows for each in self._fresh) < _FRESH_ROWS:
            return
        merged, self._fresh = self._merge(self._fresh), []
        while self._tables and self._tables[-1].num_rows <= 2 * merged.num_rows:
            merged = self._merge([self._tables.pop(), merged])
        self._tables.append(merged)

    def take(self, wanted: Callable[[pa.Table], Mask], also: pa.Table | None = None) -> pa.Table | None:
        """Take out all rows of the keys of which some row is wanted, or that are in ``also``; merged.

        Rows of other keys may be among them.  ``None`` if there are none.
        """
        everything = self._all()
        picked = [table.filter(pa.array(mask)) for table in everything if (mask := wanted(table)).any()]
        keys = [table.select(self.keys) for table in [*picked, *([] if also is None else [also])]]
        if not keys or not everything:
            return None
        if sum(table.num_rows for table in keys) > _MOST_TAKEN * len(self):
            self._fresh, self._tables = [], []
            return self._merge(everything)
        return self._take_keys(pa.concat_tables(keys))

    def _take_keys(self, keys: pa.Table) -> pa.Table | None:
        taken: list[pa.Table] = []
        columns = {name: keys.column(name).combine_chunks() for name in self.keys}

        def rest(table: pa.Table) -> pa.Table:
            found: pa.ChunkedArray | None = None
            for name, values in columns.items():
                among = pc.is_in(table.column(name), values)
                found = among if found is None else pc.and_(found, among)
            if not pc.any(found).as_py():
                return table
            taken.append(table.filter(found))
            return table.filter(pc.invert(found))

        self._fresh = [left for table in self._fresh if (left := rest(table)).num_rows]
        self._tables = [left for table in self._tables if (left := rest(table)).num_rows]
        return self._merge(taken) if taken else None

    def clear(self) -> None:
        self._fresh, self._tables = [], []
        self.watermark = MIN_TIME

    def advance(self, watermark: int) -> None:
        self.watermark = watermark

    def freeze(self) -> FrozenChunks:
        parts = [(0, Chunk(table, self.watermark)) for table in self._all()]
        return FrozenChunks(self.name, self.keys, self._max_parallelism, parts)

    def restore(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            missing = [name for name in self._columns if name not in batch.schema.names]
            if missing:
                raise SnapshotError(
                    f"state {self.name!r} in the snapshot has no {missing[0]!r}: key columns and aggregates "
                    "cannot be added to a running window; give the step another uid to start it empty",
                    code=Code.STATE_CHANGED,
                )
            if batch.num_rows:
                self.add(self.conform(pa.Table.from_batches([batch])))

    def _all(self) -> list[pa.Table]:
        return [*self._tables, *self._fresh]
