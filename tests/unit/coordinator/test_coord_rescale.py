"""A rescale, as the coordinator sees it: each rung of its ladder, and what goes wrong there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from coord_rig import Claim, Rig, StartAttempt, StopAttempt, of, plan_of, restored, triggers

from penstock.coordinator.events import (
    Answer,
    CancelRequested,
    ClaimFailed,
    Commit,
    Instruction,
    PlanChanged,
    Publish,
    PublishFailed,
    ReportFailure,
    RequestKind,
    SlotLost,
    SnapshotRequest,
    SnapshotRequested,
    StatusChanged,
)
from penstock.coordinator.layout import Layout
from penstock.coordinator.phases import JobPhase
from penstock.core.errors import ClusterError, FencedError, SnapshotError, SparkLostError
from penstock.core.ids import Epoch, Generation, SlotId
from penstock.core.job import JobStatus
from penstock.core.restart import FixedDelay, NoRestart


def ask(rig: Rig, parallelism: int = 3, name: str = "r") -> list[Instruction]:
    layout = Layout(plan_of(parallelism), b"other plan")
    return rig.give(SnapshotRequested(SnapshotRequest(name, RequestKind.RESCALE, layout=layout)))


def asked(rig: Rig, kind: RequestKind, name: str = "other") -> list[Instruction]:
    place = None if kind is RequestKind.CHECKPOINT else "file:///sp/savepoint-1"
    return rig.give(SnapshotRequested(SnapshotRequest(name, kind, place)))


def answers(rig: Rig) -> dict[str, str]:
    given = of(rig.all, Answer) + list(rig.end.answers if rig.end else ())
    assert len({one.request.id for one in given}) == len(given), "each is answered once"
    return {one.request.id: str(one.error) if one.error else str(one.where) for one in given}


def running() -> Rig:
    """At parallelism 2; the first failure would end it."""
    return Rig(interval_ms=100_000, restart=NoRestart()).run()


def published(rig: Rig) -> list[Instruction]:
    """Rungs 1 to 3."""
    assert triggers(ask(rig)) == [1]
    assert of(rig.ack_all(1, b"output"), Publish)
    return rig.published(1)


def moved(rig: Rig) -> list[Instruction]:
    """Rungs 1 to 4, up to the claim."""
    published(rig)
    out = rig.gang_gone()
    rig.plan = plan_of(3)
    return out


def started(rig: Rig) -> list[Instruction]:
    """All but the slots."""
    moved(rig)
    rig.claimed(restored(rig, 1, b"output"), 1)
    rig.splits("a")
    return rig.committed(of(rig.all, Commit)[-1])


def back(rig: Rig) -> None:
    """It goes on at the old parallelism, from the same checkpoint, and is none the worse for it."""
    rig.plan = plan_of(2)
    assert [one.plan.slots for one in of(rig.all, PlanChanged)] == [3, 2]
    assert rig.phase is JobPhase.CREATED and of(rig.all, Claim)[-1] is rig.all[-1]
    rig.claimed(restored(rig, 1, b"output"), 1)
    rig.splits("a")
    commits = of(rig.all, Commit)
    rig.committed(commits[-1])
    rig.registered()
    rig.deployed()
    assert rig.phase is JobPhase.RUNNING
    assert "goes on at parallelism 2 as before" in answers(rig)["r"]
    assert not of(rig.all, ReportFailure), "no restart strategy has counted it"
    assert triggers(rig.tick(100_000)) == [2]


def test_the_ladder() -> None:
    rig = running()
    out = published(rig)
    assert StatusChanged(JobStatus.RESTARTING, planned=True) in out and of(out, StopAttempt)
    assert not of(out, Answer) and not of(out, Commit), "what is prepared waits for the next attempt"
    out = rig.gang_gone()
    assert [one.plan.slots for one in of(out, PlanChanged)] == [3] and out[-1] == Claim()
    rig.plan = plan_of(3)
    rig.claimed(restored(rig, 1, b"output"), 1)
    rig.splits("a")
    (commit,) = of(rig.all, Commit)
    assert rig.committed(commit) == [StartAttempt(Generation(2), 3)], "committed before the first new record"
    rig.registered()
    assert answers(rig) == {}
    out = rig.deployed()
    assert StatusChanged(JobStatus.RUNNING) in out and answers(rig) == {"r": "chk-1"}
    assert triggers(rig.tick(100_000)) == [2]
    (publish,) = of(rig.ack_all(2), Publish)
    assert {entry.parallelism for entry in publish.manifest.operators} == {3}
    assert not of(rig.all, ReportFailure)


def slots_missing(rig: Rig) -> None:
    started(rig)
    rig.tick(rig.settings.slots_timeout_ms)
    rig.gang_gone()


def not_built(rig: Rig) -> None:
    started(rig)
    rig.registered()
    rig.tick(rig.settings.deploy_timeout_ms)
    rig.gang_gone()


def slot_lost(rig: Rig) -> None:
    started(rig)
    rig.registered()
    rig.give(SlotLost(Generation(2), SlotId(0), "killed"))
    rig.gang_gone()


def group_refused(rig: Rig) -> None:
    started(rig)
    rig.gang_gone(ClusterError("too few slots"))


def claim_failed(rig: Rig) -> None:
    moved(rig)
    rig.give(ClaimFailed(SnapshotError("the new plan cannot take it")))
    rig.tick()


@pytest.mark.parametrize("trouble", [slots_missing, not_built, slot_lost, group_refused, claim_failed])
def test_what_goes_wrong_behind_the_checkpoint_sends_it_back(trouble: Callable[[Rig], None]) -> None:
    rig = running()
    trouble(rig)
    back(rig)


@pytest.mark.parametrize(
    "trouble",
    [
        lambda rig: rig.decline(1),
        lambda rig: rig.tick(rig.settings.timeout_ms),
        lambda rig: rig.ack_all(1) + rig.give(PublishFailed(Epoch(1), SnapshotError("disk full"))),
    ],
)
def test_a_checkpoint_that_fails_leaves_the_job_running(trouble: Callable[[Rig], object]) -> None:
    rig = Rig(interval_ms=10_000_000, tolerable_failures=3).run()
    ask(rig)
    trouble(rig)
    assert rig.phase is JobPhase.RUNNING and not of(rig.all, StopAttempt)
    assert answers(rig)["r"].startswith("the rescale failed") and answers(rig)["r"].endswith(
        "the job goes on"
    )


def test_a_failure_while_the_checkpoint_is_taken_is_a_failure_as_any() -> None:
    rig = running()
    ask(rig)
    rig.give(SlotLost(Generation(1), SlotId(0), "killed"))
    rig.gang_gone()
    assert rig.end is not None and rig.end.status is JobStatus.FAILED
    assert answers(rig)["r"].startswith("the rescale failed")


@pytest.mark.parametrize("error", [FencedError("another driver"), SparkLostError("the JVM is gone")])
def test_what_cannot_be_helped_ends_the_job(error: Exception) -> None:
    rig = running()
    moved(rig)
    rig.give(ClaimFailed(error))
    assert rig.end is not None and rig.end.error is error
    assert answers(rig)["r"].startswith("the job ended instead")


@pytest.mark.parametrize("rung", [published, moved, started])
def test_a_cancel_on_any_rung_ends_it(rung: Callable[[Rig], object]) -> None:
    rig = running()
    rung(rig)
    rig.give(CancelRequested())
    rig.gang_gone()
    while rig.end is None:
        rig.committed(of(rig.all, Commit)[-1])
    assert rig.end.status is JobStatus.CANCELED and answers(rig)["r"].startswith("the job ended instead")


def test_one_at_a_time_and_nothing_begins_beside_it() -> None:
    rig = Rig(interval_ms=10).run()
    ask(rig)
    ask(rig, 4, "again")
    assert answers(rig)["again"].startswith("the job is being rescaled already")
    asked(rig, RequestKind.CHECKPOINT)
    assert triggers(rig.tick(100)) == [] and "other" not in answers(rig)
    rig.ack_all(1)
    rig.published(1)
    rig.gang_gone()
    rig.plan = plan_of(3)
    rig.claimed(restored(rig, 1), 1)
    rig.splits("a")
    rig.registered()
    assert triggers(rig.deployed()) == [2], "what was asked for meanwhile is for the new slots"


@pytest.mark.parametrize("rung", [published, moved, started])
def test_none_is_taken_while_one_is_behind_its_checkpoint(rung: Callable[[Rig], object]) -> None:
    """It would be laid out for a plan that is going, and might be for what the job has by then."""
    rig = running()
    rung(rig)
    ask(rig, 3, "again")
    assert answers(rig) == {"again": "the job is being rescaled already; wait for the end of that"}
    if rung is not started:
        return
    rig.registered()
    assert triggers(rig.deployed()) == [] and answers(rig)["r"] == "chk-1"
    assert triggers(ask(rig, 2, "next")) == [2], "the next one may be asked for when it is done"


def test_one_that_is_asked_for_while_the_job_restarts_begins_when_it_runs() -> None:
    rig = Rig(interval_ms=100_000, restart=FixedDelay(attempts=100, delay_ms=10)).run()
    rig.give(SlotLost(Generation(1), SlotId(0), "killed"))
    assert triggers(ask(rig)) == [], "its slots are going"
    rig.gang_gone()
    assert triggers(rig.tick(10)) == [] and answers(rig) == {}
    rig.claimed()
    rig.splits("a")
    rig.registered()
    assert triggers(rig.deployed()) == [1] and answers(rig) == {}
    rig.ack_all(1)
    assert of(rig.published(1), StopAttempt)


def test_it_waits_for_savepoints_and_a_stop_waits_for_it() -> None:
    rig = running()
    asked(rig, RequestKind.SAVEPOINT, "copy")
    assert triggers(ask(rig)) == [] and triggers(rig.decline(1)) == [2]
    assert triggers(asked(rig, RequestKind.STOP, "stop")) == []
    rig.ack_all(2)
    assert of(rig.published(2), StopAttempt)
    rig.gang_gone()
    rig.plan = plan_of(3)
    rig.claimed(restored(rig, 2), 2)
    rig.splits("a")
    rig.registered()
    assert triggers(rig.deployed()) == [3] and answers(rig)["r"] == "chk-2"


def test_none_behind_a_stop() -> None:
    rig = running()
    asked(rig, RequestKind.STOP, "stop")
    ask(rig)
    assert "being stopped" in answers(rig)["r"]
