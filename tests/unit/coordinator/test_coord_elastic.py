"""A job that goes on with the slots that there are, as the coordinator decides it."""

from __future__ import annotations

import pytest
from coord_rig import Claim, Rig, StartAttempt, StopAttempt, of, plan_of, restored, triggers

from penstock.coordinator.assemble import job_settings
from penstock.coordinator.elastic_settings import ElasticSettings
from penstock.coordinator.events import (
    Event,
    Instruction,
    LaidOut,
    LayOut,
    LayoutRefused,
    LookForSlots,
    PlanChanged,
    Regain,
    ReportFailure,
    RequestKind,
    Rescaled,
    SlotLost,
    SlotsFound,
    SnapshotRequest,
    SnapshotRequested,
    StatusChanged,
)
from penstock.coordinator.layout import Layout
from penstock.coordinator.phases import JobPhase
from penstock.core.config import Configuration
from penstock.core.errors import ConfigError
from penstock.core.ids import Generation, SlotId
from penstock.core.job import JobStatus
from penstock.core.restart import FixedDelay

SETTINGS = ElasticSettings(least=2, smaller_ms=5_000, larger_ms=20_000)


def rig(parallelism: int = 4) -> Rig:
    return Rig(
        parallelism, interval_ms=100_000_000, elastic=SETTINGS, restart=FixedDelay(attempts=100, delay_ms=10)
    )


def found(job: Rig, room: int | None, after: int = 0) -> list[Instruction]:
    return job.give(SlotsFound(Generation(job.generation), room), after)


def starting(parallelism: int = 4) -> Rig:
    """It ran; a slot was lost; the next attempt waits for slots."""
    job = rig(parallelism).run()
    job.give(SlotLost(Generation(1), SlotId(0), "killed"))
    job.gang_gone()
    job.tick(10)
    again(job)
    return job


def again(job: Rig) -> None:
    job.claimed(restored(job, 1), 1)
    out = job.splits("a")
    assert of(out, StartAttempt) == [StartAttempt(Generation(job.generation), job.plan.slots)]
    assert of(out, LookForSlots), "it is looked at once"


def give(job: Rig, layout: LayOut) -> list[Instruction]:
    """The layout that it asked for."""
    laid_out = LaidOut(layout.generation, Layout(plan_of(layout.parallelism), b"smaller"), layout.why)
    return job.give(laid_out)


def smaller(job: Rig, room: int) -> None:
    """Down to what there is room for, and running."""
    found(job, room)
    (layout,) = of(found(job, room, 5_000), LayOut)
    give(job, layout)
    assert of(job.gang_gone(), PlanChanged)[0].plan.parallelism == layout.parallelism
    job.plan = plan_of(layout.parallelism)
    again(job)
    job.registered()
    job.deployed()
    assert job.phase is JobPhase.RUNNING


def asked(job: Rig, parallelism: int, regains: bool) -> None:
    """A rescale, up to its new slots."""
    layout = Layout(plan_of(parallelism), b"other")
    request = SnapshotRequest("r", RequestKind.RESCALE, layout=layout, regains=regains)
    (epoch,) = triggers(job.give(SnapshotRequested(request)))
    job.ack_all(epoch)
    job.published(epoch)
    job.gang_gone()
    job.plan = plan_of(parallelism)
    job.claimed(restored(job, epoch), epoch)
    job.splits("a")


def arrived(job: Rig) -> None:
    job.registered()
    job.deployed()
    assert job.phase is JobPhase.RUNNING


def texts(instructions: list[Instruction]) -> list[str]:
    return [one.text for one in of(instructions, Rescaled)]


def test_it_goes_on_with_what_there_is() -> None:
    job = starting()
    found(job, 3)
    assert of(job.tick(4_999), LookForSlots) and not of(found(job, 3), LayOut)
    assert job.job.next_wake() == job.now + 1, "it is looked again just when it has been long enough"
    (layout,) = of(found(job, 3, 1), LayOut)
    assert (layout.parallelism, layout.room) == (3, 3)
    out = give(job, layout)
    assert of(out, StopAttempt) and StatusChanged(JobStatus.RESTARTING, planned=True) in out
    why = "there has been room for 3 of 4 slots for 5 s"
    assert texts(out) == [f"rescale from 4 to 3 of 4, from the newest checkpoint: {why}"]
    out = job.gang_gone()
    assert [one.plan.slots for one in of(out, PlanChanged)] == [3] and out[-1] == Claim()
    job.plan = plan_of(3)
    again(job)
    arrived(job)
    assert len(of(job.all, ReportFailure)) == 1, "the loss; what came of it is none"


def test_room_that_changes_is_waited_for() -> None:
    job = starting()
    for room in (3, 2, 3, 2, 3):
        assert not of(found(job, room, 4_000), LayOut)


