"""Planted bugs in the protocols of two-phase sinks, one place each: all must be found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import sim_outside
from sim_outside import BrokerCommitter, BrokerWriter, DatabaseCommitter, DatabaseWriter, LakeCommitter
from sim_planted import Patch, Planted, must_be_found
from sim_real_sinks import Publish, kept

from penstock.connectors import staged as staged_epochs
from penstock.connectors.builtin.generic import _GenericWriter
from penstock.connectors.sink import CommitOutcome
from penstock.connectors.staged import EpochCommitter, EpochFileWriter
from penstock.coordinator.checkpoint_coordinator import CheckpointCoordinator

# --- the broker -----------------------------------------------------------------------------------


def epoch_of_the_producer_ignored(patch: Patch) -> None:
    """A repeated commit ends whatever its id has open now."""
    patch.setattr(BrokerCommitter, "is_same", lambda self, producer, prepared: True)


def ids_without_the_attempt(patch: Patch) -> None:
    """Two attempts fence each other's producers."""
    patch.setattr(
        BrokerWriter, "id_of", lambda self, number: f"{self.name}-0-{self.context.subtask}-{number}"
    )


def ids_used_again_too_soon(patch: Patch) -> None:
    """An id is taken again at the next barrier, whether its transaction is through or not."""

    def stage(self: BrokerWriter, transaction: str, epoch: int, rows: list[Any]) -> None:
        broker, id = sim_outside.broker(self.name), self.id_of(0)
        fence = broker.init_transactions(id)
        broker.produce(id, fence, transaction, rows)
        broker.prepared[transaction] = sim_outside.Prepared(id, fence)

    patch.setattr(BrokerWriter, "stage", stage)


# --- the database ---------------------------------------------------------------------------------


def closing_rolls_back(patch: Patch) -> None:
    """A writer that ends takes what it prepared with it; the committer thinks that it was committed."""

    def close(self: DatabaseWriter) -> None:
        staged, mine = sim_outside.database(self.name).staged, (self.context.generation, self.context.subtask)
        for transaction in [name for name, facts in staged.items() if facts[:2] == mine]:
            del staged[transaction]

    patch.setattr(DatabaseCommitter, "is_done", lambda self, transaction: True)
    patch.setattr(DatabaseWriter, "close", close)


def no_table_of_commits(patch: Patch) -> None:
    """A repeated commit is taken for one whose transaction was rolled back."""
    patch.setattr(DatabaseCommitter, "is_done", lambda self, transaction: False)


def names_without_the_attempt(patch: Patch) -> None:
    """What a failed attempt has prepared is committed in place of what the next one meant."""

    def transaction(self: DatabaseWriter, epoch: Any) -> str:
        return f"{self.name}/{self.context.subtask}/{epoch}"

    def stage(self: DatabaseWriter, transaction: str, epoch: int, rows: list[Any]) -> None:
        staged = sim_outside.database(self.name).staged
        staged.setdefault(transaction, (self.context.generation, self.context.subtask, epoch, rows))

    patch.setattr(DatabaseWriter, "transaction", transaction)
    patch.setattr(DatabaseWriter, "stage", stage)
    patch.setattr(DatabaseWriter, "is_left_over", lambda self, generation, subtask, epoch: False)


# --- the table format -----------------------------------------------------------------------------


def no_transaction_number(patch: Patch) -> None:
    """A repeated commit adds the same files once more."""

    def commit_epoch(self: LakeCommitter, epoch: int, transactions: list[str]) -> list[CommitOutcome]:
        table = sim_outside.lake(self.name)
        known = {name: rows for name, (_, _, _, rows) in table.staged.items()} | table.committed
        return [sim_outside.visible(self.name, file, known[file]) for file in transactions]

    patch.setattr(LakeCommitter, "commit_epoch", commit_epoch)


def newest_epoch_first(patch: Patch) -> None:
    """What is older is then taken for done."""

    def newest_first(self: Any, epochs: Iterable[Any]) -> list[Any]:
        return sorted(epochs, reverse=True)

    patch.setattr(LakeCommitter, "ordered", newest_first)


# --- the real ones --------------------------------------------------------------------------------


