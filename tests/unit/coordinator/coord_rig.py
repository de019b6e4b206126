"""A coordinator without a world: events by hand, instructions looked at."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, TypeVar

from penstock.connectors.sink import CommitOutcome
from penstock.connectors.source import FixedSplits, Source, Split
from penstock.coordinator.coordinator import Coordinator
from penstock.coordinator.events import (
    AttemptEnded,
    Claim,
    Claimed,
    Commit,
    CommitDone,
    Discover,
    EndJob,
    Event,
    Instruction,
    Publish,
    PublishDone,
    SendAll,
    SlotRegistered,
    SlotSaid,
    SplitsDiscovered,
    Start,
    StartAttempt,
    StopAttempt,
    Tick,
)
from penstock.coordinator.phases import JobPhase
from penstock.coordinator.restored import Restored
from penstock.coordinator.settings import JobSettings
from penstock.core.clock import Now
from penstock.core.handles import Committable, SubtaskSnapshot
from penstock.core.ids import Epoch, Generation, MonoMs, OperatorId, SlotId, Subtask, SubtaskIndex, WallMs
from penstock.core.messages import (
    AbortSnapshot,
    Deployed,
    FromSlot,
    SnapshotAck,
    SnapshotDeclined,
    TaskFinished,
    TriggerSnapshot,
)
from penstock.exchange.partition import Rebalance
from penstock.graph.nodes import GraphBuilder, Link, NodeKind
from penstock.graph.plan import Plan, PlanOptions, compile_plan
from penstock.operators.operator import Operator
from penstock.snapshot import permit as permits
from penstock.snapshot.permit import CommitPermit

T = TypeVar("T")
CALENDAR = 1_700_000_000_000
"""What the calendar says when the other clock of a rig says 0."""


class Numbers(Source):
    """A source that is only asked what it is."""

    def create_enumerator(self, parallelism: int) -> Any:
        return FixedSplits([])

    def open_split(self, split: Split, position: Any, clock: Any) -> Any:
        raise AssertionError("not opened here")


def plan_of(parallelism: int = 2) -> Plan:
    """source -> (rebalance) -> sink."""
    builder = GraphBuilder()
    source = builder.add(NodeKind.SOURCE, "source", Operator, uid="source", source=Numbers())
    builder.add(NodeKind.SINK, "sink", Operator, uid="sink", links=(Link(source, partitioning=Rebalance()),))
    return compile_plan(builder.nodes, "test", PlanOptions(parallelism))


def permit(epoch: int, generation: int = 1) -> CommitPermit:
    """A permit as publishing would give it."""
    return CommitPermit(Epoch(epoch), Generation(generation), permits._TOKEN)


class Rig:
    """Drives one coordinator and remembers everything it wanted."""

    def __init__(self, parallelism: int = 2, auto_splits: bool = True, **settings: Any) -> None:
        self.plan = plan_of(parallelism)
        self.settings = JobSettings(**settings)
        self.job = Coordinator(self.plan, b"plan", "job-id", self.settings, random.Random(1))
        self.now = 0
        self.generation = 0
        self.all: list[Instruction] = []
        self.operators = {planned.node.name: planned.operator_id for _, planned in self.plan.operators()}

    # --- events -----------------------------------------------------------------------------

    def give(self, event: Event, after: int = 0) -> list[Instruction]:
        self.now += after
        out = self.job.handle(event, Now(MonoMs(self.now), WallMs(CALENDAR + self.now)))
        self.all += out
        return out

    def tick(self, after: int = 0) -> list[Instruction]:
        return self.give(Tick(), after)

    def said(self, message: FromSlot, slot: int = 0, after: int = 0) -> list[Instruction]:
        return self.give(SlotSaid(Generation(self.generation), SlotId(slot), message), after)

    def claimed(self, restored: Restored | None = None, last_epoch: int = 0) -> list[Instruction]:
        self.generation += 1
        return self.give(Claimed(Generation(self.generation), Epoch(last_epoch), restored))

    def splits(self, *names: str, final: bool = True, expecting: bool = False) -> list[Instruction]:
        found = tuple(Split(name) for name in names)
        source, generation = self.operators["source"], Generation(self.generation)
        return self.give(SplitsDiscovered(generation, source, found, b"state", final, expecting))

    def registered(self) -> list[Instruction]:
        out = []
        for slot in range(self.plan.slots):
            out += self.give(SlotRegistered(Generation(self.generation), SlotId(slot), ("host", slot)))
        return out

    def deployed(self) -> list[Instruction]:
        out = []
        for slot in range(self.plan.slots):
            out += self.said(Deployed(), slot)
        return out

    def run(self, restored: Restored | None = None, last_epoch: int = 0) -> Rig:
        """From the claim (asked for before) to RUNNING."""
        if self.job.generation == 0 and not self.all:
            assert self.give(Start()) == [Claim()]
        self.claimed(restored, last_epoch)
        self.splits("s0", "s1", "s2")
        self.registered()
        self.deployed()
        assert self.job.phase is JobPhase.RUNNING
        return self

    def ack(
        self, epoch: int, subtask: Subtask, *payloads: bytes, prepared: int | None = None
    ) -> list[Instruction]:
        committables = tuple(
            Committable(self.operators["sink"], Epoch(prepared or epoch), subtask.index, payload)
            for payload in payloads
        )
        snapshot = SubtaskSnapshot(subtask, (), False)
        return self.said(SnapshotAck(Epoch(epoch), snapshot, committables, 1.0, 2.0, 0.0, 10))

    def ack_all(self, epoch: int, *payloads: bytes, prepared: int | None = None) -> list[Instruction]:
        """All subtasks; the last one (of the sink) carries the committables."""
        out = []
        subtasks = self.plan.subtasks()
        for subtask in subtasks[:-1]:
            out += self.ack(epoch, subtask)
        return out + self.ack(epoch, subtasks[-1], *payloads, prepared=prepared)

    def decline(self, epoch: int, overtaken: bool = False) -> list[Instruction]:
        return self.said(SnapshotDeclined(Epoch(epoch), self.plan.subtasks()[0], "disk full", overtaken))

    def published(self, epoch: int) -> list[Instruction]:
        return self.give(PublishDone(Epoch(epoch), permit(epoch, self.generation)))

    def committed(
        self, commit: Commit, outcome: CommitOutcome = CommitOutcome.COMMITTED
    ) -> list[Instruction]:
        return self.give(CommitDone(commit.committables, (outcome,) * len(commit.committables)))

    def finish_tasks(self) -> list[Instruction]:
        out = []
        for subtask in self.plan.subtasks():
            out += self.said(TaskFinished(subtask))
        return out

    def gang_gone(self, error: Exception | None = None) -> list[Instruction]:
        return self.give(AttemptEnded(Generation(self.generation), error))

    # --- looking ----------------------------------------------------------------------------

    @property
    def phase(self) -> JobPhase:
        return self.job.phase

    @property
    def end(self) -> EndJob | None:
        ends = of(self.all, EndJob)
        assert len(ends) <= 1
        return ends[0] if ends else None


def of(instructions: Iterable[Instruction], kind: type[T]) -> list[T]:
    """Those of one kind."""
    return [item for item in instructions if isinstance(item, kind)]


def triggers(instructions: Iterable[Instruction]) -> list[int]:
    return [
        item.message.epoch for item in of(instructions, SendAll) if isinstance(item.message, TriggerSnapshot)
    ]


def aborts(instructions: Iterable[Instruction]) -> list[int]:
    return [
        item.message.epoch for item in of(instructions, SendAll) if isinstance(item.message, AbortSnapshot)
    ]


def payloads(items: Iterable[Committable]) -> list[bytes]:
    return [item.payload for item in items]


def restored(rig: Rig, epoch: int, *left_over: bytes) -> Restored:
    """A snapshot to go on from, with committables that nobody confirmed."""
    items = tuple(
        Committable(rig.operators["sink"], Epoch(epoch), SubtaskIndex(0), data) for data in left_over
    )
    enumerators: dict[OperatorId, bytes] = {rig.operators["source"]: b"old"}
    return Restored(Epoch(epoch), "root", items, enumerators, {}, permit(epoch, rig.generation + 1))


__all__ = [
    "Claim",
    "Discover",
    "Publish",
    "Rig",
    "StartAttempt",
    "StopAttempt",
    "aborts",
    "of",
    "payloads",
    "permit",
    "plan_of",
    "restored",
    "triggers",
]
