"""Tasks in slots: barriers, finished tasks, aborted and failed writes, and errors people can read."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from task_rig import FEED, OUT, RULES, Full, Relay, Rig, restore_of

from penstock.core.documents import dump, load
from penstock.core.errors import TimestampError, UserCodeError
from penstock.core.ids import Epoch, Generation
from penstock.core.messages import (
    AbortSnapshot,
    Deploy,
    Leave,
    SnapshotAck,
    SnapshotCompleted,
    SnapshotDeclined,
    TaskFailed,
    TaskFinished,
    TriggerSnapshot,
)
from penstock.core.signals import SnapshotKind
from penstock.operators.chain import OperatorInput
from penstock.task import chain
from penstock.task.slot import SlotPhase


def test_a_barrier_goes_through_all_tasks_and_cuts_between_records() -> None:
    rig = Rig().deploy()
    rig.feed("a1", "b1", "a2")
    rig.trigger(1)
    acks = rig.acks(1)
    assert set(acks) == set(rig.subtasks.values())
    assert OUT == [("a1", 1), ("b1", 1), ("a2", 2)]
    (committable,) = acks[rig.sink].committables
    assert load(committable.payload) == OUT and committable.epoch == 1
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


def test_each_of_several_triggers_is_answered_by_tasks_whose_input_ends_before_the_barriers() -> None:
    """A savepoint, and right behind it a checkpoint: neither may wait for ever."""
    rig = Rig().deploy()
    FEED["s"] += ["a1", None]
    for _ in range(20):
        rig.clock.advance(20)
        rig.slot.tasks[0].step()
    for epoch, kind in (
        (1, SnapshotKind.SAVEPOINT),
        (2, SnapshotKind.CHECKPOINT),
        (3, SnapshotKind.CHECKPOINT),
    ):
        rig.slot.handle(TriggerSnapshot(Epoch(epoch), kind, 0))
    rig.slot.handle(AbortSnapshot(Epoch(2)))
    rig.settle()
    assert set(rig.acks(2)) == {rig.source}, "that one was given up"
    for epoch in (1, 3):
        assert set(rig.acks(epoch)) == set(rig.subtasks.values()), epoch
    assert [ack.epoch for ack in rig.of(SnapshotAck) if ack.snapshot.subtask == rig.sink] == [1, 3]


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
    assert "task_rig.py" in error.trace
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
    rig.slot.handle(Deploy(Generation(1), b"not a plan", dump({}), None, None, {}, 0))
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
    beside = chain._PACKAGE.rstrip("/\\") + "-jobs/job.py"
    namespace: dict[str, Any] = {}
    exec(compile("def broken():\n    raise ValueError('mine')\n", beside, "exec"), namespace)
    step = OperatorInput(Relay(), lambda error, operator: chain.explain_failure(error, "s", "0", operator))
    with pytest.raises(UserCodeError) as caught:
        step.run(namespace["broken"])
    assert beside in caught.value.trace and "chain.py" not in caught.value.trace
    assert caught.value.record is None
