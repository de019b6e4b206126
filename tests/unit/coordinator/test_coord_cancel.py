"""A job cancelled while a snapshot is under way: what is published is committed, the rest given up."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from coord_rig import Claim, Publish, Rig, of, payloads, restored

from penstock.connectors.sink import CommitOutcome
from penstock.coordinator.events import CancelRequested, Commit, CommitFailed, PublishFailed, SlotLost, Start
from penstock.coordinator.phases import JobPhase
from penstock.core.errors import ConnectorError, SnapshotError, SparkLostError
from penstock.core.ids import Epoch, Generation, SlotId
from penstock.core.job import JobStatus
from penstock.core.restart import FixedDelay


def publishing() -> Rig:
    """The manifest of epoch 1 is being written."""
    rig = Rig(interval_ms=100, restart=FixedDelay(1, 500)).run()
    rig.tick(100)
    assert of(rig.ack_all(1, b"x"), Publish)
    return rig


@pytest.mark.parametrize("first", ["published", "gone"])
def test_a_checkpoint_that_is_being_published_is_committed_before_the_end(first: str) -> None:
    rig = publishing()
    rig.give(CancelRequested())
    if first == "published":
        assert not of(rig.published(1), Commit), "the gang is still there"
        out = rig.gang_gone()
    else:
        rig.gang_gone()
        assert rig.end is None, "it may be published any moment"
        out = rig.published(1)
    (commit,) = of(out, Commit)
    assert payloads(commit.committables) == [b"x"] and rig.end is None
    rig.committed(commit)
    assert rig.end is not None and rig.end.status is JobStatus.CANCELED
    assert rig.end.abandoned == Generation(1) and rig.end.delete_snapshots


def test_one_that_may_have_been_published_takes_nothing_away() -> None:
    rig = publishing()
    rig.give(CancelRequested())
    rig.gang_gone()
    rig.give(PublishFailed(Epoch(1), SnapshotError("no answer")))
    assert rig.end is not None and rig.end.status is JobStatus.CANCELED
    assert rig.end.abandoned is None, "a later start may find that it is published"


def test_what_is_prepared_for_no_checkpoint_is_abandoned() -> None:
    rig = Rig(interval_ms=100).run()
    rig.tick(100)
    rig.ack(1, rig.plan.subtasks()[-1], b"x")
    rig.give(CancelRequested())
    rig.gang_gone()
    assert rig.end is not None and rig.end.abandoned == Generation(1)


def test_nothing_is_abandoned_that_may_be_wanted() -> None:
    never_ran = Rig(interval_ms=100)
    never_ran.claimed()
    never_ran.give(CancelRequested())
    no_checkpoints = Rig().run()
    no_checkpoints.give(CancelRequested())
    no_checkpoints.gang_gone()
    not_committed = publishing()
    (commit,) = of(not_committed.published(1), Commit)
    not_committed.give(CancelRequested())
    not_committed.gang_gone()
    not_committed.committed(commit, CommitOutcome.RETRY)
    assert not_committed.end is None
    not_committed.give(CommitFailed(ConnectorError("gone")))
    for rig in (never_ran, no_checkpoints, not_committed):
        assert rig.end is not None and rig.end.abandoned is None


def test_after_a_failure_a_late_publication_changes_nothing_for_the_next_attempt() -> None:
    """The claim comes behind it and finds it."""
    rig = publishing()
    rig.gang_gone(SnapshotError("over"))
    assert rig.published(1) == []
    assert rig.tick(500) == [Claim()]
    (commit,) = of(rig.claimed(restored(rig, 1, b"x"), last_epoch=1), Commit)
    assert payloads(commit.committables) == [b"x"] and not rig.job.checkpoints.is_publishing


def created() -> Rig:
    rig = Rig(interval_ms=100, restart=FixedDelay(3, 500))
    rig.give(Start())
    return rig


def preparing() -> Rig:
    rig = created()
    rig.claimed()
    return rig


def starting() -> Rig:
    rig = preparing()
    rig.splits("s0")
    return rig


def deploying() -> Rig:
    rig = starting()
    rig.registered()
    return rig


def running() -> Rig:
    rig = deploying()
    rig.deployed()
    return rig


def stopping() -> Rig:
    rig = running()
    rig.give(SlotLost(Generation(1), SlotId(0), "it is gone"))
    return rig


def waiting() -> Rig:
    rig = stopping()
    rig.gang_gone()
    return rig


def about_to_finish() -> Rig:
    rig = running()
    rig.finish_tasks()
    rig.tick(1)
    rig.ack_all(1)
    rig.published(1)
    return rig


PHASES = {
    created: JobPhase.CREATED,
    preparing: JobPhase.PREPARING,
    starting: JobPhase.STARTING,
    deploying: JobPhase.DEPLOYING,
    running: JobPhase.RUNNING,
    stopping: JobPhase.STOPPING,
    waiting: JobPhase.WAITING,
    about_to_finish: JobPhase.STOPPING,
}


@pytest.mark.parametrize("asked", [(True,), (True, False), (False,)])
@pytest.mark.parametrize("reach", PHASES)
def test_an_interrupted_job_keeps_its_checkpoints_in_every_phase(
    reach: Callable[[], Rig], asked: tuple[bool, ...]
) -> None:
    """Once somebody may want to go on, nobody else can take that back."""
    rig = reach()
    assert rig.phase is PHASES[reach]
    for keep in asked:
        rig.give(CancelRequested(keep))
    if rig.end is None:
        rig.gang_gone()
    assert rig.end is not None and rig.end.status is JobStatus.CANCELED
    assert rig.end.delete_snapshots is not any(asked)


def test_every_phase_but_the_last_is_tried() -> None:
    assert set(PHASES.values()) == set(JobPhase) - {JobPhase.ENDED}


@pytest.mark.parametrize("reach", [starting, deploying, running, stopping])
def test_a_job_whose_spark_is_gone_ends_and_keeps_its_checkpoints(reach: Callable[[], Rig]) -> None:
    """However often the strategy would start it again: there is nothing to start it on."""
    rig = reach()
    lost = SparkLostError("the JVM is gone")
    rig.gang_gone(lost)
    assert rig.end is not None and rig.end.status is JobStatus.FAILED and rig.end.error is lost
    assert not rig.end.delete_snapshots and rig.phase is JobPhase.ENDED


def test_a_spark_that_goes_away_behind_the_end_changes_nothing() -> None:
    rig = about_to_finish()
    rig.gang_gone(SparkLostError("the JVM is gone"))
    assert rig.end is not None and rig.end.status is JobStatus.FINISHED
    rig = running()
    rig.give(CancelRequested(keep=True))
    rig.gang_gone(SparkLostError("the JVM is gone"))
    assert rig.end is not None and rig.end.status is JobStatus.CANCELED and not rig.end.delete_snapshots
