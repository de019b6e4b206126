"""The numbers from ``start`` to ``end``, both included, divided into one range per subtask."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.connectors.source import EndOfSplit, Source, Split, SplitEnumerator, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError


class DealtOnce(SplitEnumerator):
    """Deals all splits at the first ``discover`` and never again, also after a restore.

    For sources whose division depends on the parallelism: comparing split ids after a restore at
    another parallelism would find "new" splits and read everything twice.
    """

    def __init__(self, splits: Iterable[Split]) -> None:
        self._splits = list(splits)

    def discover(self) -> Iterable[Split]:
        splits, self._splits = self._splits, []
        return splits

    def snapshot(self) -> bool:
        return not self._splits

    def restore(self, state: Any) -> None:
        if state:
            self._splits = []


class NumberSequenceSource(Source):
    """``start``, ``start + 1``, ..., ``end``, as Python ints.

    With ``columns=True`` the batches are columnar, with one int64 column ``value``.
    """

    def __init__(self, start: int, end: int, columns: bool = False) -> None:
        if start > end:
            raise ConfigError(f"a number sequence from {start} to {end} is empty: start must not exceed end")
        self.start = start
        self.end = end
        self._columns = columns

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        total = self.end - self.start + 1
        edges = [self.start + total * k // parallelism for k in range(parallelism + 1)]
        pairs = pairwise(edges)
        return DealtOnce(Split(f"{low}..{high - 1}", (low, high)) for low, high in pairs if low < high)

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        low, high = split.info
        return _RangeReader(low if position is None else position, high, self._columns)


class _RangeReader(SplitReader):
    """Counts; the position is the next number."""

    def __init__(self, next_number: int, high: int, columns: bool) -> None:
        self._next = next_number
        self._high = high
        self._columns = columns

    def poll(self, max_rows: int) -> Batch | None:
        start = self._next
        if start >= self._high:
            raise EndOfSplit
        stop = min(start + max_rows, self._high)
        self._next = stop
        if self._columns:
            numbers = pa.array(np.arange(start, stop, dtype=np.int64))
            return Batch(columns=pa.RecordBatch.from_arrays([numbers], ["value"]))
        return Batch(rows=list(range(start, stop)))

    def position(self) -> int:
        return self._next
