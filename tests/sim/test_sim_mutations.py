"""Planted engine bugs: each must be found within a number of seeds, or the simulator is not worth its name.

Every mutation is a patch of a real class.  The expected output comes from the engine as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sim_graphs import faults_of, simulation_of
from sim_planted import Patch, Planted, must_be_found

import penstock.coordinator.coordinator
import penstock.coordinator.restore
import penstock.snapshot.repository
import penstock.task.build
from penstock.coordinator.checkpoint_coordinator import CheckpointCoordinator
from penstock.coordinator.commits import CommitQueue
from penstock.coordinator.coordinator import Coordinator
from penstock.coordinator.events import Publish
from penstock.coordinator.phases import JobPhase
from penstock.coordinator.schedule import FailureKind
from penstock.core.handles import Blob, digest
from penstock.core.ids import Generation
from penstock.exchange.barrier_alignment import NOTHING, AtLeastOnce, ExactlyOnce
from penstock.snapshot import permit as permits
from penstock.snapshot.journal import Append, Refused, Seq, history, link, may_publish
from penstock.snapshot.retain import Deletions, plan_deletions
from penstock.state.backend import EVENT_TIMERS
from penstock.state.keyed import KeyedState
from penstock.task.snapshot import SnapshotPhases


def skip_alignment(patch: Patch) -> None:
    patch.setattr(penstock.task.build, "ExactlyOnce", AtLeastOnce)


class _EarlyStorage:
    """Takes a file's bytes and says that it is written."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self.inline_limit = storage.inline_limit
        self.url = storage.url
        self.waiting: list[tuple[str, bytes]] = []

    def write_file(self, path: str, chunks: Any) -> Blob:
        data = b"".join(chunks)
        self.waiting.append((path, data))
        return Blob(len(data), digest(data), path)

    def write_waiting(self) -> None:
        for path, data in self.waiting:
            self._storage.write_file(path, [data])
        self.waiting.clear()


def acknowledge_before_writing(patch: Patch) -> None:
    original = SnapshotPhases.__init__

    def init(self: Any, subtask: Any, operators: Any, writer: Any, env: Any) -> None:
        early = _EarlyStorage(env.storage)

        class Background:
            def submit(self, work: Callable[[], Any], done: Callable[[Any, Any], None]) -> None:
                done(work(), None)
                env.background.submit(early.write_waiting, lambda result, error: None)

        writer._env = dataclasses.replace(env, storage=early)
        original(self, subtask, operators, writer, dataclasses.replace(env, background=Background()))

    patch.setattr(SnapshotPhases, "__init__", init)


def commit_before_publication(patch: Patch) -> None:
    said = Coordinator._on_said

    def on_said(self: Coordinator, event: Any, now: int) -> Any:
        out = said(self, event, now)
        for item in out:
            if isinstance(item, Publish):
                permit = permits.CommitPermit(item.manifest.epoch, self.generation, permits._TOKEN)
                self.commits.published(item.manifest.committables, permit)
        return out

    patch.setattr(Coordinator, "_on_said", on_said)


def no_fence_for_messages(patch: Patch) -> None:
    patch.setattr(penstock.coordinator.coordinator, "is_stale", lambda event, phase, generation: False)


def no_fence_in_the_journal(patch: Patch) -> None:
    """A driver that finds its number taken goes behind whatever is there."""

    def unfenced(entries: Any, generation: Generation, behind: Any = None) -> Append | Refused:
        decision = may_publish(entries, generation, behind)
        chain = history(entries)
        return Append(Seq(chain[-1].seq + 1), link(chain[-1])) if chain else decision

    patch.setattr(penstock.snapshot.repository, "may_publish", unfenced)
    patch.setattr(permits, "may_publish", unfenced)


def forget_timers(patch: Patch) -> None:
    original = KeyedState.freeze

    def freeze(self: KeyedState) -> Any:
        hidden = self._tables.pop(EVENT_TIMERS, None)
        try:
            return original(self)
        finally:
            if hidden is not None:
                self._tables[EVENT_TIMERS] = hidden

    patch.setattr(KeyedState, "freeze", freeze)


