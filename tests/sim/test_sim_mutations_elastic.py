"""Planted bugs around slots that are gone for good: each must be found within a number of seeds."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from sim_planted import Patch, Planted, must_be_found

from penstock.coordinator.coordinator import Coordinator
from penstock.coordinator.events import PlanChanged
from penstock.coordinator.job_storage import JobStorage
from penstock.coordinator.phases import JobPhase
from penstock.coordinator.rescaling import Rescaling
from penstock.coordinator.split_assigner import SplitAssigner


def few_slots_build_the_old_plan(patch: Patch) -> None:
    """Fewer slots, but what they are told to build is the old plan."""
    fit = Rescaling.fit

    def fitted(self: Rescaling, layout: Any, why: str) -> Any:
        return fit(self, dataclasses.replace(layout, plan_bytes=self.layout.plan_bytes), why)

    patch.setattr(Rescaling, "fit", fitted)


def nobody_is_told(patch: Patch) -> None:
    """The plan changes, and the driver goes on with what it knew."""
    lay_out = Coordinator._lay_out

    def laid_out(self: Coordinator, now: Any) -> Any:
        return [item for item in lay_out(self, now) if not isinstance(item, PlanChanged)]

    patch.setattr(Coordinator, "_lay_out", laid_out)


def splits_for_all_subtasks(patch: Patch) -> None:
    """Splits are dealt as if all subtasks were there."""
    patch.setattr(SplitAssigner, "change_plan", lambda self, plan: None)


def state_for_all_subtasks(patch: Patch) -> None:
    """So is state."""
    patch.setattr(JobStorage, "change_plan", lambda self, plan: None)


def slots_are_missed_in_a_running_job(patch: Patch) -> None:
    """A layout that comes late, when all slots are there and run, becomes that of the next attempt."""
    heard = Coordinator._on_laid_out

    def late(self: Coordinator, event: Any, now: Any) -> Any:
        if self.phase is JobPhase.STARTING:
            self._rescaling.layout = event.layout
        return heard(self, event, now) if self.phase is JobPhase.PREPARING else []

    patch.setattr(Coordinator, "_on_laid_out", late)


OFTEN = {"slots_leave": 0.3}

MUTATIONS: dict[str, Planted] = {
    "few slots build the old plan": Planted(few_slots_build_the_old_plan, "chain", 9, oftener=OFTEN),
    "nobody is told of the smaller plan": Planted(nobody_is_told, "chain", 8, oftener=OFTEN),
    "splits for all subtasks": Planted(splits_for_all_subtasks, "discovery", 12, oftener=OFTEN),
    "state for all subtasks": Planted(state_for_all_subtasks, "chain", 8, oftener=OFTEN),
    "the layout changes without its attempt": Planted(
        slots_are_missed_in_a_running_job, "chain", 9, oftener=OFTEN
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_planted_bug_is_found(mutation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    must_be_found(MUTATIONS[mutation], monkeypatch)
