"""What became of each attempt, of its slots and of every subtask in them.  Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from penstock.core.ids import Generation, SlotId, Subtask, WallMs
from penstock.graph.plan import Plan

_NEVER = WallMs(0)
_PAST = 50
"""Attempts that are remembered."""


class TaskState(Enum):
    """Where a subtask is in its life, by the names that Flink's tools know."""

    CREATED = "known, nothing runs"
    SCHEDULED = "its slot is being started"
    DEPLOYING = "its slot is there and is told what to run"
    INITIALIZING = "it restores its state and opens its functions"
    RUNNING = "at work"
    FINISHED = "at the end of its input"
    CANCELING = "told to leave"
    CANCELED = "gone because it was told to"
    FAILED = "gone because it failed"

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self in (TaskState.FINISHED, TaskState.CANCELED, TaskState.FAILED)


_ORDER = list(TaskState)


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A subtask in the newest attempt."""

    state: TaskState
    since: Mapping[TaskState, WallMs]
    """When it came into each state that it has been in."""

    def moved(self, state: TaskState, now: WallMs) -> TaskRecord:
        """The same subtask, a state further; what is over stays as it is, and nobody goes back.

        A slot may say what it opens when it has opened everything: another thread of it says so.
        """
        if self.state.is_over or _ORDER.index(state) <= _ORDER.index(self.state):
            return self
        return TaskRecord(state, {**self.since, state: now})


@dataclass(frozen=True, slots=True)
class SlotRecord:
    """The process that hosts one subtask of every vertex."""

    slot: SlotId
    host: str = ""
    port: int = 0
    """Where other slots reach it."""
    registered_ms: WallMs = _NEVER
    heard_ms: WallMs = _NEVER
    """When it last sent a heartbeat."""
    used_bytes: int = 0
    process: Mapping[str, float] = field(default_factory=dict)
    """What it says of its process, see ``core/process_facts.py``; and ``limit_bytes``."""
    lost: bool = False


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One try to run the job."""

    number: int
    generation: Generation
    started_ms: WallMs
    ended_ms: WallMs | None = None


class AttemptHistory:
    """Knows the newest attempt in full, and when those before it were."""

    def __init__(self, plan: Plan, now: WallMs) -> None:
        self.attempts: deque[AttemptRecord] = deque(maxlen=_PAST)
        self.begun = 0
        """All that ever began."""
        self.tasks: dict[Subtask, TaskRecord] = {}
        self.slots: dict[SlotId, SlotRecord] = {}
        self.change_plan(plan, now)

    @property
    def generation(self) -> Generation:
        """Of the newest attempt."""
        return self.attempts[-1].generation if self.attempts else Generation(0)

    def change_plan(self, plan: Plan, now: WallMs) -> None:
        """The subtasks of the next attempt are others."""
        self._plan = plan
        created = TaskRecord(TaskState.CREATED, {TaskState.CREATED: now})
        self.tasks = dict.fromkeys(plan.subtasks(), created)

    def begin(self, generation: Generation, now: WallMs) -> None:
        """The slots of a new attempt are being started."""
        self.attempts.append(AttemptRecord(self.begun, generation, now))
        self.begun += 1
        since = {TaskState.CREATED: now, TaskState.SCHEDULED: now}
        self.tasks = dict.fromkeys(self._plan.subtasks(), TaskRecord(TaskState.SCHEDULED, since))
        self.slots = {}

    def registered(self, slot: SlotId, address: tuple[str, int], now: WallMs) -> None:
        """A slot is there."""
        self.slots[slot] = SlotRecord(slot, address[0], address[1], now, now)
        self._move_slot(slot, TaskState.DEPLOYING, now)

    def opening(self, slot: SlotId, now: WallMs) -> None:
        """A slot has begun to restore and open its tasks."""
        self._move_slot(slot, TaskState.INITIALIZING, now)

    def deployed(self, slot: SlotId, now: WallMs) -> None:
        """All tasks of a slot run."""
        self._move_slot(slot, TaskState.INITIALIZING, now)
        self._move_slot(slot, TaskState.RUNNING, now)

    def alive(self, slot: SlotId, used_bytes: int, process: Mapping[str, float], now: WallMs) -> None:
        """A slot sent a heartbeat."""
        known = self.slots.get(slot)
        if known is not None:
            used, facts = used_bytes or known.used_bytes, process or known.process
            self.slots[slot] = replace(known, heard_ms=now, used_bytes=used, process=facts)

    def lost(self, slot: SlotId, now: WallMs) -> None:
        """A slot is gone, and its tasks with it."""
        if slot in self.slots:
            self.slots[slot] = replace(self.slots[slot], lost=True)
        self._move_slot(slot, TaskState.FAILED, now)

    def move(self, subtask: Subtask, state: TaskState, now: WallMs) -> None:
        """One subtask has come into a state; a name that is no subtask's is passed over."""
        if subtask in self.tasks:
            self.tasks[subtask] = self.tasks[subtask].moved(state, now)

    def move_all(self, state: TaskState, now: WallMs) -> None:
        """All that is not over has come into a state."""
        self._move(list(self.tasks), state, now)

    def ended(self, now: WallMs) -> None:
        """No slot of the attempt runs any more."""
        self.move_all(TaskState.CANCELED, now)
        if self.attempts and self.attempts[-1].ended_ms is None:
            self.attempts[-1] = replace(self.attempts[-1], ended_ms=now)

    def finished(self, now: WallMs) -> None:
        """The job has: what was told to leave at its end has come to its end as well."""
        for subtask, record in self.tasks.items():
            if record.state is not TaskState.FINISHED:
                since = {key: at for key, at in record.since.items() if not key.is_over}
                self.tasks[subtask] = TaskRecord(TaskState.FINISHED, {**since, TaskState.FINISHED: now})

    def _move_slot(self, slot: SlotId, state: TaskState, now: WallMs) -> None:
        self._move(self._plan.subtasks_in(slot), state, now)

    def _move(self, subtasks: Iterable[Subtask], state: TaskState, now: WallMs) -> None:
        for subtask in subtasks:
            self.tasks[subtask] = self.tasks[subtask].moved(state, now)
