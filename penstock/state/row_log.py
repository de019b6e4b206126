"""Whole rows as state: immutable Arrow batches one behind the other, and which of their rows are alive.

A row is found by its position.  Chunks are joined as they become many, which changes no position; when most
rows are dead, the others move together (:meth:`RowLog.tidy`), and whoever keeps positions is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.codes import Mask
from penstock.state.key_index import Rows, grown

_FAN_IN = 16
_CHUNK_ROWS = 1 << 20
_CHUNK_BYTES = 1 << 28
_WORTH_TIDYING = 8192


class RowLog:
    """Rows of one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.clear()

    def clear(self) -> None:
        """Forget all rows."""
        self._chunks: list[tuple[int, pa.RecordBatch]] = []
        self._starts: Rows = np.zeros(0, np.int64)
        self.count = 0
        self.dead = 0
        self._alive: Mask = np.zeros(0, np.bool_)

    def append(self, rows: pa.RecordBatch) -> Rows:
        """Add rows; their positions."""
        first = self.count
        self.count += rows.num_rows
        self._alive = grown(self._alive, self.count, False)
        self._alive[first : self.count] = True
        if rows.num_rows:
            self._chunks.append((0, rows))
            self._join_chunks()
        return np.arange(first, self.count)

    def _join_chunks(self) -> None:
        while True:
            last = self._chunks[-_FAN_IN:]
            if len(last) < _FAN_IN or last[0][0] != last[-1][0]:
                break
            batches = [batch for _, batch in last]
            rows, size = sum(batch.num_rows for batch in batches), sum(batch.nbytes for batch in batches)
            if rows > _CHUNK_ROWS or size > _CHUNK_BYTES:
                break
            self._chunks[-_FAN_IN:] = [(last[0][0] + 1, pa.concat_batches(batches))]
        sizes = [batch.num_rows for _, batch in self._chunks]
        self._starts = np.cumsum([0, *sizes[:-1]])

    def take(self, positions: Rows) -> pa.RecordBatch:
        """The rows at these positions, in this order."""
        if not len(positions):
            return _nothing(self.schema)
        which = np.searchsorted(self._starts, positions, side="right") - 1
        used = np.unique(which)
        if len(used) == 1:
            chunk = int(used[0])
            return self._chunks[chunk][1].take(pa.array(positions - self._starts[chunk]))
        order = np.argsort(which, kind="stable")
        bounds = np.searchsorted(which[order], [*used, len(self._chunks)])
        parts = []
        for chunk, low, high in zip(used.tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            inside = positions[order[low:high]] - self._starts[chunk]
            parts.append(self._chunks[chunk][1].take(pa.array(inside)))
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return pa.concat_batches(parts).take(pa.array(places))

    def kill(self, positions: Rows) -> None:
        """These rows are not needed any more."""
        self._alive[positions] = False
        self.dead += len(positions)

    def alive(self) -> Rows:
        """The positions of all rows that are there."""
        return np.flatnonzero(self._alive[: self.count])

    @property
    def is_sparse(self) -> bool:
        """Whether it is worth to :meth:`tidy`."""
        return self.dead > _WORTH_TIDYING and 2 * self.dead > self.count

    def tidy(self) -> tuple[Rows, Rows]:
        """Let dead rows go: the positions that are left, and where each old one is now (-1: gone)."""
        kept = self.alive()
        moved = np.full(self.count, -1, np.int64)
        moved[kept] = np.arange(len(kept))
        parts = []
        for start, (_, chunk) in zip(self._starts.tolist(), self._chunks, strict=True):
            parts.append(chunk.filter(pa.array(self._alive[start : start + chunk.num_rows])))
        self.clear()
        for part in parts:
            self.append(part)
        return kept, moved

    def freeze(self) -> Callable[[], pa.Table]:
        """All rows that are alive now, made later."""
        chunks = [chunk for _, chunk in self._chunks]
        starts, alive, schema = self._starts.tolist(), self._alive[: self.count].copy(), self.schema

        def made() -> pa.Table:
            kept = []
            for start, chunk in zip(starts, chunks, strict=True):
                there = alive[start : start + chunk.num_rows]
                kept.append(chunk if there.all() else chunk.filter(pa.array(there)))
            return pa.Table.from_batches(kept, schema)

        return made


def _nothing(schema: pa.Schema) -> pa.RecordBatch:
    arrays: list[Any] = [pa.nulls(0, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
