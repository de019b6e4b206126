"""The phases of a job, as the coordinator sees them."""

from __future__ import annotations

from enum import Enum

from penstock.coordinator.events import Claimed, ClaimFailed, Event, SlotLost, SlotRegistered, SlotSaid
from penstock.core.ids import Generation


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


def is_stale(event: Event, phase: JobPhase, generation: Generation) -> bool:
    """Whether an event comes too late to mean anything to a job in this phase of this attempt."""
    if isinstance(event, (Claimed, ClaimFailed)):
        return phase is not JobPhase.CREATED  # it was cancelled meanwhile
    of = getattr(event, "generation", None)
    if of is None:
        return False
    if isinstance(event, (SlotLost, SlotSaid, SlotRegistered)) and phase is JobPhase.STOPPING:
        return True
    return bool(of != generation)