def epochs_instead_of_handles(patch: Patch) -> None:
    """A user's commit that takes everything with the epoch's number, also what a failed attempt wrote."""

    def wanted(self: Publish, epoch: int, handles: list[str]) -> Sequence[str]:
        return [handle for handle, staged in list(kept(self._name).staged.items()) if staged[2] == epoch]

    patch.setattr(Publish, "wanted", wanted)


def rows_of_the_epoch_before(patch: Patch) -> None:
    """A writer that keeps what it has prepared."""
    original = _GenericWriter.prepare_commit

    def prepare_commit(self: Any, epoch: Any) -> list[Any]:
        batches = list(self._batches)
        prepared = original(self, epoch)
        self._batches = batches if current_epoch_is_odd(epoch) else []
        return prepared

    patch.setattr(_GenericWriter, "prepare_commit", prepare_commit)


def current_epoch_is_odd(epoch: int) -> bool:
    return int(epoch) % 2 == 1


def no_mark(patch: Patch) -> None:
    """Files that are gone are the only sign that an epoch is through: a part of it looks like all of it."""

    def commit(self: EpochCommitter, epoch: int, directory: str, group: list[Any]) -> CommitOutcome:
        storage = self._storage(directory)
        files = sorted(staged_epochs.join(directory, name) for staged in group for name in staged.names)
        there = [file for file in files if storage.exists(file)]
        if not there:
            return CommitOutcome.ALREADY_COMMITTED
        self._deliver(epoch, there)
        for file in there:
            storage.remove(file)
        return CommitOutcome.COMMITTED

    patch.setattr(EpochCommitter, "_commit", commit)


def mark_before_the_function(patch: Patch) -> None:
    """A crash between the two loses the epoch."""
    original = EpochCommitter._check_all_there

    def check(self: EpochCommitter, epoch: int, files: Any, group: Any) -> None:
        original(self, epoch, files, group)
        names = sorted({name for staged in group for name in staged.names})
        self._write_mark(group[0].directory, epoch, names)

    patch.setattr(EpochCommitter, "_check_all_there", check)


def closing_removes_files(patch: Patch) -> None:
    """A writer that ends takes along what it has staged; the committer thinks that it was delivered."""
    no_mark(patch)

    def close(self: EpochFileWriter) -> None:
        for path in self._storage.list_files(self._directory):
            if self._stem in path:
                self._storage.remove(path)

    patch.setattr(EpochFileWriter, "close", close)


def abandons_what_is_in_doubt(patch: Patch) -> None:
    """A cancelled job removes what a snapshot counts on of which nobody knows whether it was published."""
    patch.setattr(CheckpointCoordinator, "is_settled", property(lambda self: True))


MUTATIONS: dict[str, Planted] = {
    "cancelled: abandons what is in doubt": Planted(
        abandons_what_is_in_doubt, "two_phase_broker_crowded", 38, oftener={"interrupt": 0.1}
    ),
    "broker: the producer's epoch is ignored": Planted(epoch_of_the_producer_ignored, "two_phase_broker", 1),
    "broker: ids without the attempt": Planted(ids_without_the_attempt, "two_phase_broker_crowded", 57),
    "broker: ids used again too soon": Planted(ids_used_again_too_soon, "two_phase_broker"),
    "database: closing rolls back": Planted(closing_rolls_back, "two_phase_database", 27),
    "database: no table of commits": Planted(no_table_of_commits, "two_phase_database"),
    "database: names without the attempt": Planted(names_without_the_attempt, "two_phase_database", 78),
    "table format: no transaction number": Planted(no_transaction_number, "two_phase_lake"),
    "table format: newest epoch first": Planted(newest_epoch_first, "two_phase_lake"),
    "generic: epochs instead of handles": Planted(epochs_instead_of_handles, "two_phase_generic", 9),
    "generic: rows of the epoch before": Planted(rows_of_the_epoch_before, "two_phase_generic"),
    "epochs: no mark": Planted(no_mark, "two_phase_epochs", 54),
    "epochs: mark before the function": Planted(mark_before_the_function, "two_phase_epochs", 39),
    "epochs: closing removes files": Planted(closing_removes_files, "two_phase_epochs", 7),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_planted_bugs_are_found(name: str, monkeypatch: Patch) -> None:
    must_be_found(MUTATIONS[name], monkeypatch)
