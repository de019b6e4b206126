"""The life of a job: start, splits, failures in every phase, cancelling, the end."""

from __future__ import annotations

import pytest
from coord_rig import Claim, Discover, Rig, StartAttempt, StopAttempt, of, permit, restored

from penstock.coordinator.events import (
    AttemptEnded,
    CancelRequested,
    ClaimFailed,
    Commit,
    CommitFailed,
    DiscoveryFailed,
    PublishFailed,
    ReportFailure,
    Send,
    SendAll,
    SlotLost,
    SlotRegistered,
    SlotSaid,
    SplitsDiscovered,
    Start,
    StatusChanged,
)
from penstock.coordinator.phases import JobPhase
from penstock.coordinator.settings import Retention
from penstock.core.errors import (
    ClusterError,
    CorruptSnapshotError,
    FencedError,
    ProcessLostError,
    SnapshotError,
    TransportError,
)
from penstock.core.handles import Committable
from penstock.core.ids import Epoch, Generation, SlotId, SubtaskIndex
from penstock.core.job import JobStatus
from penstock.core.messages import AssignSplits, Deploy, Leave, SplitsSettled, TaskFailed, TaskFinished
from penstock.core.restart import FixedDelay

ONCE = FixedDelay(1, 500)
MANY = FixedDelay(1000, 500)


def test_from_start_to_finish_with_a_final_snapshot() -> None:
    rig = Rig()
    assert rig.give(Start()) == [Claim()]
    assert of(rig.claimed(), Discover) == [Discover(Generation(1), rig.operators["source"], None, True)]
    assert rig.phase is JobPhase.PREPARING
    assert rig.splits("a", "b", "c") == [StartAttempt(Generation(1), 2)]
    sent = of(rig.registered(), Send)
    assert [(m.slot, type(m.message)) for m in sent[:2]] == [(0, Deploy), (1, Deploy)]
    shares = {m.slot: m.message for m in sent[2:]}
    assert [len(shares[SlotId(slot)].splits) for slot in (0, 1)] == [2, 1]
    assert all(isinstance(m, AssignSplits) and m.final for m in shares.values())
    assert rig.deployed()[-1] == StatusChanged(JobStatus.RUNNING)
    rig.finish_tasks()
    assert rig.all[-1].message.epoch == 1
    (publish,) = rig.ack_all(1, b"x")
    assert publish.manifest.epoch == 1 and rig.job.checkpoints.final_published is False
    out = rig.published(1)
    (commit,) = of(out, Commit)
    assert rig.phase is JobPhase.RUNNING
    assert rig.committed(commit) == [
        SendAll(Leave("the job has finished")),
        StopAttempt(Generation(1), "the job has finished"),
    ]
    rig.gang_gone()
    assert rig.end is not None and rig.end.status is JobStatus.FINISHED and rig.end.delete_snapshots
    assert rig.give(Start()) == [] and rig.phase is JobPhase.ENDED
    assert [line.split(" on ")[0] for _, line in rig.job.log][-1] == "STOPPING -> ENDED"


def test_splits_are_assigned_to_the_subtask_that_has_fewest() -> None:
    rig = Rig()
    rig.give(Start())
    rig.claimed()
    rig.splits("a", final=False)
    rig.registered()
    rig.deployed()
    assert of(rig.tick(1000), Discover) == [Discover(Generation(1), rig.operators["source"], None, False)]
    assert rig.tick(5000) == []
    sent = of(rig.splits("b", "c", final=False), Send)
    assert {m.slot: [s.id for s in m.message.splits] for m in sent} == {1: ["b"], 0: ["c"]}
    assert not any(m.message.final for m in sent)
    last = of(rig.splits(final=True), Send)
    assert [(m.slot, m.message.splits, m.message.final) for m in last] == [(0, (), True), (1, (), True)]


def test_everybody_hears_once_when_nothing_more_is_under_way() -> None:
    rig = Rig()
    rig.give(Start())
    rig.claimed()
    rig.splits("history", final=False, expecting=True)
    assert not [m for m in of(rig.registered(), Send) if isinstance(m.message, SplitsSettled)]
    rig.deployed()
    sent = [m.message for m in of(rig.splits("live", final=False), Send)]
    assert [type(message) for message in sent] == [AssignSplits, SplitsSettled, SplitsSettled]
    assert {message.subtask.index for message in sent[1:]} == {0, 1}
    assert not of(rig.splits(final=False), Send)


def test_restored_enumerators_and_leftover_commits_come_before_the_gang() -> None:
    rig = Rig()
    rig.give(Start())
    out = rig.claimed(restored(rig, 7, b"left"), 9)
    assert of(out, Discover)[0].state == b"old"
    (commit,) = of(out, Commit)
    assert rig.splits("a") == []
    assert rig.phase is JobPhase.PREPARING
    assert rig.committed(commit) == [StartAttempt(Generation(1), 2)]
    deploy = of(rig.registered(), Send)[0].message
    assert (deploy.restored_epoch, deploy.restore_root, deploy.attempt) == (7, "root", 0)
    rig.deployed()
    rig.finish_tasks()
    assert rig.all[-1].message.epoch == 10, "epochs go on above everything ever used"


