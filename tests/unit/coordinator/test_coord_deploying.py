"""Slots that do not build their tasks in time: the attempt fails, and what they are at is named."""

from __future__ import annotations

import pytest
from coord_rig import Rig, of

from penstock.coordinator.events import ReportFailure, SendAll, Start, StartAttempt, StopAttempt
from penstock.coordinator.phases import JobPhase
from penstock.core.errors import ClusterError
from penstock.core.ids import Subtask, SubtaskIndex
from penstock.core.job import JobStatus
from penstock.core.messages import Deployed, Leave, Opening
from penstock.core.restart import FixedDelay

TIMEOUT_MS = 5000


def deploying(rig: Rig) -> Rig:
    rig.claimed()
    rig.splits("s0")
    assert of(rig.all, StartAttempt)
    rig.registered()
    assert rig.phase is JobPhase.DEPLOYING
    return rig


def begun(attempts: int = 1) -> Rig:
    rig = Rig(deploy_timeout_ms=TIMEOUT_MS, restart=FixedDelay(attempts, 100))
    rig.give(Start())
    return deploying(rig)


def opening(rig: Rig, slot: int, step: str) -> None:
    vertex = rig.plan.vertices[-1].id
    rig.said(Opening(Subtask(vertex, SubtaskIndex(slot)), step), slot)


def test_the_step_and_the_subtask_that_do_not_open_are_named() -> None:
    rig = begun()
    rig.said(Deployed(), 0)
    opening(rig, 1, "source")
    opening(rig, 1, "sink to orders")
    assert not rig.tick(TIMEOUT_MS - 1)
    out = rig.tick(1)
    (failure,) = of(out, ReportFailure)
    assert isinstance(failure.error, ClusterError)
    assert "1 of 2 slots have not built their tasks within 5 s" in str(failure.error)
    assert "step 'sink to orders', subtask 1, does not open" in str(failure.error)
    assert "penstock.deploy.timeout" in str(failure.error) and "'source'" not in str(failure.error)
    assert of(out, StopAttempt) and isinstance(of(out, SendAll)[-1].message, Leave)


def test_a_slot_that_said_nothing_is_named_too() -> None:
    rig = begun()
    (failure,) = of(rig.tick(TIMEOUT_MS), ReportFailure)
    assert "slot 0 has not begun; slot 1 has not begun" in str(failure.error)


def test_it_is_a_failure_of_the_attempt_and_the_strategy_decides() -> None:
    rig = begun(attempts=1)
    rig.tick(TIMEOUT_MS)
    rig.gang_gone()
    assert rig.phase is JobPhase.WAITING and rig.end is None
    rig.tick(100)
    deploying(rig)
    rig.tick(TIMEOUT_MS)
    rig.gang_gone()
    assert rig.end is not None and rig.end.status is JobStatus.FAILED and not rig.end.delete_snapshots
    assert "have not built their tasks" in str(rig.end.error)


@pytest.mark.parametrize("after", [0, TIMEOUT_MS - 1])
def test_tasks_that_are_built_in_time_are_left_alone(after: int) -> None:
    rig = begun()
    rig.tick(after)
    rig.deployed()
    rig.tick(10 * TIMEOUT_MS)
    assert rig.phase is JobPhase.RUNNING and not of(rig.all, ReportFailure)


def test_a_new_attempt_has_its_own_time_and_forgets_what_slots_said() -> None:
    rig = begun(attempts=5)
    opening(rig, 0, "old")
    rig.tick(TIMEOUT_MS)
    rig.gang_gone()
    rig.tick(100)
    deploying(rig)
    assert not of(rig.tick(TIMEOUT_MS - 1), ReportFailure)
    (failure,) = of(rig.tick(1), ReportFailure)
    assert "old" not in str(failure.error)
