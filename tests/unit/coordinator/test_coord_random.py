"""Random events: the coordinator never raises and never commits what is not published."""

from __future__ import annotations

import random
from typing import Any

from coord_rig import Rig, of, permit, restored

from penstock.connectors.sink import CommitOutcome
from penstock.coordinator.events import (
    AttemptEnded,
    CancelRequested,
    Claim,
    Claimed,
    Commit,
    CommitDone,
    CommitFailed,
    Discover,
    Publish,
    PublishDone,
    PublishFailed,
    SendAll,
    SlotLost,
    SlotRegistered,
    SlotSaid,
    SplitsDiscovered,
    Start,
    StartAttempt,
    StopAttempt,
    Tick,
)
from penstock.coordinator.phases import JobPhase
from penstock.core.errors import FencedError
from penstock.core.handles import Committable, SubtaskSnapshot
from penstock.core.ids import Epoch, Generation, SlotId
from penstock.core.messages import (
    Deployed,
    SnapshotAck,
    SnapshotDeclined,
    TaskFailed,
    TaskFinished,
    TriggerSnapshot,
)
from penstock.core.restart import FixedDelay

MANY = FixedDelay(10_000, 10)


class World:
    """Answers instructions at random, late, twice or not at all, and watches what is committed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.rig = Rig(
            interval_ms=40,
            timeout_ms=200,
            max_concurrent=self.rng.choice([1, 2]),
            tolerable_failures=self.rng.choice([0, 2]),
            restart=MANY,
            commit_backoff_ms=5,
            committer_retries=3,
        )
        self.queue: list[Any] = [Start()]
        self.true: dict[int, tuple[Committable, ...]] = {}
        self.serial = 0
        self.gangs: set[int] = set()

    def prepared(self, epoch: int, index: Any) -> tuple[Committable, ...]:
        self.serial += 1
        return (Committable(self.rig.operators["sink"], Epoch(epoch), index, str(self.serial).encode()),)

    def answer(self, item: Any) -> list[Any]:
        rig, rng = self.rig, self.rng
        generation = Generation(rig.generation)
        if isinstance(item, Claim):
            rig.generation += 1
            newest = max(self.true, default=None)
            back = None
            if newest is not None:
                back = restored(rig, newest)
                back = type(back)(
                    back.epoch,
                    back.root,
                    self.true[newest],
                    back.enumerators,
                    {},
                    permit(newest, rig.generation),
                )
            return [Claimed(Generation(rig.generation), Epoch(newest or 0), back)]
        if isinstance(item, Discover):
            return [SplitsDiscovered(item.generation, item.operator_id, (), b"", True)]
        if isinstance(item, StartAttempt):
            assert not self.gangs, "two gangs at once"
            self.gangs.add(item.generation)
            return [SlotRegistered(item.generation, SlotId(n), ("", n)) for n in range(item.slots)]
        if isinstance(item, StopAttempt):
            return [AttemptEnded(item.generation, None)]
        if isinstance(item, SendAll) and isinstance(item.message, TriggerSnapshot):
            return self.acknowledge(item.message.epoch, generation)
        if isinstance(item, Publish):
            epoch = item.manifest.epoch
            if rng.random() < 0.1:
                error = FencedError("newer") if rng.random() < 0.1 else OSError("disk")
                return [PublishFailed(epoch, error)]
            self.true[epoch] = item.manifest.committables
            return [PublishDone(epoch, permit(epoch, rig.generation))]
        if isinstance(item, Commit):
            allowed = {c for committables in self.true.values() for c in committables}
            assert set(item.committables) <= allowed, "commits something that is not published"
            assert all(c.epoch <= item.permit.epoch for c in item.committables)
            assert item.permit.epoch in self.true
            if rng.random() < 0.1:
                return [CommitFailed(OSError("broker"))]
            return [
                CommitDone(
                    item.committables, tuple(rng.choice(list(CommitOutcome)) for _ in item.committables)
                )
            ]
        return []

    def acknowledge(self, epoch: Epoch, generation: Generation) -> list[Any]:
        rig, rng = self.rig, self.rng
        acks: list[Any] = [
            SlotSaid(
                generation,
                SlotId(0),
                SnapshotAck(
                    epoch, SubtaskSnapshot(s, (), False), self.prepared(epoch, s.index), 0.0, 0.0, 0.0, 0
                ),
            )
            for s in rig.plan.subtasks()
        ]
        if rng.random() < 0.15:
            acks.append(
                SlotSaid(generation, SlotId(0), SnapshotDeclined(epoch, rig.plan.subtasks()[0], "no"))
            )
        return acks

    def spontaneous(self) -> Any:
        rng, rig = self.rng, self.rig
        generation = Generation(rng.choice([rig.generation, max(0, rig.generation - 1)]))
        slot = SlotId(rng.randint(0, 1))
        subtask = rng.choice(rig.plan.subtasks())
        events = [
            SlotSaid(generation, slot, TaskFinished(subtask)),
            SlotSaid(generation, slot, TaskFailed(subtask, ValueError("x"))),
            SlotLost(generation, slot, "x"),
            SlotRegistered(generation, slot, ("", 1)),
        ]
        return CancelRequested() if rng.random() < 0.02 else rng.choice(events)

    def next_event(self) -> Any:
        if self.queue and self.rng.random() < 0.8:
            return self.queue.pop(self.rng.randrange(min(3, len(self.queue))))
        if self.rig.phase is JobPhase.RUNNING and self.rng.random() < 0.03:
            return self.spontaneous()
        return Tick()

    def run(self, steps: int) -> None:
        rig = self.rig
        for _ in range(steps):
            event = self.next_event()
            if isinstance(event, AttemptEnded):
                self.gangs.discard(event.generation)
            for item in rig.give(event, self.rng.choice([0, 0, 1, 5, 30])):
                self.queue += self.answer(item)
                if isinstance(item, StartAttempt):
                    self.queue += [
                        SlotSaid(item.generation, SlotId(n), Deployed()) for n in range(item.slots)
                    ]
            if rig.phase is JobPhase.ENDED:
                break
        assert rig.end is None or rig.all[-1] is rig.end


def test_random_events_never_raise_and_never_commit_what_is_not_published() -> None:
    worlds = [World(seed) for seed in range(60)]
    for world in worlds:
        world.run(400)
    assert sum(len(of(world.rig.all, Commit)) for world in worlds) > 300, "or nothing was tried"
    assert sum(world.rig.generation for world in worlds) > 150
