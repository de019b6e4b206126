"""Rows that are at hand: those that the program holds, and those that whoever runs the job brings along.

``from_collection`` is one split, read by one subtask; the position is the index of the next value.  The
values travel to the slots inside the source, so this is for examples, tests and small inputs.

In BATCH mode Spark reads DataFrames itself, and a source's task finds the rows in its hand.  What a source
does with them (event times, side outputs, chained steps) is the same as for any other split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.connectors.source import EndOfSplit, FixedSplits, Source, Split, SplitEnumerator, SplitReader
from penstock.core.batch import Batch, Times, concat
from penstock.core.clock import Clock
from penstock.core.copying import copied_all
from penstock.core.errors import ConfigError


class CollectionSource(Source):
    """The given values, in order, with event times if ``times`` is given."""

    def __init__(self, rows: Iterable[Any], times: Sequence[int] | Times | None = None) -> None:
        self._rows = list(rows)
        self._times = None if times is None else np.asarray(times, dtype=np.int64)
        if self._times is not None and len(self._times) != len(self._rows):
            raise ConfigError(
                f"a collection of {len(self._rows)} values got {len(self._times)} times; give one per value"
            )

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return FixedSplits([Split("collection")])

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        return _CollectionReader(self._rows, self._times, position or 0)


class _CollectionReader(SplitReader):
    """Hands out slices, of copies: the values are read again after a failure."""

    def __init__(self, rows: list[Any], times: Times | None, index: int) -> None:
        self._rows = rows
        self._times = times
        self._index = index

    def poll(self, max_rows: int) -> Batch | None:
        start = self._index
        if start >= len(self._rows):
            raise EndOfSplit
        stop = min(start + max_rows, len(self._rows))
        self._index = stop
        times = None if self._times is None else self._times[start:stop]
        return Batch(rows=copied_all(self._rows[start:stop]), times=times)

    def position(self) -> int:
        return self._index


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
