"""A source and a sink for simulated jobs.

The source is replayable and hands out its records at a rate in virtual time.  The sink is a two-phase
one in front of an unforgiving outside system: it notices a commit of what was never published, and of
what an older attempt had to give up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.connectors.sink import CommitOutcome, Committer, Sink, SinkWriter, WriterContext
from penstock.connectors.source import EndOfSplit, Source, Split, SplitEnumerator, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.copying import copied_all
from penstock.core.errors import ConnectorError
from penstock.core.ids import Epoch
from penstock.testing.sim.environment import current
from penstock.testing.sim.faults import SIMULATED

View = Callable[[list[Any]], list[Any]]

_MOST_ROWS = 6
"""Polls hand out one to so many records: small batches give many interleavings."""
_DISCOVERY_MS = 40
_NEW_SPLIT = 0.4
"""The chance that a look for late splits finds the next one."""


class SimSource(Source):
    """Records per split, with event times if ``times`` is given, ``rate`` records a second and split.

    The last ``late_splits`` of them are found only while the job runs, ``late_at_once`` at a time.
    """

    def __init__(
        self,
        splits: Sequence[Sequence[Any]],
        times: Sequence[Sequence[int]] | None = None,
        rate: float = 200.0,
        late_splits: int = 0,
        late_at_once: int = 1,
    ) -> None:
        self._splits = [list(records) for records in splits]
        self._times = None if times is None else [list(part) for part in times]
        self._rate = rate
        self._late = late_splits
        self._at_once = late_at_once
        self.discovery_interval_ms = _DISCOVERY_MS if late_splits else None

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        splits = [Split(f"split-{number}", number) for number in range(len(self._splits))]
        return _SimSplits(splits, self._late, self._at_once)

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        times = None if self._times is None else self._times[split.info]
        return _SimReader(self._splits[split.info], times, position or 0, 1000 / self._rate, clock)


class _SimSplits(SplitEnumerator):
    def __init__(self, splits: list[Split], late: int, at_once: int) -> None:
        self._splits = splits
        self._at_once = at_once
        self._early = len(splits) - late
        self._found = 0

    def discover(self) -> Iterable[Split]:
        if current().faults.hit("discovery_error"):
            raise ConnectorError(f"{SIMULATED}the splits could not be listed")
        start = self._found
        if start < self._early:
            self._found = self._early
        elif not self.is_exhausted() and current().rng.random() < _NEW_SPLIT:
            self._found = min(start + self._at_once, len(self._splits))
            current().tell(f"{self._splits[start].id} has appeared")
        return self._splits[start : self._found]

    def is_exhausted(self) -> bool:
        return self._found == len(self._splits)

    def snapshot(self) -> Any:
        return self._found

    def restore(self, state: Any) -> None:
        self._found = state


class _SimReader(SplitReader):
    def __init__(
        self, records: list[Any], times: list[int] | None, index: int, pause_ms: float, clock: Clock
    ) -> None:
        self._records = records
        self._times = times
        self._index = index
        self._pause_ms = pause_ms
        self._clock = clock
        self._began = clock.monotonic() * 1000 - index * pause_ms
        self._closed = current().opened("readers")
        self._choose_next()

    def _choose_next(self) -> None:
        """How many records the next batch waits for: a poll for each would be all that ever happens."""
        self._awaited = min(current().rng.randint(1, _MOST_ROWS), len(self._records) - self._index)

    def poll(self, max_rows: int) -> Batch | None:
        if self._index >= len(self._records):
            raise EndOfSplit
        if current().faults.hit("source_error"):
            raise ConnectorError(f"{SIMULATED}the split could not be read")
        due = int((self._clock.monotonic() * 1000 - self._began) / self._pause_ms) - self._index
        if due < self._awaited:
            return None
        start = self._index
        self._index = min(start + min(due, max_rows, _MOST_ROWS), len(self._records))
        self._choose_next()
        times = None if self._times is None else self._times[start : self._index]
        return Batch.of_rows(copied_all(self._records[start : self._index]), times)

    def position(self) -> Any:
        return self._index

    def close(self) -> None:
        self._closed()

    def next_poll_ms(self) -> int | None:
        wait = self._began + (self._index + self._awaited) * self._pause_ms - self._clock.monotonic() * 1000
        ended = self._index >= len(self._records)
        return self._clock.now_ms() + (0 if ended else math.ceil(max(0.0, wait)))


class SimSink(Sink):
    """Stages records per snapshot and makes them visible when it is committed.

    ``view`` turns the visible records into what is compared between runs: for results that are split up
    differently in every run but add up to the same.  Results are compared without regard to order.
    """

    def __init__(self, name: str, view: View | None = None) -> None:
        self.name = name
        self.view = view

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _SimWriter(self.name, context)

    def create_committer(self) -> Committer:
        return _SimCommitter(self.name)


class _SimWriter(SinkWriter):
    def __init__(self, name: str, context: WriterContext) -> None:
        self._name = name
        self._context = context
        self._rows: list[Any] = []
        self._closed = current().opened("writers")
        self._discard_leftovers()

    def _discard_leftovers(self) -> None:
        """What older attempts prepared after the restored snapshot is not in any snapshot that counts."""
        context = self._context
        staged = current().sink(self._name).staged
        for transaction, (generation, subtask, epoch, _) in list(staged.items()):
            mine = subtask % context.parallelism == context.subtask
            restored = context.restored_epoch
            if mine and generation < context.generation and (restored is None or epoch > restored):
                del staged[transaction]

    def write(self, batch: Batch) -> None:
        self._rows.extend(batch.to_rows())

    def close(self) -> None:
        self._closed()

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        if not self._rows:
            return []
        context = self._context
        transaction = f"{self._name}/{context.generation}/{context.subtask}/{epoch}"
        staged = current().sink(self._name).staged
        fails = current().faults.hit("writer_error", transaction)
        if fails and current().rng.random() < 0.5:
            raise ConnectorError(f"{SIMULATED}nothing was staged")
        staged[transaction] = (context.generation, context.subtask, int(epoch), self._rows)
        self._rows = []
        if fails:
            raise ConnectorError(f"{SIMULATED}what was staged is not known")
        return [transaction]


class _SimCommitter(Committer):
    def __init__(self, name: str) -> None:
        self._name = name
        self._closed = current().opened("committers")

    def close(self) -> None:
        self._closed()

    def commit(self, committables: Sequence[Any]) -> Sequence[CommitOutcome]:
        faults = current().faults
        if faults.hit("commit_error", self._name):
            raise ConnectorError(f"{SIMULATED}the commit failed")
        if faults.hit("commit_error_after", self._name):
            for transaction in committables[: current().rng.randint(0, len(committables))]:
                self._commit(transaction)
            raise ConnectorError(f"{SIMULATED}the commit's answer got lost")
        outcomes = []
        for transaction in committables:
            if faults.hit("commit_retry", transaction):
                outcomes.append(CommitOutcome.RETRY)
                continue
            if faults.hit("commit_repeated", transaction):
                self._commit(transaction)
            outcomes.append(self._commit(transaction))
        return outcomes

    def abandon(self, job_name: str, sink_id: str, generation: int) -> None:
        staged = current().sink(self._name).staged
        for transaction, (by, *_) in list(staged.items()):
            if by <= generation:
                del staged[transaction]

    def _commit(self, transaction: str) -> CommitOutcome:
        world = current()
        table = world.sink(self._name)
        table.commits.append((world.scheduler.now, transaction))
        if transaction in table.committed:
            return CommitOutcome.ALREADY_COMMITTED
        if transaction not in world.publishable:
            raise world.broken(f"{transaction} is committed before its snapshot was published")
        if transaction not in table.staged:
            raise world.broken(f"{transaction} is committed after it was discarded")
        table.committed[transaction] = table.staged.pop(transaction)[3]
        world.tell(f"committed {transaction}: {len(table.committed[transaction])} records")
        return CommitOutcome.COMMITTED
