"""A job cancelled while a snapshot is under way: what is published is committed, the rest given up."""

from __future__ import annotations

import pytest
from coord_rig import Claim, Publish, Rig, of, payloads, restored

from penstock.connectors.sink import CommitOutcome
from penstock.coordinator.events import CancelRequested, Commit, CommitFailed, PublishFailed
from penstock.core.errors import ConnectorError, SnapshotError
from penstock.core.ids import Epoch, Generation
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
        assert rig.end is None, "it may become true any moment"
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
    assert rig.end.abandoned is None, "a later start may find that it is true"


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
    assert payloads(commit.committables) == [b"x"] and not rig.job.desk.is_publishing
