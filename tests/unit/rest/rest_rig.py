"""A job's history told by hand, and a look at it."""

from __future__ import annotations

from typing import Any

from coord_rig import CALENDAR, Rig

from penstock.coordinator.events import Event, Instruction, StatusChanged
from penstock.coordinator.job_history import JobHistory
from penstock.core.clock import Now
from penstock.core.config import Configuration
from penstock.core.ids import MonoMs, WallMs
from penstock.core.job import JobStatus
from penstock.rest.look import Look, Process

JOB = "0123456789abcdef" * 2


class Told(Rig):
    """A coordinator whose every event and instruction is told to a history, as the driver does."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.history = JobHistory(self.plan, WallMs(CALENDAR))
        self.status = JobStatus.CREATED

    def give(self, event: Event, after: int = 0) -> list[Instruction]:
        now = Now(MonoMs(self.now + after), WallMs(CALENDAR + self.now + after))
        self.history.heard(event, now)
        out = super().give(event, after)
        for instruction in out:
            if isinstance(instruction, StatusChanged):
                self.status = instruction.status
            self.history.did(instruction, now)
        return out

    def look(self, settings: dict[str, str] | None = None, **more: Any) -> Look:
        return Look(
            JOB,
            self.plan,
            self.settings,
            Configuration.from_dict(settings or {}),
            self.history.view(),
            self.status,
            CALENDAR + self.now,
            driver=Process(7, "here", 100, 1000, 1.5, 0.5, 2.0, 1.0, 3),
            **more,
        )
