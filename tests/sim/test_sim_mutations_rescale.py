"""Planted bugs around rescales in place: each must be found within a number of seeds."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from sim_planted import Patch, Planted, must_be_found

from penstock.coordinator.coordinator import Coordinator
from penstock.coordinator.events import PlanChanged
from penstock.coordinator.job_storage import JobStorage
from penstock.coordinator.rescaling import Rescaling
from penstock.coordinator.split_assigner import SplitAssigner


def output_forgotten(patch: Patch) -> None:
    """What the checkpoint of the rescale holds for the sinks is not committed."""
    claim, change_plan = JobStorage.claim, JobStorage.change_plan

    def changed(self: JobStorage, plan: Any) -> None:
        change_plan(self, plan)
        self._skips = True  # type: ignore[attr-defined]

    def claimed(self: JobStorage, checksums: bool) -> Any:
        event = claim(self, checksums)
        if event.restored is None or not self.__dict__.pop("_skips", False):
            return event
        return dataclasses.replace(event, restored=dataclasses.replace(event.restored, committables=()))

    patch.setattr(JobStorage, "change_plan", changed)
    patch.setattr(JobStorage, "claim", claimed)


def splits_for_the_old_subtasks(patch: Patch) -> None:
    """New splits are dealt as if the sources still had the subtasks that they had."""
    patch.setattr(SplitAssigner, "change_plan", lambda self, plan: None)


def state_for_the_old_subtasks(patch: Patch) -> None:
    """State is dealt as before."""
    patch.setattr(JobStorage, "change_plan", lambda self, plan: None)


def slots_build_the_old_plan(patch: Patch) -> None:
    """New slots, but what they are told to build is the old plan."""
    begin = Rescaling.begin

    def begun(self: Rescaling, request: Any, epoch: Any) -> Any:
        before = self.layout.plan_bytes
        out = begin(self, request, epoch)
        self.layout = dataclasses.replace(self.layout, plan_bytes=before)
        return out

    patch.setattr(Rescaling, "begin", begun)


def the_way_back_is_half_gone(patch: Patch) -> None:
    """A rescale that fails goes back to the old slots, but the driver is not told."""
    lay_out = Coordinator._lay_out

    def laid_out(self: Coordinator, now: Any) -> Any:
        out = lay_out(self, now)
        back = not self._rescaling.turns_back(ValueError())
        return [item for item in out if not (back and isinstance(item, PlanChanged))]

    patch.setattr(Coordinator, "_lay_out", laid_out)


OFTEN = {"rescale_in_place": 0.3}

MUTATIONS: dict[str, Planted] = {
    "the output of the checkpoint is forgotten": Planted(output_forgotten, "chain", 5, oftener=OFTEN),
    "splits for the old subtasks": Planted(splits_for_the_old_subtasks, "discovery", 2, oftener=OFTEN),
    "state for the old subtasks": Planted(state_for_the_old_subtasks, "chain", 4, oftener=OFTEN),
    "slots build the old plan": Planted(slots_build_the_old_plan, "chain", 5, oftener=OFTEN),
    "the way back is half gone": Planted(
        the_way_back_is_half_gone, "chain", 66, oftener=OFTEN | {"slots_missing": 0.5}
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_planted_bug_is_found(mutation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    must_be_found(MUTATIONS[mutation], monkeypatch)
