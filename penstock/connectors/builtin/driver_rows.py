"""Rows that whoever runs the job reads and brings along: a split that is nowhere.

In BATCH mode Spark reads DataFrames itself, and a source's task finds the rows in its hand.  What a source
does with them (event times, side outputs, chained steps) is the same as for any other split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.connectors.source import EndOfSplit, SplitReader
from penstock.core.batch import Batch, concat


@dataclass(frozen=True, slots=True)
class RowsAtHand:
    """The ``info`` of a split whose rows are here. They can be read once."""

    batches: Iterable[pa.RecordBatch]


class RowsReader(SplitReader):
    """Reads rows at hand, brought to ``schema``. ``poll`` waits for whoever brings them.

    Small batches are joined up to what a poll asks for: what steps do per batch is worth it.
    """

    def __init__(self, rows: RowsAtHand, schema: pa.Schema) -> None:
        self._batches: Iterator[Any] = iter(rows.batches)
        self._schema = schema
        self._rest: Batch | None = None
        self._row = 0

    def poll(self, max_rows: int) -> Batch | None:
        found = self._gather(max_rows)
        rows = found.slice(0, min(max_rows, len(found)))
        self._rest = found.slice(max_rows, len(found)) if len(found) > max_rows else None
        self._row += len(rows)
        return rows

    def _gather(self, wanted: int) -> Batch:
        parts = [] if self._rest is None else [self._rest]
        count = sum(map(len, parts))
        while count < wanted:
            batch = next(self._batches, None)
            if batch is None:
                break
            if batch.num_rows:
                parts.append(Batch(columns=batch.cast(self._schema)))
                count += batch.num_rows
        if not parts:
            raise EndOfSplit
        return concat(parts)

    def position(self) -> int:
        return self._row
