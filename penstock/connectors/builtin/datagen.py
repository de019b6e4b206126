"""Sources that make their records: a function of an index, and the numbers of a range.

For load, demonstrations and tests.  Record ``i`` is ``generate(i)``, so the source is deterministic and
resumes by index.  Subtask ``k`` of ``p`` makes the records ``k``, ``k + p``, ``k + 2p``, ...: all subtasks
advance together, which keeps event time close across them.

With a rate, record ``i`` is *due* ``i / rate`` seconds after the start; a poll returns what is due and
never sleeps.  If the job is held up, what became due meanwhile comes at once afterwards: the rate is a
timetable, not a speed limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.connectors.source import EndOfSplit, Source, Split, SplitEnumerator, SplitReader, SplitsOnce
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError, ConnectorError


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
        splits = [Split(f"{low}..{high - 1}", (low, high)) for low, high in pairwise(edges) if low < high]
        return SplitsOnce(lambda: splits)

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


class DataGeneratorSource(Source):
    """Records made by a function of their index; unbounded unless ``count`` is given.

    ``generate`` gets one index and returns one value; with ``columns=True`` it gets an int64 array of
    indices and returns a ``pa.RecordBatch``.  If it has a method ``narrowed(columns)``, what that returns
    makes the records of jobs that read these columns alone.  ``rate_per_second`` is for all subtasks
    together.
    """

    def __init__(
        self,
        generate: Callable[[Any], Any],
        count: int | None = None,
        rate_per_second: float | None = None,
        columns: bool = False,
    ) -> None:
        if count is not None and count < 0:
            raise ConfigError(f"count is {count}; give 0 or more, or None for an endless stream")
        if rate_per_second is not None and rate_per_second <= 0:
            raise ConfigError(f"rate_per_second is {rate_per_second}; give more than 0, or None for no limit")
        self.generate = generate
        self.count = count
        self.rate_per_second = rate_per_second
        self.columns = columns
        self.bounded = count is not None

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return SplitsOnce(lambda: [Split(f"{k}/{parallelism}", (k, parallelism)) for k in range(parallelism)])

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        first, step = split.info
        return _GeneratorReader(self, first if position is None else position, step, clock)

    def narrowed(self, columns: Collection[str]) -> DataGeneratorSource:
        narrow = getattr(self.generate, "narrowed", None)
        if not self.columns or narrow is None:
            return self
        found = copy(self)
        found.generate = narrow(columns)
        return found


class _GeneratorReader(SplitReader):
    """Makes the records ``index``, ``index + step``, ...; the position is the next index."""

    def __init__(self, source: DataGeneratorSource, index: int, step: int, clock: Clock) -> None:
        self._generate = source.generate
        self._columns = source.columns
        self._end = source.count
        self._rate = source.rate_per_second
        self._index = index
        self._step = step
        self._clock = clock
        # On a fresh start index k is due k / rate seconds from now, so that subtasks interleave; the
        # same holds, shifted by whole rounds, after a restore.
        self._origin_index = index - index % step
        self._origin = clock.monotonic()

    def poll(self, max_rows: int) -> Batch | None:
        if self._end is not None and self._index >= self._end:
            raise EndOfSplit
        rows = min(max_rows, self._due())
        if self._end is not None:
            rows = min(rows, -((self._index - self._end) // self._step))
        if rows <= 0:
            return None
        stop = self._index + rows * self._step
        batch = self._make(self._index, stop)
        self._index = stop
        return batch

    def _make(self, start: int, stop: int) -> Batch:
        if not self._columns:
            generate = self._generate
            return Batch(rows=[generate(i) for i in range(start, stop, self._step)])
        made = self._generate(np.arange(start, stop, self._step, dtype=np.int64))
        if not isinstance(made, pa.RecordBatch):
            raise ConnectorError(
                f"with columns=True the generator must return a RecordBatch, not {type(made).__name__}"
            )
        return Batch(columns=made)

    def _due(self) -> int:
        """How many records of this split are due and not made."""
        if self._rate is None:
            return 2**62
        latest = self._origin_index + int((self._clock.monotonic() - self._origin) * self._rate + 1e-6)
        return (latest - self._index) // self._step + 1

    def position(self) -> int:
        return self._index

    def next_poll_ms(self) -> int | None:
        if self._rate is None or (self._end is not None and self._index >= self._end):
            return None
        due_at = self._origin + (self._index - self._origin_index) / self._rate
        wait = due_at - self._clock.monotonic()
        return None if wait <= 0 else self._clock.now_ms() + max(1, math.ceil(wait * 1000 - 1e-6))
