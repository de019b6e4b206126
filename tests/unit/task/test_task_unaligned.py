"""Unaligned snapshots of real tasks: backpressured, recording, given up, restored, rescaled."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import cloudpickle
import pytest
from task_rig import FEED, OUT, Collect, Count, Feed, Rig, first_letter, restore_of

from penstock.connectors.source import Split
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.documents import dump
from penstock.core.errors import SnapshotError
from penstock.core.handles import Blob, ChannelHandle
from penstock.core.ids import ChannelId, EdgeId, Epoch, Generation, SubtaskIndex
from penstock.core.messages import (
    AbortSnapshot,
    AssignSplits,
    Deploy,
    SnapshotDeclined,
    TaskFailed,
    TriggerSnapshot,
)
from penstock.core.signals import CancelBarrier, SnapshotKind
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.exchange.channel_state import encode
from penstock.exchange.partition import Hash, Rebalance
from penstock.graph.nodes import GraphBuilder, Link, NodeKind
from penstock.graph.plan import Plan, PlanOptions, PlanSettings, compile_plan
from penstock.operators.source_operator import SourceOperator
from penstock.snapshot.storage import MemoryStore
from penstock.task.pacing import BUDGET_S, FIRST_ROWS, GROWTH, Pace
from penstock.task.restoring import recovered
from penstock.task.task import Task


def two_sources(parallelism: int = 1, **settings: Any) -> Plan:
    """Two sources -> count (keyed) -> collect, in four tasks; queues of one batch."""
    builder = GraphBuilder()
    make = partial(SourceOperator, Feed(), WatermarkStrategy.no_watermarks())
    sources = [
        builder.add(NodeKind.SOURCE, name, make, uid=name, source=Feed()) for name in ("first", "second")
    ]
    links = tuple(Link(source, partitioning=Hash(first_letter, ())) for source in sources)
    count = builder.add(NodeKind.OPERATOR, "count", Count, uid="count", keyed=True, links=links)
    builder.add(
        NodeKind.SINK, "collect", Collect, uid="collect", links=(Link(count, partitioning=Rebalance()),)
    )
    known = PlanSettings(checkpointing=True, max_rows=10, channel_bytes=1, unaligned=True)
    return compile_plan(
        builder.nodes, "job", PlanOptions(parallelism, buffer_timeout_ms=0), replace(known, **settings)
    )


class TwoSources(Rig):
    """The plan in one slot; tasks are stepped one by one."""

    def __init__(self, store: MemoryStore | None = None, **settings: Any) -> None:
        super().__init__(store)
        FEED.update(first=[], second=[])
        self.plan = two_sources(**settings)
        self.subtasks = {vertex.name: vertex.subtasks()[0] for vertex in self.plan.vertices}

    def deploy(
        self,
        restore: dict[Any, Any] | None = None,
        epoch: int | None = None,
        channels: tuple[ChannelHandle, ...] = (),
    ) -> TwoSources:
        at, root = (None, None) if epoch is None else (Epoch(epoch), "driver-memory:")
        plan = cloudpickle.dumps(self.plan)
        self.slot.handle(Deploy(Generation(1), plan, dump({}), at, root, restore or {}, 0, channels))
        names = ("first", "second")
        for task, name in zip(self.slot.tasks, names, strict=False):
            self.slot.handle(AssignSplits(task.subtask, (Split(name),) if restore is None else (), True))
        self.first, self.second, self.count, self.collect = self.slot.tasks or [None] * 4
        return self

    def step(self, *tasks: Task | None) -> None:
        self.clock.advance(20)
        for task in tasks:
            assert task is not None
            task.step()

    def begin(self, epoch: int, unaligned: bool = True) -> None:
        """The trigger alone: nothing is stepped."""
        now = self.clock.now_ms()
        self.slot.handle(TriggerSnapshot(Epoch(epoch), SnapshotKind.CHECKPOINT, now, unaligned))

    def stuck(self) -> None:
        """``count`` cannot emit: ``collect`` has not taken what it emitted last."""
        FEED["first"] += ["a1", "a2", "b1"]
        FEED["second"] += ["a3"]
        self.step(self.first)
        self.step(self.count)
        self.step(self.first, self.second)
        assert self.count is not None and not self.count.writable()
        assert self.counts() == {"a": 1}

    def counts(self) -> dict[str, int]:
        assert self.count is not None
        table = self.count._operators[0].operator.ctx.keyed.table("count")
        return {key: table.peek(key) for key in table.entries()}


def test_a_task_that_cannot_emit_takes_part() -> None:
    rig = TwoSources().deploy()
    rig.stuck()
    rig.begin(1)
    for _ in range(2):
        rig.step(rig.count)
    rig.step(rig.collect)
    acks = rig.acks(1)
    assert len(acks) == 4, "all have answered while the records wait"
    handles = [handle for ack in acks.values() for handle in ack.snapshot.channels]
    assert {handle.edge for handle in handles} == {rig.plan.edge_name(EdgeId(n)) for n in range(3)}
    for ack in acks.values():
        assert ack.snapshot.persisted == sum(handle.blob.length for handle in ack.snapshot.channels)
        assert ack.state_bytes >= ack.snapshot.persisted


def test_records_in_flight_come_back_first() -> None:
    rig = TwoSources().deploy()
    rig.stuck()
    rig.begin(1)
    rig.step(rig.count, rig.collect)
    acks = rig.acks(1)
    rig.settle()
    assert rig.counts() == {"a": 3, "b": 1}
    through = list(OUT)
    restore = restore_of(rig, acks)
    channels = tuple(handle for ack in acks.values() for handle in ack.snapshot.channels)
    again = TwoSources(rig.store)
    FEED["first"] += ["a1", "a2", "b1", "b2"]
    FEED["second"] += ["a3"]
    again.deploy(restore, 1, channels)
    assert again.counts() == {"a": 1}
    again.settle()
    assert again.counts() == {"a": 3, "b": 2}
    assert sorted(OUT[: len(through)]) == sorted(through) and OUT[len(through) :] == [("b2", 2)]


def test_the_next_snapshot_holds_what_has_not_been_served_yet() -> None:
    rig = TwoSources().deploy()
    rig.stuck()
    rig.begin(1)
    rig.step(rig.count, rig.collect)
    first = rig.acks(1)
    channels = tuple(handle for ack in first.values() for handle in ack.snapshot.channels)
    again = TwoSources(rig.store)
    again.deploy(restore_of(rig, first), 1, channels)
    again.begin(2)
    again.step(again.count, again.collect)
    second = again.acks(2)
    rows = {
        subtask: [
            row
            for handle in ack.snapshot.channels
            for _, batch in recovered(
                rig.plan,
                rig.plan.vertex(subtask.vertex),
                SubtaskIndex(0),
                [ChannelId(EdgeId(n), SubtaskIndex(0), SubtaskIndex(0)) for n in range(3)],
                [handle],
                rig.store,
            )
            for row in batch.to_rows()
        ]
        for subtask, ack in second.items()
    }
    assert sorted(rows[again.subtasks["count"]]) == ["a2", "a3"]
    assert rows[again.subtasks["collect"]] == [("a1", 1)]


def test_the_snapshot_is_written_when_the_last_barrier_has_come() -> None:
    rig = TwoSources().deploy()
    rig.background.hold = True
    FEED["first"] += ["a1"]
    FEED["second"] += ["b1"]
    rig.first.trigger(TriggerSnapshot(Epoch(1), SnapshotKind.CHECKPOINT, 0, True))
    rig.step(rig.count)
    assert len(rig.background.waiting) == 1, "only the source writes: a barrier is missing"
    rig.step(rig.second)
    rig.step(rig.count)
    assert rig.counts() == {"b": 1}, "what is recorded is processed as well"
    rig.second.trigger(TriggerSnapshot(Epoch(1), SnapshotKind.CHECKPOINT, 0, True))
    rig.step(rig.count)
    rig.background.run()
    ack = rig.acks(1)[rig.count.subtask]
    assert [(int(handle.sender), handle.edge) for handle in ack.snapshot.channels] == [
        (0, rig.plan.edge_name(EdgeId(1)))
    ]
    assert ack.alignment_ms == pytest.approx(60)


def test_a_snapshot_given_up_while_it_records_leaves_nothing_behind() -> None:
    rig = TwoSources().deploy()
    rig.first.trigger(TriggerSnapshot(Epoch(1), SnapshotKind.CHECKPOINT, 0, True))
    rig.step(rig.count)
    rig.slot.handle(AbortSnapshot(Epoch(1)))
    rig.step(rig.count)
    assert [item.epoch for item in rig.of(SnapshotDeclined)] == [1]
    assert CancelBarrier(Epoch(1)) in list(rig.slot.tasks[3]._gate._channels[0])
    rig.begin(1)
    rig.begin(2)
    rig.settle()
    assert set(rig.acks(1)) == {rig.first.subtask}
    assert len(rig.acks(2)) == 4


def test_an_aligned_checkpoint_switches_when_its_time_is_up() -> None:
    rig = TwoSources(aligned_timeout_ms=500).deploy()
    rig.stuck()
    rig.begin(1, unaligned=False)
    rig.step(rig.count, rig.collect)
    assert rig.count.subtask not in rig.acks(1)
    deadline = rig.slot.next_deadline_ms()
    assert deadline is not None
    assert rig.count.next_deadline_ms() == deadline or rig.collect.next_deadline_ms() is None
    rig.clock.advance(500)
    rig.step(rig.count, rig.collect)
    assert len(rig.acks(1)) == 4
    assert rig.acks(1)[rig.count.subtask].snapshot.channels


def test_a_task_whose_senders_have_finished_answers_at_once() -> None:
    rig = TwoSources().deploy()
    FEED["first"] += ["a1", "a2", None]
    FEED["second"] += [None]
    for task in (rig.first, rig.count, rig.first, rig.count, rig.second):
        rig.step(task)
    assert rig.count.writable() is False
    rig.first._finish()
    rig.begin(1)
    rig.step(rig.count, rig.collect)
    assert set(rig.acks(1)) == {task.subtask for task in rig.slot.tasks}
    assert rig.acks(1)[rig.count.subtask].snapshot.channels, "nothing had to be processed for it"


def test_records_of_an_exchange_that_is_gone_are_refused() -> None:
    data = b"".join(encode([Batch.of_rows(["a"])]))
    handle = ChannelHandle("gone>away/0.0", SubtaskIndex(0), SubtaskIndex(0), Blob.of(data))
    rig = TwoSources().deploy(channels=(handle,))
    (failed,) = rig.of(TaskFailed)
    assert isinstance(failed.error, SnapshotError)
    assert "gone>away" in str(failed.error) and "take a savepoint" in str(failed.error)


@pytest.mark.parametrize("before", [1, 2, 3, 5])
@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_records_in_flight_find_their_keys_at_any_parallelism(before: int, after: int) -> None:
    plan, store = two_sources(after), MemoryStore()
    rows = [f"{chr(97 + n % 26)}{n}" for n in range(60)]
    keyed, dealt = plan.edge_name(EdgeId(0)), plan.edge_name(EdgeId(2))
    handles = []
    for receiver in range(before):
        mine = Batch.of_rows(rows[receiver::before])
        for edge in (keyed, dealt):
            blob = Blob.of(b"".join(encode([mine])))
            handles.append(ChannelHandle(edge, SubtaskIndex(0), SubtaskIndex(receiver), blob))
    for edge_id in (0, 2):
        vertex = plan.vertex(plan.edges[edge_id].target)
        found: list[str] = []
        for index in range(after):
            channels = [
                ChannelId(EdgeId(edge_id), SubtaskIndex(n), SubtaskIndex(index)) for n in range(after)
            ]
            mine_now = recovered(plan, vertex, SubtaskIndex(index), channels, handles, store)
            batches = [batch for number, batch in mine_now if number == 0]
            found += [row for batch in batches for row in batch.to_rows()]
        assert sorted(found) == sorted(rows)


# --- how much at a time -------------------------------------------------------------------------


def test_slow_rows_are_served_a_few_at_a_time() -> None:
    pace = Pace(8192)
    assert pace.rows == FIRST_ROWS == 1
    for _ in range(7):
        pace.took(pace.rows, pace.rows * 1e-6)
    assert pace.rows == 8192, "a microsecond each: no batch is cut"
    pace.took(8192, 8.192)
    assert pace.rows == pytest.approx(BUDGET_S / 1e-3, abs=1), "a millisecond each"
    pace.took(50, 500.0)
    assert pace.rows == 1
    pace.took(1, 0.0)
    assert pace.rows == GROWTH, "what one row cost says little of thousands"


def test_a_slow_task_gives_way_between_pieces_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = TwoSources(channel_bytes=1 << 20)
    pieces: list[int] = []

    def slow(self: Count, batch: Batch, input_index: int = 0) -> None:
        pieces.append(len(batch))
        clock.advance(len(batch))

    monkeypatch.setattr(Count, "process", slow)
    rig.deploy()
    clock: ManualClock = rig.clock
    channel = rig.count._gate._channels[0]
    channel.put(Batch.of_rows(["a"] * 1000), 64_000)
    rig.step(rig.count)
    assert pieces == [1, 4, 16, BUDGET_S * 1000], "then the others have their turn"
    rig.step(rig.count)
    rig.step(rig.count)
    assert pieces[4:] == [BUDGET_S * 1000] * (len(pieces) - 4) and len(pieces) <= 8
    for _ in range(20):
        rig.step(rig.count)
    assert sum(pieces) == 1000
    assert channel.queued_bytes == 0
