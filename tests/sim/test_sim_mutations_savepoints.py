"""Planted bugs around savepoints: each must be found within a number of seeds."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from sim_planted import Patch, Planted, must_be_found

import penstock.coordinator.restore_source
from penstock.coordinator.checkpoint_coordinator import CheckpointCoordinator
from penstock.coordinator.job_storage import JobStorage
from penstock.coordinator.manifests import ManifestMaker
from penstock.task.snapshot import SnapshotPhases


def no_checkpoint_behind_it(patch: Patch) -> None:
    """Whoever asked for the savepoint is answered as soon as it is written."""

    def on_written(self: CheckpointCoordinator, epoch: Any, now: int) -> Any:
        return [] if self._publishing.pop(epoch, None) is None else self.requests.done(epoch)

    patch.setattr(CheckpointCoordinator, "on_written", on_written)


def the_named_one_always_wins(patch: Patch) -> None:
    """A driver that is started again goes back to the savepoint on its command line."""
    patch.setattr(
        penstock.coordinator.restore_source,
        "choose",
        lambda own, start: own if start is None else start.found,
    )


def never_looks_back(patch: Patch) -> None:
    """A driver that was replaced before it was through tells people that the job has stopped."""
    original = JobStorage.drop

    def drop(self: JobStorage) -> None:
        original(self)

    patch.setattr(JobStorage, "drop", drop)


def prepared_output_left_out(patch: Patch) -> None:
    """What the sinks prepared for a savepoint is not in it."""
    original = ManifestMaker.make

    def make(self: ManifestMaker, pending: Any, now: int, carried: Any) -> Any:
        manifest = original(self, pending, now, carried)
        return dataclasses.replace(manifest, committables=()) if pending.standalone else manifest

    patch.setattr(ManifestMaker, "make", make)


def prepared_output_given_away(patch: Patch) -> None:
    """What the sinks prepared for a savepoint is in no checkpoint."""
    original = SnapshotPhases.take

    def take(self: SnapshotPhases, barrier: Any, *rest: Any) -> None:
        original(self, barrier, *rest)
        if barrier.location is not None:
            self.completed(barrier.epoch)

    patch.setattr(SnapshotPhases, "take", take)


MUTATIONS: dict[str, Planted] = {
    "no checkpoint behind a savepoint": Planted(
        no_checkpoint_behind_it, "chain", 19, oftener={"savepoint": 0.1, "slot_crash": 0.05}
    ),
    "the named savepoint always wins": Planted(the_named_one_always_wins, "chain", 91),
    "a replaced driver says the job has stopped": Planted(
        never_looks_back,
        "chain",
        99,
        oftener={"stop": 0.05, "driver_hang": 0.05, "driver_hang_in_storage": 0.05},
    ),
    "a savepoint lacks the prepared output": Planted(prepared_output_left_out, "chain", 35),
    "checkpoints lack what a savepoint prepared": Planted(prepared_output_given_away, "chain", 15),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_planted_bugs_are_found(name: str, monkeypatch: Patch) -> None:
    must_be_found(MUTATIONS[name], monkeypatch)
