"""A slot with two tasks, driven by hand: source, counter, collector, and a disk that can be full."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import cloudpickle

from penstock.connectors.source import EndOfSplit, FixedSplits, Source, Split, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.documents import dump, load
from penstock.core.ids import ChannelId, Epoch, Generation, SlotId, Subtask
from penstock.core.messages import (
    AssignSplits,
    Deploy,
    Deployed,
    FromSlot,
    OperatorRestore,
    SnapshotAck,
    TriggerSnapshot,
)
from penstock.core.signals import SnapshotKind
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.exchange.channel import InputChannel
from penstock.exchange.partition import Hash, Rebalance
from penstock.graph.nodes import GraphBuilder, Link, NodeKind
from penstock.graph.plan import Plan, PlanOptions, PlanSettings, compile_plan
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.source_operator import SourceOperator
from penstock.snapshot.storage import MemoryStore
from penstock.state.descriptors import ValueStateDescriptor
from penstock.task.environment import TaskEnvironment
from penstock.task.slot import Slot

FEED: dict[str, list[Any]] = {}
"""What each split has to give; ``None`` at the end closes it."""
OUT: list[Any] = []
RULES: dict[str, Any] = {}


class Feed(Source):
    def create_enumerator(self, parallelism: int) -> Any:
        return FixedSplits([])

    def open_split(self, split: Split, position: Any, clock: Any) -> SplitReader:
        return FeedReader(split.id, position or 0)


class FeedReader(SplitReader):
    def __init__(self, name: str, position: int) -> None:
        self.name, self.at = name, position

    def poll(self, max_rows: int) -> Batch | None:
        waiting = FEED[self.name][self.at :]
        if not waiting:
            return None
        if waiting[0] is None:
            raise EndOfSplit
        self.at += 1
        return Batch.of_rows([waiting[0]])

    def position(self) -> int:
        return self.at


class Count(Operator):
    """Counts per key, and fails when told to."""

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self.state = ctx.keyed.handle(ValueStateDescriptor("count"))
        self.record: Any = None

    def process(self, batch: Batch, input_index: int = 0) -> None:
        out = []
        for key, row in zip(batch.key_list(), batch.to_rows(), strict=True):
            self.record = row
            if RULES.get("fail") == row:
                raise RULES["error"]
            self.ctx.keyed.scope.key = key
            self.state.update((self.state.value() or 0) + 1)
            out.append((row, self.state.value()))
        self.ctx.out.emit(Batch.of_rows(out))

    def current_record(self) -> Any:
        return self.record


class Collect(Operator):
    """A sink that hands out what it collected as a committable."""

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self.held: list[Any] = []

    def process(self, batch: Batch, input_index: int = 0) -> None:
        self.held += batch.to_rows()
        OUT.extend(batch.to_rows())

    def prepare_barrier(self, epoch: Epoch) -> None:
        if "prepare" in RULES:
            raise RULES["prepare"]

    def committables(self, epoch: Epoch) -> list[Any]:
        prepared, self.held = self.held, []
        return [prepared] if prepared else []

    def finish(self) -> None:
        OUT.append("finish")


class Relay(Operator):
    """Passes on."""

    def process(self, batch: Batch, input_index: int = 0) -> None:
        self.ctx.out.emit(batch)


class Held:
    """Background work that waits until it is told to run."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any, Exception | None], None]]] = []
        self.hold = False

    def submit(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        self.waiting.append((work, done))
        if not self.hold:
            self.run()

    def run(self) -> None:
        waiting, self.waiting = self.waiting, []
        for work, done in waiting:
            try:
                result = work()
            except Exception as error:
                done(None, error)
            else:
                done(result, None)


class OneSlot:
    """No other slots."""

    def connect(self, peers: Any) -> None:
        pass

    def sender(self, slot: SlotId, channel: ChannelId, limit: int) -> Any:
        raise AssertionError("everything is here")

    def register(self, channel: InputChannel) -> None:
        raise AssertionError("everything is here")


class Full(MemoryStore):
    """A disk without room."""

    def write_file(self, path: str, chunks: Any) -> None:
        for _ in chunks:
            pass
        raise OSError("no space left")


def plan() -> Plan:
    """source -> count (keyed) -> relay -> collect, in three tasks."""
    builder = GraphBuilder()
    make = partial(SourceOperator, Feed(), WatermarkStrategy.no_watermarks())
    source = builder.add(NodeKind.SOURCE, "source", make, uid="source", source=Feed())
    count = builder.add(
        NodeKind.OPERATOR,
        "count",
        Count,
        uid="count",
        keyed=True,
        links=(Link(source, partitioning=Hash(first_letter, ())),),
    )
    relay = builder.add(NodeKind.OPERATOR, "relay", Relay, uid="relay", links=(Link(count),))
    builder.add(
        NodeKind.SINK, "collect", Collect, uid="collect", links=(Link(relay, partitioning=Rebalance()),)
    )
    return compile_plan(builder.nodes, "job", PlanOptions(1), PlanSettings(checkpointing=True, max_rows=10))


def first_letter(row: str) -> str:
    return row[0]


class Rig:
    """One slot that runs the plan."""

    def __init__(self, store: MemoryStore | None = None, inline: int | None = None) -> None:
        FEED.clear()
        OUT.clear()
        RULES.clear()
        FEED["s"] = []
        self.plan = plan()
        self.clock = ManualClock()
        self.store = store or MemoryStore()
        if inline is not None:
            self.store.inline_limit = inline
        self.background = Held()
        self.reports: list[FromSlot] = []
        env = TaskEnvironment(
            self.clock,
            self.store,
            self.background,
            self.reports.append,
            lambda root: self.store,
            Generation(1),
        )
        self.slot = Slot(SlotId(0), env, OneSlot())
        self.subtasks = {vertex.name: vertex.subtasks()[0] for vertex in self.plan.vertices}
        self.source, self.middle, self.sink = self.subtasks.values()

    def deploy(self, restore: dict[Subtask, Any] | None = None, epoch: int | None = None) -> Rig:
        at = None if epoch is None else Epoch(epoch)
        root = None if epoch is None else "driver-memory:"
        self.slot.handle(
            Deploy(Generation(1), cloudpickle.dumps(self.plan), dump({}), at, root, restore or {}, 0)
        )
        assert self.reports == [Deployed()], self.reports
        self.slot.handle(AssignSplits(self.source, (Split("s"),), True))
        return self

    def feed(self, *rows: Any) -> None:
        FEED["s"] += rows
        self.settle()

    def settle(self) -> None:
        for _ in range(200):
            self.clock.advance(20)
            self.slot.step()

    def trigger(self, epoch: int) -> None:
        self.slot.handle(TriggerSnapshot(Epoch(epoch), SnapshotKind.CHECKPOINT, 0))
        self.settle()

    def acks(self, epoch: int) -> dict[Subtask, SnapshotAck]:
        found = [r for r in self.reports if isinstance(r, SnapshotAck) and r.epoch == epoch]
        assert len({ack.snapshot.subtask for ack in found}) == len(found), "acknowledged twice"
        return {ack.snapshot.subtask: ack for ack in found}

    def counts(self) -> dict[str, int]:
        task = next(task for task in self.slot.tasks if task.subtask == self.middle)
        table = task._operators[0].operator.ctx.keyed.table("count")
        return {key: table.peek(key) for key in table.entries()}

    def of(self, kind: type) -> list[Any]:
        return [report for report in self.reports if isinstance(report, kind)]


def restore_of(rig: Rig, acks: dict[Subtask, SnapshotAck]) -> dict[Subtask, Any]:
    """What a coordinator would hand to the same subtasks."""
    found: dict[Subtask, Any] = {}
    for subtask, ack in acks.items():
        for state in ack.snapshot.operators:
            lists = {} if state.lists is None else load(rig.store.read_blob(state.lists))
            found.setdefault(subtask, {})[state.operator_id] = OperatorRestore(state.keyed, lists)
    return found
