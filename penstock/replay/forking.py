"""What would have happened: a program run from a savepoint over real input, without touching the world.

Sources are read up to a time, or until nothing more comes, and then end; sinks are replaced by
recorders.  State, splits and positions are those of the savepoint, so two programs that are run this way
differ in nothing but their logic.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np

from penstock.connectors.builtin.driver_output import CollectedRows, CollectSink
from penstock.connectors.combinators.source_wrapper import WrappedReader, WrappedSource
from penstock.connectors.sink import CommitOutcome
from penstock.connectors.source import EndOfSplit, Source, Split, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.ids import EventTime
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.operators.timestamps import stamp


@dataclass(frozen=True, slots=True)
class Until:
    """Where the input of a fork ends."""

    time: EventTime | None = None
    """Records of this event time and later are not read; a partition ends at its first such record."""
    quiet_s: float = 2.0
    """A partition ends when nothing came for so long."""


class BoundedSource(WrappedSource):
    """Another source, up to an end.  Its splits and positions are the other's."""

    def __init__(self, source: Source, strategy: WatermarkStrategy, until: Until) -> None:
        super().__init__(source)
        self._strategy = strategy
        self._until = until
        self.bounded = True
        self.discovery_interval_ms = None

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        reader = super().open_split(split, position, clock)
        return _BoundedReader(reader, self._strategy, self._until, clock)


class _BoundedReader(WrappedReader):
    def __init__(self, reader: SplitReader, strategy: WatermarkStrategy, until: Until, clock: Clock) -> None:
        super().__init__(reader)
        self._strategy = strategy
        self._until = until
        self._clock = clock
        self._heard = clock.monotonic()
        self._ended = False

    def poll(self, max_rows: int) -> Batch | None:
        if self._ended:
            raise EndOfSplit
        before = self._reader.position()
        batch = self._reader.poll(max_rows)
        now = self._clock.monotonic()
        if (batch is not None and len(batch)) or self._reader.position() != before:
            self._heard = now
        if batch is None or not len(batch):
            # A reader that passes over records, as filters do, is not quiet.
            if now - self._heard > self._until.quiet_s:
                raise EndOfSplit
            return None
        return self._cut(batch)

    def _cut(self, batch: Batch) -> Batch:
        times = stamp(batch, self._strategy).times
        if self._until.time is None or times is None:
            return batch
        beyond = np.flatnonzero(np.asarray(times) >= self._until.time)
        if not len(beyond):
            return batch
        self._ended = True
        return batch.slice(0, int(beyond[0]))

    def next_poll_ms(self) -> int | None:
        return None

    def on_checkpoint_complete(self, position: Any) -> None:
        """Told to nobody: the original job has its own progress."""


class Recorder(CollectSink):
    """Takes the place of a sink; what the savepoint holds for that one is left to the original job."""

    def deliver(self, collected: Any) -> CommitOutcome:
        """Take recorded rows."""
        if not isinstance(collected, CollectedRows):
            return CommitOutcome.ALREADY_COMMITTED
        return super().deliver(collected)


class Recorders:
    """The recorders of a job by the names of the sinks whose places they take."""

    def __init__(self) -> None:
        self._queues: dict[str, SimpleQueue[Any]] = {}

    def new(self, name: str) -> Recorder:
        """In place of the sink of that name."""
        return Recorder(self._queues.setdefault(name, SimpleQueue()))

    def outputs(self) -> dict[str, Counter[str]]:
        """What each sink got since the last call, as text."""
        found: dict[str, Counter[str]] = {}
        for name, records in self._queues.items():
            found[name] = Counter()
            while not records.empty():
                found[name][str(records.get())] += 1
        return found
