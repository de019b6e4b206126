"""Several checkpoints in flight: what each event does to the others. One test per rule."""

from __future__ import annotations

import pytest
from coord_rig import Rig, aborts, of, payloads, triggers

from penstock.coordinator.events import Claimed, Publish, PublishFailed, ReportFailure, SlotLost, StopAttempt
from penstock.coordinator.phases import JobPhase
from penstock.coordinator.schedule import FailureKind
from penstock.core.ids import Epoch, Generation, SlotId
from penstock.core.messages import SnapshotDeclined
from penstock.core.restart import FixedDelay

MANY = FixedDelay(10_000, 10)


def in_flight(count: int, **settings: int) -> Rig:
    """A rig with checkpoints 1 to ``count`` triggered 100 ms apart, none acknowledged."""
    settings.setdefault("max_concurrent", count)
    rig = Rig(interval_ms=100, **settings).run()
    for epoch in range(1, count + 1):
        assert triggers(rig.tick(100)) == [epoch]
    return rig


def test_at_the_limit_a_periodic_trigger_waits_and_is_not_lost() -> None:
    rig = in_flight(2)
    assert triggers(rig.tick(1000)) == []
    rig.ack_all(1)
    assert triggers(rig.published(1)) == [3], "one place is free, one trigger is due"


def test_the_limit_counts_checkpoints_that_are_being_published() -> None:
    rig = in_flight(2)
    rig.ack_all(1)
    assert triggers(rig.tick(1000)) == []


def test_a_minimum_pause_allows_one_at_a_time() -> None:
    rig = Rig(interval_ms=100, min_pause_ms=50, max_concurrent=5).run()
    assert triggers(rig.tick(100)) == [1]
    assert triggers(rig.tick(1000)) == []
    rig.ack_all(1)
    assert triggers(rig.published(1)) == []
    assert triggers(rig.tick(49)) == [] and triggers(rig.tick(1)) == [2]


def test_a_minimum_pause_counts_from_success_and_not_from_failure() -> None:
    rig = Rig(interval_ms=100, min_pause_ms=80, tolerable_failures=9).run()
    assert triggers(rig.tick(100)) == [1]
    rig.now += 95
    assert triggers(rig.decline(1)) == []
    assert triggers(rig.tick(5)) == [2], "the interval counts on; a failure begins no pause"


def test_a_completed_checkpoint_subsumes_older_ones_and_no_newer_ones() -> None:
    rig = in_flight(3)
    out = rig.ack_all(2, b"two")
    assert aborts(out) == [1]
    (publish,) = of(out, Publish)
    assert publish.manifest.epoch == 2
    (third,) = of(rig.ack_all(3), Publish)
    assert third.manifest.epoch == 3


def test_a_late_acknowledgement_of_a_subsumed_checkpoint_changes_nothing() -> None:
    rig = in_flight(2)
    for subtask in rig.plan.subtasks()[:-1]:
        rig.ack(1, subtask)
    rig.ack_all(2)
    assert rig.ack(1, rig.plan.subtasks()[-1], b"late") == []
    rig.published(2)
    assert not of(rig.all, StopAttempt) and len(of(rig.all, Publish)) == 1


def test_a_declined_checkpoint_takes_no_other_with_it() -> None:
    rig = in_flight(3, tolerable_failures=1)
    assert aborts(rig.decline(2)) == [2]
    assert len(of(rig.ack_all(1), Publish)) == 1
    assert len(of(rig.ack_all(3), Publish)) == 1


def test_a_second_decline_of_one_checkpoint_is_not_counted_again() -> None:
    rig = in_flight(2, tolerable_failures=1)
    for subtask in rig.plan.subtasks():
        rig.said(SnapshotDeclined(Epoch(1), subtask, "disk full", False))
    assert rig.phase is JobPhase.RUNNING


def test_only_the_checkpoint_whose_time_is_over_expires() -> None:
    rig = in_flight(2, timeout_ms=150, tolerable_failures=1)
    assert rig.tick(49) == []
    assert aborts(rig.tick(1)) == [1]
    assert len(of(rig.ack_all(2), Publish)) == 1


def test_being_subsumed_is_not_counted() -> None:
    rig = in_flight(3, tolerable_failures=0)
    assert aborts(rig.ack_all(3)) == [1, 2]
    assert rig.phase is JobPhase.RUNNING


def test_failures_of_concurrent_checkpoints_are_counted_one_by_one() -> None:
    rig = Rig(interval_ms=100, max_concurrent=3, tolerable_failures=2, restart=MANY).run()
    for epoch in (1, 2, 3):
        assert triggers(rig.tick(100)) == [epoch]
    assert not of(rig.decline(1) + rig.decline(2), ReportFailure)
    assert of(rig.decline(3), ReportFailure)


def test_a_success_among_concurrent_ones_begins_the_count_anew() -> None:
    rig = in_flight(3, tolerable_failures=1)
    rig.decline(1)
    rig.ack_all(2)
    rig.published(2)
    assert not of(rig.decline(3), StopAttempt)
    assert rig.phase is JobPhase.RUNNING


@pytest.mark.parametrize("kind", FailureKind)
def test_which_failures_count(kind: FailureKind) -> None:
    counted = {FailureKind.EXPIRED, FailureKind.DECLINED, FailureKind.NOT_PUBLISHED}
    assert kind.counts is (kind in counted)


def test_a_task_failure_aborts_all_and_is_not_counted() -> None:
    rig = Rig(interval_ms=100, max_concurrent=2, tolerable_failures=0, restart=MANY).run()
    rig.tick(100)
    rig.tick(100)
    out = rig.give(SlotLost(Generation(1), SlotId(0), "gone"))
    assert "gone" in str(of(out, ReportFailure)[0].error)
    rig.gang_gone()
    rig.tick(10)
    rig.run(last_epoch=2)
    assert rig.ack_all(1) == rig.ack_all(2) == [], "acknowledgements of the lost attempt"
    assert triggers(rig.tick(100)) == [3]


def test_epochs_go_on_across_restarts_even_if_nothing_was_published() -> None:
    rig = Rig(interval_ms=100, restart=MANY).run()
    rig.tick(100)
    rig.give(SlotLost(Generation(1), SlotId(0), "gone"))
    rig.gang_gone()
    rig.tick(10)
    rig.generation += 1
    rig.give(Claimed(Generation(rig.generation), Epoch(0), None))
    rig.splits("s0")
    rig.registered()
    rig.deployed()
    assert triggers(rig.tick(100)) == [2]


def test_checkpoints_begin_when_all_slots_are_deployed() -> None:
    rig = Rig(interval_ms=100)
    rig.run()
    assert triggers(rig.all) == []
    assert triggers(rig.tick(99)) == [] and triggers(rig.tick(1)) == [1]


def test_a_failed_publication_leaves_the_next_one_alone_and_its_output_is_handed_in_again() -> None:
    rig = in_flight(2, tolerable_failures=1)
    rig.ack_all(1, b"one")
    (second,) = of(rig.ack_all(2, b"two"), Publish)
    assert payloads(second.manifest.committables) == [b"one", b"two"]
    assert aborts(rig.give(PublishFailed(Epoch(1), OSError("disk")))) == [1]
    rig.published(2)
    assert rig.phase is JobPhase.RUNNING