def at(phase: JobPhase, rig: Rig) -> Rig:
    """A job that has come as far as ``phase``."""
    rig.give(Start())
    if phase is JobPhase.CREATED:
        return rig
    rig.claimed()
    if phase is JobPhase.PREPARING:
        return rig
    rig.splits("a")
    if phase is JobPhase.STARTING:
        return rig
    rig.registered()
    if phase is JobPhase.DEPLOYING:
        return rig
    rig.deployed()
    if phase is JobPhase.RUNNING:
        return rig
    rig.give(SlotLost(Generation(1), SlotId(0), "gone"))
    if phase is JobPhase.STOPPING:
        return rig
    rig.gang_gone()
    return rig


GANG = (JobPhase.STARTING, JobPhase.DEPLOYING, JobPhase.RUNNING)
LIVING = [phase for phase in JobPhase if phase is not JobPhase.ENDED]


@pytest.mark.parametrize("phase", LIVING)
@pytest.mark.parametrize("retention", Retention)
def test_cancelling_in_every_phase(phase: JobPhase, retention: Retention) -> None:
    rig = at(phase, Rig(restart=MANY, retention=retention))
    assert rig.phase is phase
    out = rig.give(CancelRequested())
    assert out[0] == StatusChanged(JobStatus.CANCELLING)
    if phase in GANG:
        assert of(out, StopAttempt) and rig.end is None
    if phase in (*GANG, JobPhase.STOPPING):
        rig.gang_gone()
    assert rig.end is not None and rig.end.status is JobStatus.CANCELED
    assert rig.end.delete_snapshots is (retention is Retention.DELETE_ON_CANCELLATION)


@pytest.mark.parametrize("phase", GANG)
@pytest.mark.parametrize("how", ["lost", "ended", "said"])
def test_a_failure_with_a_gang_stops_it_then_waits_then_claims_again(phase: JobPhase, how: str) -> None:
    rig = at(phase, Rig(restart=ONCE))
    rig.job.attempt = 1
    if how == "lost":
        out = rig.give(SlotLost(Generation(1), SlotId(0), "gone"))
    elif how == "ended":
        out = rig.gang_gone(ClusterError("over"))
    else:
        out = rig.said(TaskFailed(rig.plan.subtasks()[0], ValueError("no")))
    assert of(out, ReportFailure)[0].restart_in_ms == 500
    if how == "ended":
        assert not of(out, StopAttempt)
    else:
        assert rig.phase is JobPhase.STOPPING and len(of(out, StopAttempt)) == 1
        assert rig.give(SlotLost(Generation(1), SlotId(1), "gone too")) == []
        rig.gang_gone()
    assert rig.phase is JobPhase.WAITING
    assert rig.job.next_wake() == rig.now + 500
    assert rig.tick(499) == []
    assert rig.tick(1) == [Claim()]
    rig.claimed()
    rig.splits("a")
    rig.registered()
    rig.give(SlotLost(Generation(2), SlotId(0), "again"))
    rig.gang_gone()
    assert rig.end is not None and rig.end.status is JobStatus.FAILED and not rig.end.delete_snapshots


def test_a_failing_enumerator_fails_the_attempt() -> None:
    rig = at(JobPhase.PREPARING, Rig(restart=ONCE))
    rig.give(DiscoveryFailed(Generation(1), rig.operators["source"], ValueError("no topic")))
    assert rig.phase is JobPhase.WAITING
    rig.tick(500)
    rig.claimed()
    rig.give(DiscoveryFailed(Generation(1), rig.operators["source"], ValueError("old news")))
    assert rig.phase is JobPhase.PREPARING
    rig.give(DiscoveryFailed(Generation(2), rig.operators["source"], ValueError("no topic")))
    assert rig.end is not None and rig.end.status is JobStatus.FAILED


@pytest.mark.parametrize("late", ["discovery", "commit", "slot"])
def test_late_news_of_the_old_attempt_does_not_disturb_the_claim(late: str) -> None:
    rig = at(JobPhase.WAITING, Rig(restart=MANY))
    assert rig.tick(500) == [Claim()]
    event = {
        "discovery": DiscoveryFailed(Generation(1), rig.operators["source"], ValueError("x")),
        "commit": CommitFailed(ValueError("x")),
        "slot": SlotLost(Generation(1), SlotId(0), "x"),
    }[late]
    assert rig.give(event) == [] and rig.phase is JobPhase.CREATED
    rig.claimed()
    rig.splits("a")
    assert rig.phase is JobPhase.STARTING
    rig.tick(1000)
    assert rig.phase is JobPhase.STARTING


def test_a_claim_that_fails_ends_the_job() -> None:
    rig = at(JobPhase.CREATED, Rig(restart=MANY))
    rig.give(ClaimFailed(FencedError("somebody else")))
    assert rig.end is not None and rig.end.status is JobStatus.FAILED


