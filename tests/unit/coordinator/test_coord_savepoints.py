"""Requests of people, as the coordinator sees them: savepoints, stop, drain, checkpoints out of turn."""

from __future__ import annotations

from coord_rig import Rig, aborts, of, payloads, triggers

from penstock.coordinator.events import (
    Answer,
    CancelRequested,
    Commit,
    CommitFailed,
    Instruction,
    Publish,
    PublishFailed,
    RequestKind,
    SavepointWritten,
    SendAll,
    SlotLost,
    SnapshotRequest,
    SnapshotRequested,
)
from penstock.coordinator.phases import JobPhase
from penstock.core.ids import Epoch, Generation, SlotId
from penstock.core.job import JobStatus
from penstock.core.messages import EndInput, SnapshotCompleted, TriggerSnapshot
from penstock.core.restart import FixedDelay
from penstock.core.signals import SnapshotKind

MANY = FixedDelay(10_000, 10)
PLACE = "file:///sp/savepoint-1"


def ask(rig: Rig, kind: RequestKind, name: str = "r") -> list[Instruction]:
    place = None if kind is RequestKind.CHECKPOINT else PLACE
    return rig.give(SnapshotRequested(SnapshotRequest(name, kind, place)))


def trigger_of(out: list[Instruction]) -> TriggerSnapshot:
    (found,) = [one.message for one in of(out, SendAll) if isinstance(one.message, TriggerSnapshot)]
    return found


def answers(rig: Rig) -> list[tuple[str, str]]:
    """All answers so far: name, and place or error."""
    given = of(rig.all, Answer) + list(rig.end.answers if rig.end else ())
    return [(one.request.id, str(one.error) if one.error else str(one.where)) for one in given]


# --- plain savepoints -----------------------------------------------------------------------------


def test_a_savepoint_is_a_copy_beside_the_history() -> None:
    rig = Rig(interval_ms=100).run()
    message = trigger_of(ask(rig, RequestKind.SAVEPOINT))
    assert (message.kind, message.location, message.stop) == (SnapshotKind.SAVEPOINT, PLACE, False)
    (publish,) = of(rig.ack_all(1, b"prepared"), Publish)
    assert publish.standalone and publish.location == PLACE
    assert payloads(publish.manifest.committables) == [b"prepared"]
    out = rig.give(SavepointWritten(Epoch(1)))
    assert not of(out, Commit), "nothing is committed for it"
    # The sink still holds what it prepared: a checkpoint follows, takes it along and commits it.
    assert triggers(out) == [2] and answers(rig) == []
    rig.ack_all(2, b"prepared", prepared=1)
    (commit,) = of(rig.published(2), Commit)
    assert payloads(commit.committables) == [b"prepared"]
    assert answers(rig) == [("r", PLACE)]


def test_without_checkpoints_a_savepoint_is_answered_at_once() -> None:
    rig = Rig().run()
    ask(rig, RequestKind.SAVEPOINT)
    rig.ack_all(1)
    assert triggers(rig.give(SavepointWritten(Epoch(1)))) == []
    assert answers(rig) == [("r", PLACE)]


def test_a_failure_right_behind_a_savepoint_is_told() -> None:
    rig = Rig(interval_ms=100, restart=MANY).run()
    ask(rig, RequestKind.SAVEPOINT)
    rig.ack_all(1)
    rig.give(SavepointWritten(Epoch(1)))
    rig.give(SlotLost(Generation(1), SlotId(0), "gone"))
    assert f"{PLACE} is complete, but" in answers(rig)[0][1]


def test_savepoints_take_no_room_and_subsume_nothing() -> None:
    rig = Rig(interval_ms=100, max_concurrent=1).run()
    assert triggers(rig.tick(100)) == [1]
    assert triggers(ask(rig, RequestKind.SAVEPOINT)) == [2], "a checkpoint in flight does not delay it"
    assert aborts(rig.ack_all(2)) == [], "the older checkpoint goes on"
    rig.ack_all(1)
    assert triggers(rig.published(1)) == []
    assert triggers(rig.tick(100)) == [3], "a savepoint in flight does not delay a checkpoint"


def test_a_newer_checkpoint_leaves_a_slow_savepoint_alone() -> None:
    rig = Rig(interval_ms=100).run()
    ask(rig, RequestKind.SAVEPOINT)
    rig.tick(100)
    assert aborts(rig.ack_all(2, b"later")) == []
    (commit,) = of(rig.published(2), Commit)
    assert payloads(commit.committables) == [b"later"]
    (publish,) = of(rig.ack_all(1, b"earlier"), Publish)
    assert payloads(publish.manifest.committables) == [b"earlier"], (
        "output of the newer checkpoint is made again by whoever starts from the savepoint"
    )
    assert triggers(rig.give(SavepointWritten(Epoch(1)))) == [] and answers(rig) == [("r", PLACE)]


def test_a_failed_savepoint_does_not_count_against_the_job() -> None:
    rig = Rig(interval_ms=1000, timeout_ms=50, tolerable_failures=0).run()
    ask(rig, RequestKind.SAVEPOINT, "slow")
    rig.tick(50)
    ask(rig, RequestKind.SAVEPOINT, "declined")
    rig.decline(2)
    ask(rig, RequestKind.SAVEPOINT, "unwritten")
    rig.ack_all(3)
    rig.give(PublishFailed(Epoch(3), OSError("disk full")))
    assert rig.phase is JobPhase.RUNNING
    told = dict(answers(rig))
    assert "longer than the checkpoint timeout" in told["slow"]
    assert "could not take part" in told["declined"] and "disk full" in told["unwritten"]
    assert [one.discard for one in of(rig.all, Answer)] == [True, True, False]


