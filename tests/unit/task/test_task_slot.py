"""Tasks in slots: barriers, finished tasks, aborted and failed writes, and errors people can read."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import cloudpickle
import pytest

from penstock.connectors.source import EndOfSplit, FixedSplits, Source, Split, SplitReader
from penstock.connectors.watermarks import WatermarkStrategy
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.errors import TimestampError, UserCodeError
from penstock.core.ids import ChannelId, Epoch, Generation, SlotId, Subtask
from penstock.core.messages import (
    AbortSnapshot,
    AssignSplits,
    Deploy,
    Deployed,
    FromSlot,
    Leave,
    OperatorRestore,
    SnapshotAck,
    SnapshotCompleted,
    SnapshotDeclined,
    TaskFailed,
    TaskFinished,
    TriggerSnapshot,
)
from penstock.core.signals import SnapshotKind
from penstock.exchange.channel import InputChannel
from penstock.exchange.partition import Hash, Rebalance
from penstock.graph.nodes import GraphBuilder, Link, NodeKind
from penstock.graph.plan import Plan, PlanOptions, compile_plan
from penstock.operators.chain import OperatorInput
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.source_operator import SourceOperator
from penstock.snapshot.memory import MemoryStore
from penstock.state.descriptors import ValueStateDescriptor
from penstock.task import failures
from penstock.task.environment import TaskEnvironment
from penstock.task.slot import Slot, SlotPhase

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
    return compile_plan(builder.nodes, "job", PlanOptions(1), {"checkpointing": True, "max_rows": 10})


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
        self.slot.handle(Deploy(Generation(1), cloudpickle.dumps(self.plan), {}, at, root, restore or {}, 0))
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
            lists = {} if state.lists is None else pickle.loads(rig.store.read_blob(state.lists))
            found.setdefault(subtask, {})[state.operator_id] = OperatorRestore(state.keyed, lists)
    return found


def test_a_barrier_goes_through_all_tasks_and_cuts_between_records() -> None:
    rig = Rig().deploy()
    rig.feed("a1", "b1", "a2")
    rig.trigger(1)
    acks = rig.acks(1)
    assert set(acks) == set(rig.subtasks.values())
    assert OUT == [("a1", 1), ("b1", 1), ("a2", 2)]
    (committable,) = acks[rig.sink].committables
    assert pickle.loads(committable.payload) == OUT and committable.epoch == 1
    rig.feed("a3", None)
    assert OUT[3:] == [("a3", 3), "finish"]
    fresh = Rig()
    FEED["s"] = ["a1", "b1", "a2", "a3", None]
    fresh.deploy(restore_of(rig, acks), 1)
    fresh.settle()
    assert OUT == [("a3", 3), "finish"], "goes on exactly behind the barrier, with the state of then"


def test_finished_tasks_answer_and_the_job_can_take_its_final_snapshot() -> None:
    rig = Rig().deploy()
    rig.feed("a1", None)
    assert [report.subtask for report in rig.of(TaskFinished)] == list(rig.subtasks.values())
    rig.trigger(1)
    acks = rig.acks(1)
    assert set(acks) == set(rig.subtasks.values()) and all(ack.snapshot.finished for ack in acks.values())
    assert len(acks[rig.sink].committables) == 1
    rig.slot.handle(SnapshotCompleted(Epoch(1)))
    rig.trigger(2)
    assert rig.acks(2)[rig.sink].committables == ()
    rig.slot.handle(Leave("done"))
    assert rig.slot.phase is SlotPhase.LEFT and not rig.slot.step()


def test_a_trigger_is_remembered_by_tasks_whose_input_ends_before_the_barrier() -> None:
    rig = Rig().deploy()
    FEED["s"] += ["a1", None]
    source = rig.slot.tasks[0]
    for _ in range(20):
        rig.clock.advance(20)
        source.step()
    assert [report.subtask for report in rig.of(TaskFinished)] == [rig.source]
    rig.slot.handle(TriggerSnapshot(Epoch(1), SnapshotKind.CHECKPOINT, 0))
    assert set(rig.acks(1)) == {rig.source}, "the others have not come to their end yet"
    rig.settle()
    assert set(rig.acks(1)) == set(rig.subtasks.values())
    assert len(rig.acks(1)[rig.sink].committables) == 1


def test_an_aborted_trigger_is_not_answered_at_the_end() -> None:
    rig = Rig().deploy()
    FEED["s"] += ["a1", None]
    for _ in range(20):
        rig.clock.advance(20)
        rig.slot.tasks[0].step()
    rig.slot.handle(TriggerSnapshot(Epoch(1), SnapshotKind.CHECKPOINT, 0))
    rig.slot.handle(AbortSnapshot(Epoch(1)))
    rig.settle()
    assert set(rig.acks(1)) == {rig.source}
    rig.trigger(2)
    assert set(rig.acks(2)) == set(rig.subtasks.values())


def test_records_flow_while_state_is_written_and_the_file_holds_the_moment_of_the_barrier() -> None:
    rig = Rig().deploy()
    rig.feed("a1", "a2")
    rig.background.hold = True
    rig.trigger(1)
    rig.feed("a3", "b1")
    rig.trigger(2)
    rig.feed("a4")
    assert rig.counts() == {"a": 4, "b": 1} and rig.of(SnapshotAck) == []
    rig.background.run()
    for epoch, expected in ((1, ["a"]), (2, ["a", "b"])):
        again = Rig(rig.store)
        FEED["s"] = ["x"] * 10
        again.deploy(restore_of(rig, rig.acks(epoch)), epoch)
        assert sorted(again.counts()) == expected
    assert again.counts()["a"] == 3


def test_an_abort_while_the_write_is_running_disturbs_nothing() -> None:
    rig = Rig().deploy()
    rig.feed("a1")
    rig.background.hold = True
    rig.trigger(1)
    rig.slot.handle(AbortSnapshot(Epoch(1)))
    rig.feed("a2", "b1")
    assert rig.counts() == {"a": 2, "b": 1}
    rig.background.run()
    assert rig.acks(1) == {} and rig.counts() == {"a": 2, "b": 1}
    rig.background.hold = False
    rig.trigger(2)
    acks = rig.acks(2)
    assert set(acks) == set(rig.subtasks.values())
    assert [c.epoch for c in acks[rig.sink].committables] == [1, 2], "prepared output is handed on"


def test_aborting_a_newer_snapshot_leaves_an_older_one_alone() -> None:
    rig = Rig().deploy()
    source = rig.slot.tasks[0]
    rig.feed("a1")
    for epoch in (1, 2):
        source.trigger(TriggerSnapshot(Epoch(epoch), SnapshotKind.CHECKPOINT, 0))
    rig.slot.handle(AbortSnapshot(Epoch(2)))
    rig.settle()
    assert set(rig.acks(1)) == set(rig.subtasks.values())
    assert set(rig.acks(2)) <= {rig.source}
    rig.trigger(3)
    assert set(rig.acks(3)) == set(rig.subtasks.values())


def test_small_state_travels_with_the_acknowledgement_and_large_state_in_a_file() -> None:
    small = Rig(inline=1 << 20).deploy()
    small.feed("a1")
    small.trigger(1)
    blobs = [b for s in small.acks(1)[small.middle].snapshot.operators for b in s.blobs()]
    assert blobs and all(blob.inline is not None for blob in blobs) and small.store.list() == []
    large = Rig(inline=10).deploy()
    large.feed(*(f"{chr(97 + n % 26)}{n}" for n in range(60)))
    large.trigger(1)
    for subtask in (large.source, large.middle):
        for state in large.acks(1)[subtask].snapshot.operators:
            for blob in state.blobs():
                assert blob.path is not None and len(large.store.read_blob(blob)) == blob.length
    assert large.store.list() and all(path.startswith("chk-1/") for path in large.store.list())
    again = Rig(large.store)
    FEED["s"] = ["x"] * 100
    again.deploy(restore_of(large, large.acks(1)), 1)
    assert len(again.counts()) == 26


def test_a_write_that_fails_declines_the_snapshot_and_nothing_else() -> None:
    rig = Rig(Full(), inline=0).deploy()
    rig.feed("a1")
    rig.trigger(1)
    declined = rig.of(SnapshotDeclined)
    assert declined and all("no space left" in each.reason and not each.overtaken for each in declined)
    assert rig.middle in {each.subtask for each in declined}
    rig.feed("a2")
    assert rig.counts() == {"a": 2} and rig.slot.phase is SlotPhase.RUNNING


def test_a_users_error_names_step_and_record_and_shows_only_the_users_frames() -> None:
    rig = Rig().deploy()
    RULES.update(fail="b2", error=ValueError("cannot do b2"))
    rig.feed("a1", "b2")
    (failed,) = rig.of(TaskFailed)
    assert rig.slot.phase is SlotPhase.LEFT and failed.subtask == rig.middle
    error = failed.error
    assert isinstance(error, UserCodeError)
    assert (error.step, error.record) == ("count", "'b2'")
    assert "cannot do b2" in error.trace and "penstock/" not in error.trace.replace("tests/", "")
    assert __file__ in error.trace
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_an_error_while_preparing_a_snapshot_names_the_step() -> None:
    rig = Rig().deploy()
    rig.feed("a1")
    RULES["prepare"] = ValueError("flush failed")
    rig.trigger(1)
    (failed,) = rig.of(TaskFailed)
    assert isinstance(failed.error, UserCodeError) and failed.error.step == "collect"
    assert failed.subtask == rig.sink


def test_an_error_of_ours_says_where_once() -> None:
    rig = Rig().deploy()
    RULES.update(fail="b2", error=TimestampError("no event time"))
    rig.feed("b2")
    (failed,) = rig.of(TaskFailed)
    assert isinstance(failed.error, TimestampError)
    assert str(failed.error) == "step 'count', subtask 0: no event time"


def test_an_error_while_deploying_is_reported() -> None:
    rig = Rig()
    rig.slot.handle(Deploy(Generation(1), b"not a plan", {}, None, None, {}, 0))
    assert len(rig.of(TaskFailed)) == 1 and rig.slot.phase is SlotPhase.LEFT
    rig.slot.handle(Leave("again"))


def test_a_slot_tells_when_it_wants_to_be_woken() -> None:
    rig = Rig().deploy()
    rig.settle()
    deadline = rig.slot.next_deadline_ms()
    assert deadline is not None and rig.clock.now_ms() < deadline + 20
    rig.feed(None)
    assert rig.slot.next_deadline_ms() is None


def test_a_program_beside_the_engine_is_not_taken_for_the_engine() -> None:
    beside = failures._PACKAGE.rstrip("/\\") + "-jobs/job.py"
    namespace: dict[str, Any] = {}
    exec(compile("def broken():\n    raise ValueError('mine')\n", beside, "exec"), namespace)
    step = OperatorInput(Relay(), lambda error, operator: failures.explain_failure(error, "s", "0", operator))
    with pytest.raises(UserCodeError) as caught:
        step.run(namespace["broken"])
    assert beside in caught.value.trace and "chain.py" not in caught.value.trace
    assert caught.value.record is None
