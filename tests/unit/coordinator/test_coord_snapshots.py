"""Snapshots as the coordinator sees them: triggers, failures, subsumption, commits."""

from __future__ import annotations

from typing import Any

import pytest
from coord_rig import CALENDAR, Rig, aborts, of, payloads, restored, triggers

from penstock.connectors.sink import CommitOutcome
from penstock.coordinator.events import (
    Claim,
    Commit,
    CommitDone,
    CommitFailed,
    Publish,
    PublishFailed,
    ReportFailure,
    SendAll,
    SlotLost,
    Start,
    StartAttempt,
    StopAttempt,
)
from penstock.coordinator.phases import JobPhase
from penstock.core.ids import Epoch, Generation, SlotId
from penstock.core.job import JobStatus
from penstock.core.messages import (
    SnapshotCompleted,
)
from penstock.core.restart import FixedDelay

MANY = FixedDelay(10_000, 10)


def test_periodic_triggers_and_the_manifest() -> None:
    rig = Rig(interval_ms=100).run()
    assert rig.tick(99) == [] and triggers(rig.tick(1)) == [1]
    assert rig.tick(500) == [], "one at a time"
    (publish,) = of(rig.ack_all(1, b"c"), Publish)
    manifest = publish.manifest
    assert (manifest.epoch, manifest.generation, manifest.job_name) == (1, 1, "test")
    assert payloads(manifest.committables) == [b"c"]
    assert [entry.name for entry in manifest.operators] == ["source", "sink"]
    assert all(len(entry.subtasks) == 2 for entry in manifest.operators)
    out = rig.published(1)
    assert of(out, SendAll)[0].message == SnapshotCompleted(Epoch(1))
    assert triggers(out) == [2], "the interval had long passed"


def test_what_leaves_the_driver_has_the_calendar_and_deadlines_have_the_other_clock() -> None:
    rig = Rig(interval_ms=100, timeout_ms=1000).run()
    (trigger,) = of(rig.tick(100), SendAll)
    assert trigger.message.triggered_ms == CALENDAR + 100  # type: ignore[union-attr]
    assert rig.job.next_wake() == 100 + 1000, "when it expires"
    rig.now += 30
    (publish,) = of(rig.ack_all(1), Publish)
    assert publish.manifest.created_ms == CALENDAR + 130
    rig.published(1)
    assert rig.job.checkpoints.history[-1]["duration_ms"] == 30


def test_the_pause_counts_from_completion() -> None:
    rig = Rig(interval_ms=100, min_pause_ms=80).run()
    assert triggers(rig.tick(100)) == [1]
    rig.ack_all(1)
    rig.now += 90
    assert triggers(rig.published(1)) == []
    assert rig.job.next_wake() == 190 + 80
    assert triggers(rig.tick(79)) == [] and triggers(rig.tick(1)) == [2]


def test_the_interval_is_at_least_the_pause() -> None:
    rig = Rig(interval_ms=10, min_pause_ms=500).run()
    assert triggers(rig.tick(499)) == [] and triggers(rig.tick(1)) == [1]


def test_expiry_and_a_late_acknowledgement() -> None:
    rig = Rig(interval_ms=100, timeout_ms=50, tolerable_failures=1).run()
    rig.tick(100)
    subtasks = rig.plan.subtasks()
    for subtask in subtasks[:-1]:
        rig.ack(1, subtask)
    assert rig.tick(49) == []
    assert aborts(rig.tick(1)) == [1]
    assert rig.ack(1, subtasks[-1], b"late") == []
    assert triggers(rig.tick(50)) == [2]
    (publish,) = of(rig.ack_all(2, b"late", prepared=1), Publish)
    assert payloads(publish.manifest.committables) == [b"late"]


def test_repeated_and_unknown_acknowledgements_change_nothing() -> None:
    rig = Rig(interval_ms=100).run()
    rig.tick(100)
    first = rig.plan.subtasks()[0]
    assert rig.ack(1, first) == rig.ack(1, first) == rig.ack(7, first) == []
    assert len(of(rig.ack_all(1), Publish)) == 1
    assert rig.ack_all(1) == []


