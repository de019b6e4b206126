"""Stored records of an outer join of columns, and which of them have met a partner.

Tables of a chunk store never change, so what a row has met is noted beside them: each row has a number
within its pane, and each pane an array of marks.  In snapshots the marks are a column of the rows,
``__met``; numbers are given anew by each restore.  A row is also marked when it has appeared in the result
without a partner, so that it does so once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.operators.join.columns import MET, ROW, RowChunks
from penstock.state.chunks import Chunk, FrozenChunks

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


class _Marks:
    """A mark for each row of a pane, with room for more."""

    __slots__ = ("_count", "_marks")

    def __init__(self) -> None:
        self._marks: Mask = np.zeros(64, np.bool_)
        self._count = 0

    def add(self, met: Mask) -> int:
        """Marks of new rows; the number of the first of them."""
        first, self._count = self._count, self._count + len(met)
        if self._count > len(self._marks):
            grown: Mask = np.zeros(max(self._count, 2 * len(self._marks)), np.bool_)
            grown[:first] = self._marks[:first]
            self._marks = grown
        self._marks[first : self._count] = met
        return first

    def set(self, numbers: Numbers) -> None:
        self._marks[numbers] = True

    def of(self, numbers: Numbers) -> Mask:
        return self._marks[numbers]

    def copy(self) -> Mask:
        return self._marks[: self._count].copy()


class MetChunks(RowChunks):
    """Records of one side by pane, with marks. Batches that are appended have the column ``__met``."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._marks: dict[int, _Marks] = {}

    def conform(self, table: pa.Table) -> pa.Table:
        if MET not in table.schema.names:
            return super().conform(table)
        met = table.column(MET)
        return super().conform(table.drop_columns([MET])).append_column(MET, met)

    def append(self, pane: int, table: pa.Table) -> None:
        super().append(pane, self._numbered(pane, table))

    def mark(self, pane: int, numbers: Numbers) -> None:
        """Rows of a pane, by their column ``__row``, have met a partner."""
        self._marks[pane].set(numbers)

    def unmet(self, pane: int, numbers: Numbers) -> Mask:
        """Which of them have not."""
        return ~self._marks[pane].of(numbers)

    def drop(self, pane: int) -> None:
        super().drop(pane)
        self._marks.pop(pane, None)

    def clear(self) -> None:
        super().clear()
        self._marks.clear()

    def freeze(self) -> FrozenChunks:
        marks = {pane: found.copy() for pane, found in self._marks.items()}
        return _FrozenMet(self.name, self.keys, self._max_parallelism, super().freeze().parts, marks)

    def restore(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Rows of a snapshot of an inner join do not say whether they met anybody: they are not shown."""
        kept = [pa.Table.from_batches([batch]) for batch in batches]
        for n, table in enumerate(kept):
            if MET not in table.schema.names:
                kept[n] = table.append_column(MET, pa.array(np.ones(table.num_rows, np.bool_)))
        super().restore([batch for table in kept for batch in table.to_batches()])

    def _taken(self, pane: int, rows: pa.Table) -> pa.Table:
        return self._numbered(pane, rows.select([*self._columns, MET]))

    def _numbered(self, pane: int, table: pa.Table) -> pa.Table:
        first = self._marks.setdefault(pane, _Marks()).add(table.column(MET).to_numpy())
        numbers = np.arange(first, first + table.num_rows)
        return table.drop_columns([MET]).append_column(ROW, pa.array(numbers, pa.int64()))


class _FrozenMet(FrozenChunks):
    """What a store held at one moment: numbers have become marks."""

    def __init__(
        self,
        name: str,
        keys: tuple[str, ...],
        max_parallelism: int,
        parts: list[tuple[int, Chunk]],
        marks: dict[int, Mask],
    ) -> None:
        super().__init__(name, keys, max_parallelism, parts)
        self._marks = marks

    def _labelled(self, pane: int, chunk: Chunk) -> pa.Table:
        table = super()._labelled(pane, chunk)
        met = self._marks[pane][table.column(ROW).to_numpy()]
        return table.drop_columns([ROW]).append_column(MET, pa.array(met))

    def release(self) -> None:
        super().release()
        self._marks = {}
