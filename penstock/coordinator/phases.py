"""The phases of a job, as the coordinator sees them."""

from __future__ import annotations

from enum import Enum


class JobPhase(Enum):
    """What the coordinator is waiting for."""

    CREATED = "the journal to be claimed"
    PREPARING = "splits, and commits left over from the restored snapshot"
    STARTING = "the slots of the worker group to register"
    DEPLOYING = "the slots to build their tasks"
    RUNNING = "the input to end"
    STOPPING = "the worker group to be gone"
    WAITING = "the restart delay to pass"
    ENDED = "nothing"

    @property
    def has_slots(self) -> bool:
        """Whether a worker group runs, or may."""
        return self in (JobPhase.STARTING, JobPhase.DEPLOYING, JobPhase.RUNNING)