def fail_snapshot(rig: Rig, how: str) -> list[Any]:
    (epoch,) = triggers(rig.tick(100))
    if how == "expired":
        return rig.tick(rig.settings.timeout_ms)
    if how == "declined":
        return rig.decline(epoch)
    if how == "overtaken":
        return rig.decline(epoch, overtaken=True)
    rig.ack_all(epoch)
    return rig.give(PublishFailed(Epoch(epoch), OSError("disk")))


@pytest.mark.parametrize("how", ["expired", "declined", "not published"])
def test_too_many_failures_in_a_row_restart_the_job(how: str) -> None:
    rig = Rig(interval_ms=100, timeout_ms=50, tolerable_failures=2, restart=MANY).run()
    for _ in range(2):
        assert not of(fail_snapshot(rig, how), ReportFailure)
        assert rig.phase is JobPhase.RUNNING
    out = fail_snapshot(rig, how)
    assert "tolerable-failed-checkpoints (2)" in str(of(out, ReportFailure)[0].error)
    rig.gang_gone()
    rig.tick(10)
    rig.run(last_epoch=3)
    for _ in range(2):
        assert not of(fail_snapshot(rig, how), ReportFailure), "a new attempt counts from the start"


def test_a_success_between_resets_the_count() -> None:
    rig = Rig(interval_ms=100, tolerable_failures=1).run()
    for _ in range(3):
        fail_snapshot(rig, "declined")
        (epoch,) = triggers(rig.tick(100))
        rig.ack_all(epoch)
        rig.published(epoch)
        assert rig.phase is JobPhase.RUNNING


def test_being_overtaken_is_not_a_failure() -> None:
    rig = Rig(interval_ms=100, tolerable_failures=0).run()
    for _ in range(3):
        assert not of(fail_snapshot(rig, "overtaken"), StopAttempt)
    assert rig.phase is JobPhase.RUNNING


def test_a_completed_snapshot_subsumes_older_ones() -> None:
    rig = Rig(interval_ms=100, max_concurrent=2).run()
    assert triggers(rig.tick(100)) == [1] and triggers(rig.tick(100)) == [2]
    assert triggers(rig.tick(1000)) == []
    out = rig.ack_all(2, b"two")
    assert aborts(out) == [1] and len(of(out, Publish)) == 1
    assert rig.ack_all(1, b"one") == [] or triggers(rig.all[-1:]) == [3]
    assert rig.phase is JobPhase.RUNNING


def test_two_that_are_being_published_carry_each_others_output() -> None:
    rig = Rig(interval_ms=100, max_concurrent=2).run()
    rig.tick(100)
    rig.tick(100)
    rig.ack_all(1, b"one")
    (publish,) = of(rig.ack_all(2, b"two"), Publish)
    assert payloads(publish.manifest.committables) == [b"one", b"two"]
    (first,) = of(rig.published(1), Commit)
    assert payloads(first.committables) == [b"one"] and first.permit.epoch == 1
    assert not of(rig.published(2), Commit), "one commit at a time"
    (second,) = of(rig.committed(first), Commit)
    assert payloads(second.committables) == [b"two"] and second.permit.epoch == 2


def test_unconfirmed_output_is_carried_in_later_manifests() -> None:
    rig = Rig(interval_ms=100).run()
    rig.tick(100)
    rig.ack_all(1, b"one")
    (commit,) = of(rig.published(1), Commit)
    rig.tick(100)
    (publish,) = of(rig.ack_all(2, b"two"), Publish)
    assert payloads(publish.manifest.committables) == [b"one", b"two"]
    rig.committed(commit)
    (commit,) = of(rig.published(2), Commit)
    rig.committed(commit)
    rig.tick(100)
    (publish,) = of(rig.ack_all(3), Publish)
    assert publish.manifest.committables == ()