def test_requests_wait_until_the_job_runs_and_fail_with_the_gang() -> None:
    rig = Rig(interval_ms=1000, restart=MANY)
    ask(rig, RequestKind.SAVEPOINT, "early")
    rig.all.clear()
    rig.run()
    assert triggers(rig.all) == [1]
    rig.give(SlotLost(Generation(1), SlotId(0), "gone"))
    assert "the job restarts: gone" in dict(answers(rig))["early"]
    ask(rig, RequestKind.SAVEPOINT, "between")
    rig.gang_gone()
    rig.tick(10)
    rig.run(last_epoch=1)
    rig.ack_all(2)
    rig.give(SavepointWritten(Epoch(2)))
    rig.ack_all(3)
    rig.published(3)
    assert dict(answers(rig))["between"] == PLACE


def test_a_checkpoint_out_of_turn() -> None:
    rig = Rig(interval_ms=1000).run()
    assert triggers(ask(rig, RequestKind.CHECKPOINT)) == [1]
    rig.ack_all(1)
    assert of(rig.published(1), SendAll)[0].message == SnapshotCompleted(Epoch(1))
    assert answers(rig) == [("r", "chk-1")]


# --- the end --------------------------------------------------------------------------------------


def test_stop_commits_before_the_job_ends() -> None:
    rig = Rig(interval_ms=100).run()
    message = trigger_of(ask(rig, RequestKind.STOP))
    assert message.stop and message.location == PLACE
    assert triggers(rig.tick(500)) == [], "no checkpoint comes behind it"
    assert rig.job.next_wake() is not None and rig.job.next_wake() > rig.now, "and nobody spins for one"
    (publish,) = of(rig.ack_all(1, b"c"), Publish)
    assert not publish.standalone and publish.location == PLACE
    (commit,) = of(rig.published(1), Commit)
    assert rig.phase is JobPhase.RUNNING and answers(rig) == []
    rig.committed(commit)
    assert rig.phase is JobPhase.STOPPING
    rig.gang_gone()
    assert rig.end is not None and rig.end.status is JobStatus.FINISHED and rig.end.delete_snapshots
    assert answers(rig) == [("r", PLACE)]


def test_a_stop_that_fails_lets_the_job_go_on() -> None:
    rig = Rig(interval_ms=100).run()
    ask(rig, RequestKind.STOP)
    assert aborts(rig.decline(1)) == [1], "which also lets the sources read on"
    assert "the job goes on" in answers(rig)[0][1]
    assert triggers(rig.tick(100)) == [2]


def test_a_failure_behind_the_savepoint_names_it() -> None:
    rig = Rig(interval_ms=100, restart=MANY).run()
    ask(rig, RequestKind.STOP)
    rig.ack_all(1, b"c")
    rig.published(1)
    rig.give(CommitFailed(OSError("no network")))
    assert rig.phase is JobPhase.STOPPING
    assert f"{PLACE} is complete, but the job did not end with it" in answers(rig)[0][1]
    rig.gang_gone()
    assert rig.phase is JobPhase.WAITING and rig.end is None


def test_nothing_else_is_begun_while_the_job_stops() -> None:
    rig = Rig(interval_ms=100).run()
    ask(rig, RequestKind.SAVEPOINT, "first")
    assert triggers(ask(rig, RequestKind.STOP, "stop")) == [], "the end waits for the savepoint"
    ask(rig, RequestKind.SAVEPOINT, "late")
    assert answers(rig) == [("late", "the job is being stopped with a savepoint already")]
    rig.ack_all(1)
    out = rig.give(SavepointWritten(Epoch(1)))
    assert trigger_of(out).stop and rig.job.checkpoints.requests.ending is not None


def test_drain_ends_the_input_and_makes_the_last_snapshot_the_savepoint() -> None:
    rig = Rig(interval_ms=100).run()
    out = ask(rig, RequestKind.DRAIN)
    assert [one.message for one in of(out, SendAll)] == [EndInput()]
    assert triggers(rig.tick(500)) == []
    message = trigger_of(rig.finish_tasks())
    assert message.location == PLACE and message.kind is SnapshotKind.SAVEPOINT
    rig.ack_all(1, b"last")
    (commit,) = of(rig.published(1), Commit)
    rig.committed(commit)
    rig.gang_gone()
    assert rig.end is not None and rig.end.status is JobStatus.FINISHED
    assert answers(rig) == [("r", PLACE)]


def test_a_drain_that_fails_goes_back_to_before_the_end_of_input() -> None:
    rig = Rig(interval_ms=100, restart=MANY).run()
    ask(rig, RequestKind.DRAIN)
    rig.finish_tasks()
    rig.decline(1)
    assert rig.phase is JobPhase.STOPPING, "the input was ended: the job cannot just go on"
    assert "could not take part" in answers(rig)[0][1]
    rig.gang_gone()
    assert rig.phase is JobPhase.WAITING


def test_a_job_that_is_finishing_anyway_ends_with_the_savepoint() -> None:
    rig = Rig(interval_ms=100).run()
    rig.tick(100)
    rig.finish_tasks()
    ask(rig, RequestKind.STOP)
    rig.ack_all(1)
    message = trigger_of(rig.published(1))
    assert (message.epoch, message.location) == (2, PLACE)


def test_cancelling_answers_everything() -> None:
    rig = Rig(interval_ms=100).run()
    ask(rig, RequestKind.SAVEPOINT, "one")
    ask(rig, RequestKind.STOP, "two")
    rig.give(CancelRequested())
    rig.gang_gone()
    told = dict(answers(rig))
    assert "the job was cancelled" in told["one"] and "before its savepoint began" in told["two"]
