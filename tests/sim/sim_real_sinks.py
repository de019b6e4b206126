"""The real generic sink and the real staged epochs, in front of outside systems in memory.

Their committables go under names, as those of all simulation sinks, so that the simulation can see which
of them are published.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from sim_graphs_rocks import DISK
from sim_outside import Faulty, visible

from penstock.connectors.builtin.generic import GenericSink
from penstock.connectors.sink import CommitOutcome, Committer, Sink, SinkWriter, WriterContext
from penstock.connectors.staged import EpochCommitter, StagedEpochs
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError
from penstock.core.ids import Epoch
from penstock.storage.local import LocalStorage
from penstock.testing import SimSink
from penstock.testing.sim.environment import SinkTable, current
from penstock.testing.sim.faults import SIMULATED


class Kept(SinkTable):
    """What a real sink has outside, and its committables by their names."""

    def __init__(self) -> None:
        super().__init__()
        self.committables: dict[str, Any] = {}
        self.epochs: dict[int, list[Any]] = {}
        """For functions that are idempotent in the epoch: the rows of each."""


def kept(name: str) -> Kept:
    table = current().sinks.setdefault(name, Kept())
    assert isinstance(table, Kept)
    return table


class RealSink(SimSink):
    """Runs the writers and committers of ``real()``."""

    @abstractmethod
    def real(self) -> Sink:
        """The sink whose parts are run."""

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return Naming(self.name, self.real().create_writer(context), context)

    def create_committer(self) -> Committer:
        return RealCommitter(self.name, self.real())


class Naming(SinkWriter):
    """Gives committables names."""

    def __init__(self, name: str, real: SinkWriter, context: WriterContext) -> None:
        self._name = name
        self._real = real
        self._context = context

    def write(self, batch: Batch) -> None:
        self._real.write(batch)

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        fails = current().faults.hit("writer_error", self._name)
        if fails and current().rng.random() < 0.5:
            raise ConnectorError(f"{SIMULATED}nothing was staged")
        names = []
        for committable in self._real.prepare_commit(epoch):
            names.append(f"{self._name}/{self._context.generation}/{self._context.subtask}/{epoch}")
            kept(self._name).committables[names[-1]] = committable
        if fails:
            raise ConnectorError(f"{SIMULATED}what was staged is not known")
        return names

    def close(self) -> None:
        self._real.close()


class RealCommitter(Faulty):
    def __init__(self, name: str, real: Sink) -> None:
        super().__init__(name)
        committer = real.create_committer()
        assert committer is not None
        self._real = committer

    def commit_epoch(self, epoch: int, transactions: list[str]) -> list[CommitOutcome]:
        known = kept(self.name).committables
        for transaction in transactions:  # so that nobody takes what is visible for what was never committed
            kept(self.name).committed.setdefault(transaction, [])
        return list(self._real.commit([known[transaction] for transaction in transactions]))


# --- the generic sink: a function that stages, one that publishes handles ---------------------------


class TwoFunctions(RealSink):
    def real(self) -> Sink:
        name = self.name
        return GenericSink(lambda epoch, batch: stage(name, epoch, batch), Publish(name))


def stage(name: str, epoch: int, batch: Batch) -> str:
    table = kept(name)
    handle = f"{name}/{len(table.staged) + len(table.committed)}/{current().rng.random()}/{epoch}"
    table.staged[handle] = (0, 0, epoch, batch.to_rows())
    return handle


class Publish:
    """Makes handles visible that are not."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, epoch: int, handles: list[str]) -> None:
        for handle in self.wanted(epoch, handles):
            rows = kept(self._name).staged.pop(handle, None)
            if rows is not None:
                visible(self._name, handle, rows[3])

    def wanted(self, epoch: int, handles: list[str]) -> Sequence[str]:
        return handles


# --- staged epochs: a function that is idempotent in the epoch --------------------------------------


class ByEpoch(RealSink):
    """The outside system has one place per epoch, which is written over."""

    def real(self) -> Sink:
        return BreakingEpochs(self._deliver, staging(), pa.schema([("value", pa.string())]))

    def _deliver(self, epoch: int, files: Sequence[str]) -> None:
        if current().faults.hit("commit_error", f"{self.name} in the function"):
            raise ConnectorError(f"{SIMULATED}the function failed")
        rows = [row for file in files for row in pq.read_table(file).column("value").to_pylist()]
        before = kept(self.name).epochs.setdefault(epoch, rows)
        if before != rows:
            raise current().broken(f"epoch {epoch} came again with {len(rows)} rows instead of {len(before)}")
        kept(self.name).committed.pop(f"{self.name}/{epoch}", None)
        visible(self.name, f"{self.name}/{epoch}", rows)
        if current().faults.hit("commit_error_after", f"{self.name} behind the function"):
            raise ConnectorError(f"{SIMULATED}the function's answer got lost")


class BreakingEpochs(StagedEpochs):
    """Staged epochs whose driver may go down between any two operations on its files."""

    def create_committer(self) -> Committer:
        return EpochCommitter(self.deliver, storage=lambda path: BreakingStorage())


class BreakingStorage(LocalStorage):
    """Files that the committer cannot rely on."""

    def move(self, source: str, target: str) -> None:
        self._maybe_break("a mark is written")
        super().move(source, target)

    def remove(self, path: str) -> None:
        self._maybe_break("a file is removed")
        super().remove(path)

    def _maybe_break(self, before: str) -> None:
        if current().faults.hit("commit_error_after", f"before {before}"):
            raise ConnectorError(f"{SIMULATED}it broke before {before}")


_places: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def staging() -> str:
    """A directory that lasts as long as the world."""
    world = current()
    if world not in _places:
        place = tempfile.mkdtemp(prefix="penstock-sim-", dir=DISK)
        _places[world] = place
        weakref.finalize(world, shutil.rmtree, place, ignore_errors=True)
    return _places[world]