def test_slots_that_do_not_come_are_given_up() -> None:
    rig = at(JobPhase.STARTING, Rig(slots_timeout_ms=100))
    rig.give(SlotRegistered(Generation(1), SlotId(0), ("host", 1)))
    assert rig.job.next_wake() == 100
    rig.tick(99)
    assert rig.phase is JobPhase.STARTING
    rig.tick(1)
    rig.gang_gone()
    assert rig.end is not None and "1 of 2 slots" in str(rig.end.error)


def test_an_error_while_first_building_ends_the_job_at_once() -> None:
    rig = at(JobPhase.DEPLOYING, Rig(restart=MANY))
    rig.said(TaskFailed(rig.plan.subtasks()[0], ValueError("bad open")))
    rig.gang_gone()
    assert rig.end is not None and rig.end.status is JobStatus.FAILED
    other = at(JobPhase.DEPLOYING, Rig(restart=MANY))
    other.said(TaskFailed(other.plan.subtasks()[0], TransportError("peer")))
    other.gang_gone()
    assert other.phase is JobPhase.WAITING


def test_only_a_lost_process_is_replaced_while_the_first_gang_starts() -> None:
    rig = at(JobPhase.STARTING, Rig(restart=MANY))
    rig.gang_gone(ClusterError("no Python"))
    assert rig.end is not None and rig.end.status is JobStatus.FAILED
    other = at(JobPhase.STARTING, Rig(restart=MANY))
    other.gang_gone(ProcessLostError("a worker died"))
    assert other.end is None and other.phase is JobPhase.WAITING


def test_damage_found_while_restoring_leads_to_a_claim_with_checksums_once() -> None:
    rig = at(JobPhase.DEPLOYING, Rig(restart=ONCE))
    rig.said(TaskFailed(rig.plan.subtasks()[0], CorruptSnapshotError("bits")))
    assert rig.gang_gone() == [Claim(checksums=True)]
    rig.claimed()
    rig.splits("a")
    rig.registered()
    rig.said(TaskFailed(rig.plan.subtasks()[0], CorruptSnapshotError("bits")))
    assert rig.all[-4:] and rig.phase is JobPhase.STOPPING


def test_messages_of_an_older_generation_change_nothing() -> None:
    rig = Rig(restart=MANY).run()
    old = Generation(0)
    for event in (
        SlotSaid(old, SlotId(0), TaskFailed(rig.plan.subtasks()[0], ValueError())),
        SlotSaid(old, SlotId(0), TaskFinished(rig.plan.subtasks()[0])),
        SlotLost(old, SlotId(0), "x"),
        SlotRegistered(old, SlotId(0), ("x", 1)),
        AttemptEnded(old, None),
        SplitsDiscovered(old, rig.operators["source"], (1,), b"", True),
        DiscoveryFailed(old, rig.operators["source"], ValueError()),
    ):
        assert rig.give(event) == [] and rig.phase is JobPhase.RUNNING


def test_a_fenced_publication_ends_the_job_without_a_restart() -> None:
    rig = Rig(restart=MANY, interval_ms=100).run()
    rig.tick(100)
    rig.ack_all(1)
    out = rig.give(PublishFailed(Epoch(1), FencedError("a newer driver")))
    assert of(out, StopAttempt) and not of(out, ReportFailure)
    rig.gang_gone()
    assert rig.end is not None and rig.end.status is JobStatus.FAILED and not rig.end.delete_snapshots
    assert isinstance(rig.end.error, FencedError)


def test_nobody_has_to_be_woken_for_nothing() -> None:
    """In phases where a due time cannot be acted on it must not be announced: that would spin."""
    rig = Rig(restart=MANY, interval_ms=50)
    rig.give(Start())
    rig.claimed()
    rig.splits("a", final=False)
    assert rig.phase is JobPhase.STARTING and rig.job.next_wake() == rig.settings.slots_timeout_ms
    rig.registered()
    assert rig.phase is JobPhase.DEPLOYING and rig.job.next_wake() == rig.settings.deploy_timeout_ms
    rig.deployed()
    assert rig.job.next_wake() == 50
    rig.give(SlotLost(Generation(1), SlotId(0), "gone"))
    assert rig.job.next_wake() is None


@pytest.mark.parametrize("late", ["claimed", "failed"])
def test_a_claim_that_comes_back_after_the_cancellation_starts_nothing(late: str) -> None:
    rig = at(JobPhase.WAITING, Rig(restart=MANY))
    item = Committable(rig.operators["sink"], Epoch(1), SubtaskIndex(0), b"x")
    rig.job.commits.published((item,), permit(1))
    assert of(rig.tick(after=10**6), Claim) and rig.phase is JobPhase.CREATED
    (commit,) = of(rig.give(CancelRequested()), Commit)
    assert rig.end is None, "what is published is committed first"
    if late == "claimed":
        assert rig.claimed() == []
    else:
        assert rig.give(ClaimFailed(SnapshotError("the storage does not answer"))) == []
    assert rig.phase is JobPhase.STOPPING
    rig.committed(commit)
    assert rig.end is not None and rig.end.status is JobStatus.CANCELED
    assert not of(rig.all[-5:], StartAttempt)
