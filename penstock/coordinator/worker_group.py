"""The slots of one attempt: who has registered, who has built its tasks, which tasks have finished.  Pure."""

from __future__ import annotations

from penstock.coordinator.events import Instruction, Send, SlotRegistered
from penstock.coordinator.restored import Restored
from penstock.coordinator.settings import JobSettings
from penstock.core.documents import dump
from penstock.core.errors import ClusterError
from penstock.core.ids import Generation, SlotId, Subtask
from penstock.core.messages import Deploy, Deployed, FromSlot, Opening, TaskFinished
from penstock.graph.plan import Plan


class WorkerGroup:
    """Counts heads. A new one for every attempt."""

    def __init__(self, plan: Plan, plan_bytes: bytes) -> None:
        self._plan = plan
        self._plan_bytes = plan_bytes
        self._addresses: dict[SlotId, tuple[str, int]] = {}
        self._opening: dict[SlotId, Opening] = {}
        self._deployed: set[SlotId] = set()
        self._finished: set[Subtask] = set()

    @property
    def wanted(self) -> int:
        """Slots that the attempt needs."""
        return self._plan.slots

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
        return len(self._finished) == self._plan.tasks

    def too_late(self, settings: JobSettings) -> ClusterError:
        """The error if slots, or tasks in them, are missing when their time is over."""
        if not self.missing:
            return self._not_built(settings.deploy_timeout_ms)
        timeout_s = settings.slots_timeout_ms / 1000
        return ClusterError(
            f"{self.missing} of {self._plan.slots} slots did not start within {timeout_s:g} s "
            "(penstock.slots.timeout). If the machines are busy or slow to start Python, raise "
            "penstock.slots.timeout; if other jobs hold Spark's cores, end them, lower the parallelism, or "
            f"give Spark {self._plan.slots} free cores"
        )

    def _not_built(self, timeout_ms: int) -> ClusterError:
        """What each slot is at that has not built its tasks."""
        late = [self._at(slot) for slot in sorted(self._addresses) if slot not in self._deployed]
        return ClusterError(
            f"{len(late)} of {self._plan.slots} slots have not built their tasks within "
            f"{timeout_ms / 1000:g} s: {'; '.join(late)}. A sink, source or function may wait there for "
            "something that does not answer; if reading the state takes so long, raise "
            "penstock.deploy.timeout"
        )

    def _at(self, slot: SlotId) -> str:
        found = self._opening.get(slot)
        if found is None:
            return f"slot {slot} has not begun"
        return f"step {found.step!r}, subtask {found.subtask.index}, does not open"

    def registered(self, event: SlotRegistered) -> None:
        """A slot is there."""
        self._addresses[event.slot] = event.address

    def hear(self, slot: SlotId, message: FromSlot) -> None:
        """A slot says how far it is."""
        if isinstance(message, Deployed):
            self._deployed.add(slot)
        elif isinstance(message, Opening):
            self._opening[slot] = message
        elif isinstance(message, TaskFinished):
            self._finished.add(message.subtask)

    def has_deployed(self, slot: SlotId) -> bool:
        """Whether this slot has built its tasks."""
        return slot in self._deployed

    def deployments(
        self, generation: Generation, attempt: int, restored: Restored | None
    ) -> list[Instruction]:
        """What each slot is told once all are there."""
        known = (generation, self._plan_bytes, dump(self._addresses))
        return [
            Send(slot, self._deployment(slot, known, attempt, restored)) for slot in sorted(self._addresses)
        ]

    def _deployment(
        self, slot: SlotId, known: tuple[Generation, bytes, bytes], attempt: int, restored: Restored | None
    ) -> Deploy:
        if restored is None:
            return Deploy(*known, None, None, {}, attempt)
        held = restored.subtasks
        share = {subtask: held[subtask] for subtask in self._plan.subtasks_in(slot) if subtask in held}
        channels = restored.channels.get(slot, ())
        return Deploy(*known, restored.epoch, restored.root, share, attempt, channels)