def no_redistribution(patch: Patch) -> None:
    """Each subtask gets the list state of the old one with its number, and no other."""

    def own(lists: Any, parallelism: int) -> list[Any]:
        return [dict(lists[n]) if n < len(lists) else {} for n in range(parallelism)]

    patch.setattr(penstock.coordinator.restore, "redistribute", own)


def delete_one_too_many(patch: Patch) -> None:
    def greedy(kept: Any, dropped: Any, newest: Any, seen: Any) -> Deletions:
        planned = plan_deletions(kept, dropped, newest, seen)
        extra = sorted(path for manifest in kept.values() for path in manifest.files())[:1]
        return Deletions(planned.trees, (*planned.files, *extra))

    patch.setattr(penstock.snapshot.repository, "plan_deletions", greedy)


def no_deadline_for_deploying(patch: Patch) -> None:
    original = Coordinator._on_registered

    def patient(self: Coordinator, event: Any, now: int) -> Any:
        out = original(self, event, now)
        if self.phase is JobPhase.DEPLOYING:
            self._deadline = None
        return out

    patch.setattr(Coordinator, "_on_registered", patient)


def end_is_no_barrier(patch: Patch) -> None:
    patch.setattr(ExactlyOnce, "on_end", lambda self, channel: NOTHING)


def late_ack_completes(patch: Patch) -> None:
    """A snapshot that expired is remembered, and what comes late completes it."""
    abort, on_ack = CheckpointCoordinator._abort, CheckpointCoordinator.on_ack

    def remember(self: Any, pending: Any, kind: FailureKind, detail: str) -> Any:
        if kind is FailureKind.EXPIRED:
            self.__dict__.setdefault("expired", {})[pending.epoch] = pending
        return abort(self, pending, kind, detail)

    def take_late(self: Any, ack: Any, now: int) -> Any:
        late = self.__dict__.get("expired", {}).get(ack.epoch)
        if late is None:
            return on_ack(self, ack, now)
        self._pending[ack.epoch] = late
        out = on_ack(self, ack, now)
        self._pending.pop(ack.epoch, None)
        return out

    patch.setattr(CheckpointCoordinator, "_abort", remember)
    patch.setattr(CheckpointCoordinator, "on_ack", take_late)


def no_commit_on_restore(patch: Patch) -> None:
    original = CommitQueue.restart
    patch.setattr(CommitQueue, "restart", lambda self, items, permit: original(self, (), permit))


MUTATIONS: dict[str, Planted] = {
    "skip alignment": Planted(skip_alignment, "repartition", 6),
    "no deadline for deploying": Planted(no_deadline_for_deploying, "chain", 4, oftener={"stuck_open": 0.3}),
    "acknowledge before the file is written": Planted(acknowledge_before_writing, "repartition"),
    "commit before publication": Planted(commit_before_publication, "chain"),
    "no generation fence for messages": Planted(
        no_fence_for_messages,
        "chain",
        3,
        oftener={"zombie": 1.0, "delayed_message": 0.1, "slot_crash": 0.01, "connection_loss": 0.03},
    ),
    "no generation fence in the journal": Planted(no_fence_in_the_journal, "repartition", 81),
    "forget the timers": Planted(forget_timers, "two_inputs"),
    "no redistribution of list state": Planted(no_redistribution, "chain", 25),
    "retention deletes one file too many": Planted(delete_one_too_many, "repartition"),
    "end of input is no barrier": Planted(end_is_no_barrier, "union"),
    "a late acknowledgement completes an expired snapshot": Planted(late_ack_completes, "repartition", 131),
    "no commit on restore": Planted(no_commit_on_restore, "chain", 6),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_planted_bugs_are_found(name: str, monkeypatch: Patch) -> None:
    must_be_found(MUTATIONS[name], monkeypatch)


def test_a_slot_that_never_opens_costs_an_attempt_and_nothing_else() -> None:
    simulation = simulation_of("chain")
    faults = replace(faults_of("chain"), stuck_open=0.3)
    stuck = sum(simulation.check(seed, faults).faults["stuck_open"] for seed in range(8))
    assert stuck > 0