def test_retries_back_off_and_then_fail_the_job() -> None:
    rig = Rig(interval_ms=100_000, committer_retries=3, commit_backoff_ms=20, restart=MANY).run()
    rig.tick(100_000)
    rig.ack_all(1, b"one")
    (commit,) = of(rig.published(1), Commit)
    for pause in (20, 40, 60):
        assert not of(rig.committed(commit, CommitOutcome.RETRY), Commit)
        assert rig.job.next_wake() == rig.now + pause
        assert not of(rig.tick(pause - 1), Commit)
        (commit,) = of(rig.tick(1), Commit)
    out = rig.committed(commit, CommitOutcome.RETRY)
    assert "3 tries" in str(of(out, ReportFailure)[0].error)
    assert not of(out, Commit) and rig.job.next_wake() is None
    rig.gang_gone()
    assert not of(rig.tick(5), Commit) and of(rig.tick(5), Claim)


def test_giving_up_ends_with_the_end_and_commits_nothing_behind_it() -> None:
    rig = Rig(committer_retries=0)
    rig.give(Start())
    (commit,) = of(rig.claimed(restored(rig, 3, b"left")), Commit)
    out = rig.committed(commit, CommitOutcome.RETRY)
    assert rig.end is not None and out[-1] is rig.end and not of(out, Commit)


def test_a_success_resets_the_tries_and_dropped_output_is_counted() -> None:
    rig = Rig(interval_ms=100, committer_retries=1, commit_backoff_ms=1).run()
    rig.tick(100)
    rig.ack_all(1, b"a", b"b")
    (commit,) = of(rig.published(1), Commit)
    rig.give(CommitDone(commit.committables, (CommitOutcome.RETRY, CommitOutcome.DROPPED)))
    (commit,) = of(rig.tick(1), Commit)
    assert payloads(commit.committables) == [b"a"] and rig.job.commits.dropped == 1
    rig.committed(commit, CommitOutcome.ALREADY_COMMITTED)
    assert rig.job.commits.is_empty and rig.phase is JobPhase.RUNNING


def test_a_committer_that_raises_fails_the_attempt_and_the_next_one_commits_first() -> None:
    rig = Rig(interval_ms=100, restart=MANY).run()
    rig.tick(100)
    rig.ack_all(1, b"one")
    rig.published(1)
    assert of(rig.give(CommitFailed(OSError("broker"))), ReportFailure)
    rig.gang_gone()
    rig.tick(10)
    out = rig.claimed(restored(rig, 1, b"one"), 1)
    (commit,) = of(out, Commit)
    rig.splits("a")
    assert rig.phase is JobPhase.PREPARING
    assert of(rig.committed(commit), StartAttempt)


def test_outcomes_of_an_older_attempts_commit_do_not_release_the_gang() -> None:
    rig = Rig(interval_ms=100, restart=MANY).run()
    rig.tick(100)
    rig.ack_all(1, b"one")
    (old,) = of(rig.published(1), Commit)
    rig.give(SlotLost(Generation(1), SlotId(0), "gone"))
    rig.gang_gone()
    rig.tick(10)
    (new,) = of(rig.claimed(restored(rig, 1, b"one", b"two"), 1), Commit)
    rig.splits("a")
    assert rig.committed(old) == [] and rig.phase is JobPhase.PREPARING
    assert of(rig.committed(new), StartAttempt)


def test_a_publication_that_comes_true_after_the_failure_is_left_to_the_next_claim() -> None:
    rig = Rig(interval_ms=100, restart=MANY).run()
    rig.tick(100)
    rig.ack_all(1, b"one")
    rig.give(SlotLost(Generation(1), SlotId(0), "gone"))
    assert rig.published(1) == []
    rig.gang_gone()
    assert rig.published(1) == []


def test_the_final_snapshot_is_tried_again() -> None:
    rig = Rig(tolerable_failures=5).run()
    rig.finish_tasks()
    assert triggers(rig.all) == [1]
    assert triggers(rig.decline(1)) == [2]
    rig.ack_all(2)
    rig.published(2)
    assert rig.phase is JobPhase.STOPPING


def test_the_final_snapshot_waits_for_the_one_under_way() -> None:
    rig = Rig(interval_ms=100).run()
    assert triggers(rig.tick(100)) == [1]
    assert triggers(rig.finish_tasks()) == []
    rig.ack_all(1)
    assert triggers(rig.published(1)) == [2]
    rig.ack_all(2)
    rig.published(2)
    rig.gang_gone()
    assert rig.end is not None and rig.end.status is JobStatus.FINISHED
