"""A source over values that the program already holds: ``from_collection``.

One split, read by one subtask; the position is the index of the next value.  The values travel to
the slots inside the source, so this is for examples, tests and small inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from penstock.connectors.source import EndOfSplit, FixedSplits, Source, Split, SplitEnumerator, SplitReader
from penstock.core.batch import Batch, Times
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