def test_enough_room_is_none_of_its_business() -> None:
    job = starting()
    found(job, 4)
    out = found(job, 4, 10_000)
    assert not of(out, LayOut) and not texts(out) and job.phase is JobPhase.STARTING
    assert not found(job, None), "nobody knows how much there is"


def test_fewer_than_the_least_are_waited_for() -> None:
    job = starting()
    found(job, 1)
    out = found(job, 1, 5_000)
    assert not of(out, LayOut)
    why = "there has been room for 1 of 4 slots for 5 s"
    assert texts(out) == [f"the job waits for slots: {why}, and penstock.slots.minimum is 2"]
    assert not texts(found(job, 1, 5_000)), "said once"
    found(job, 2)
    assert of(found(job, 2, 5_000), LayOut)


def test_what_cannot_be_had_is_said_once() -> None:
    job = starting()
    found(job, 3)
    found(job, 3, 5_000)
    out = job.give(LayoutRefused(Generation(2), 3, ConfigError("step 'x' has a parallelism of its own")))
    assert texts(out) == ["the job cannot go on at parallelism 3: step 'x' has a parallelism of its own"]
    assert not of(found(job, 3, 5_000), LayOut) and job.phase is JobPhase.STARTING
    found(job, 2)
    assert of(found(job, 2, 5_000), LayOut), "other slots, another chance"


@pytest.mark.parametrize("there", [JobPhase.DEPLOYING, JobPhase.RUNNING])
def test_a_layout_that_comes_late_changes_nothing(there: JobPhase) -> None:
    job = starting()
    found(job, 3)
    (layout,) = of(found(job, 3, 5_000), LayOut)
    job.registered()
    if there is JobPhase.RUNNING:
        job.deployed()
    assert job.phase is there and give(job, layout) == [] and job.phase is there


def test_it_takes_back_what_it_lacks() -> None:
    job = starting()
    smaller(job, 2)
    assert of(job.tick(1_000), LookForSlots)
    assert not of(found(job, 2, 30_000), Regain), "as many as it has"
    found(job, 3)
    assert not of(found(job, 3, 19_999), Regain)
    out = found(job, 3, 1)
    assert of(out, Regain) == [Regain(Generation(3), 3)]
    assert texts(out) == ["the job wants 4 slots again and has 2: there has been room for 3 slots for 20 s"]
    asked(job, 3, regains=True)
    arrived(job)
    found(job, 9)
    assert of(found(job, 9, 20_000), Regain) == [Regain(Generation(4), 4)], "it still wants 4, and no more"
    asked(job, 4, regains=True)
    arrived(job)
    assert not of(job.tick(100_000), LookForSlots), "it has all"


def test_slots_that_do_not_come_are_tried_for_ever_more_seldom() -> None:
    job = starting()
    smaller(job, 2)
    waits = []
    for _ in range(9):
        found(job, 4)
        began = job.now
        while not of(found(job, 4, 10_000), Regain):
            pass
        waits.append((job.now - began) // 1000)
        asked(job, 4, regains=True)
        job.give(SlotLost(Generation(job.generation), SlotId(0), "no room after all"))
        job.tick(job.settings.slots_timeout_ms)
        job.gang_gone()
        job.plan = plan_of(2)
        job.claimed(restored(job, 1), 1)
        job.splits("a")
        arrived(job)
    assert waits == [20, 40, 80, 160, 320, 640, 1280, 1280, 1280]


def test_what_somebody_asks_for_is_what_it_wants() -> None:
    job = starting()
    smaller(job, 2)
    asked(job, 3, regains=False)
    arrived(job)
    assert not of(job.tick(1_000), LookForSlots), "3 were asked for, and there are 3"


def test_a_rung_of_a_rescale_turns_back_by_itself() -> None:
    job = rig(2).run()
    asked(job, 4, regains=False)
    assert job.phase is JobPhase.STARTING
    assert not of(job.tick(1_000), LookForSlots) and not of(found(job, 3, 10_000), LayOut)


def test_a_job_that_waits_does_not_even_look() -> None:
    job = Rig(restart=FixedDelay(attempts=100, delay_ms=10)).run()
    lost: Event = SlotLost(Generation(1), SlotId(0), "killed")
    job.give(lost)
    job.gang_gone()
    job.tick(10)
    job.claimed()
    job.splits("a")
    job.tick(5_000)
    assert job.phase is JobPhase.STARTING and not of(job.all, LookForSlots)


def test_settings() -> None:
    config = Configuration()
    assert job_settings(config).elastic is None
    config.set_string("jobmanager.scheduler", "adaptive")
    assert job_settings(config).elastic == ElasticSettings(1, 10_000, 60_000)
    config.set_string("jobmanager.adaptive-scheduler.resource-stabilization-timeout", "3 s")
    assert job_settings(config).elastic == ElasticSettings(1, 3_000, 60_000), "as Flink 1 called it"
    config.set_string("penstock.slots.timeout", "3 s")
    with pytest.raises(ConfigError, match="must be less than penstock.slots.timeout, 3 s"):
        job_settings(config)
