"""The slots of one attempt: who has registered, who has built its tasks, which tasks have finished.  Pure."""

from __future__ import annotations

from penstock.coordinator.events import Instruction, Restored, Send, SlotRegistered
from penstock.core.errors import ClusterError
from penstock.core.ids import Generation, SlotId, Subtask
from penstock.core.messages import Deploy
from penstock.graph.plan import Plan


class Gang:
    """Counts heads. A new one for every attempt."""

    def __init__(self, plan: Plan, plan_bytes: bytes) -> None:
        self._plan = plan
        self._plan_bytes = plan_bytes
        self._addresses: dict[SlotId, tuple[str, int]] = {}
        self._deployed: set[SlotId] = set()
        self._finished: set[Subtask] = set()

    @property
    def missing(self) -> int:
        """Slots that have not registered."""
        return self._plan.slots - len(self._addresses)

    @property
    def is_deployed(self) -> bool:
        """Whether all tasks of all slots are there."""
        return len(self._deployed) == self._plan.slots

    @property
    def is_finished(self) -> bool:
        """Whether all tasks have reached the end of their input."""
        return len(self._finished) == len(self._plan.subtasks())

    def too_late(self, timeout_ms: int) -> ClusterError:
        """The error if slots are missing after so long."""
        return ClusterError(
            f"{self.missing} of {self._plan.slots} slots did not start within {timeout_ms / 1000:g} s "
            "(penstock.slots.timeout). If the machines are busy or slow to start Python, raise "
            "penstock.slots.timeout; if other jobs hold Spark's cores, end them, lower the parallelism, or "
            f"give Spark {self._plan.slots} free cores"
        )

    def registered(self, event: SlotRegistered) -> None:
        """A slot is there."""
        self._addresses[event.slot] = event.address

    def deployed(self, slot: SlotId) -> None:
        """A slot has built its tasks."""
        self._deployed.add(slot)

    def has_deployed(self, slot: SlotId) -> bool:
        """Whether this slot has built its tasks."""
        return slot in self._deployed

    def finished(self, subtask: Subtask) -> None:
        """A task has reached the end of its input."""
        self._finished.add(subtask)

    def deployments(
        self, generation: Generation, attempt: int, restored: Restored | None
    ) -> list[Instruction]:
        """What each slot is told once all are there."""
        return [
            Send(slot, self._deployment(slot, generation, attempt, restored))
            for slot in sorted(self._addresses)
        ]

    def _deployment(
        self, slot: SlotId, generation: Generation, attempt: int, restored: Restored | None
    ) -> Deploy:
        known = (generation, self._plan_bytes, dict(self._addresses))
        if restored is None:
            return Deploy(*known, None, None, {}, attempt)
        share = (restored.share_of(slot), attempt, restored.channels.get(slot, ()))
        return Deploy(*known, restored.epoch, restored.root, *share)
