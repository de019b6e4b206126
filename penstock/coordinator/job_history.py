"""What happened to a job, kept for whoever asks later: the page, Flink's tools, ``penstock events``.

The driver tells it every event that it hears and every instruction that it carries out.  All of it is
bounded, whatever the job goes through.  One thread tells; any may look, and gets a copy that does not change.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.coordinator.attempt_history import (
    AttemptHistory,
    TaskState,
)
from penstock.coordinator.checkpoint_history import (
    CheckpointHistory,
    CheckpointState,
    RestoreRecord,
)
from penstock.coordinator.events import (
    AttemptEnded,
    Claimed,
    EndJob,
    Event,
    Held,
    Instruction,
    PlanChanged,
    PublishDone,
    PublishFailed,
    Rescaled,
    SavepointWritten,
    SendAll,
    SlotLost,
    SlotRegistered,
    SlotSaid,
    Stalled,
    StartAttempt,
    StatusChanged,
    StopAttempt,
)
from penstock.coordinator.failure_history import FailureHistory, failure_of
from penstock.coordinator.history_view import Happening, HistoryView
from penstock.coordinator.metric_history import MetricHistory, Values
from penstock.coordinator.progress_history import Entry, ProgressHistory
from penstock.coordinator.rate_history import RateHistory
from penstock.coordinator.sightings import Sightings
from penstock.core.clock import Now
from penstock.core.discreet import shown
from penstock.core.errors import ProcessLostError
from penstock.core.ids import MonoMs, OperatorId, SlotId, Subtask, WallMs
from penstock.core.job import JobStatus
from penstock.core.messages import (
    AbortSnapshot,
    Deployed,
    FromSlot,
    Heartbeat,
    Opening,
    Output,
    Samples,
    SnapshotAck,
    SnapshotDeclined,
    TaskFailed,
    TaskFinished,
    TriggerSnapshot,
    WatermarkReport,
)
from penstock.graph.plan import Plan

_EVENTS = 1000
_LONGEST = 2000
"""Letters of an event: a record may be quoted in it."""


class JobHistory:
    """Gathers it. Told by one thread, looked at by any."""

    def __init__(self, plan: Plan, now: WallMs) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self._started_ms = now
        self._ended_ms: WallMs | None = None
        self._statuses: deque[tuple[JobStatus, WallMs]] = deque([(JobStatus.CREATED, now)], maxlen=200)
        self._since = {JobStatus.CREATED: now}
        self._attempts = AttemptHistory(plan, now)
        self._checkpoints = CheckpointHistory()
        self._failures = FailureHistory()
        self._metrics = MetricHistory()
        self._minutes = RateHistory()
        self._progress = ProgressHistory(plan)
        self._watermarks: dict[tuple[OperatorId, int], WatermarkReport] = {}
        self._events: deque[Happening] = deque(maxlen=_EVENTS)
        self._samples: dict[SlotId, tuple[WallMs, Samples]] = {}
        self._sightings = Sightings()
        self._stalled: str | None = None
        self._held: str | None = None
        self._is_planned = False
        """Whether the slots of an attempt are being ended on purpose."""
        self._hearers: dict[type, Callable[[Any, Now], None]] = {
            Claimed: self._on_claimed,
            SlotRegistered: self._on_registered,
            SlotLost: self._on_lost,
            SlotSaid: self._on_said,
            AttemptEnded: self._on_attempt_ended,
            PublishDone: lambda event, now: self._completed(event, now, "checkpoint"),
            SavepointWritten: lambda event, now: self._completed(event, now, "savepoint"),
            PublishFailed: lambda event, now: self._checkpoints.doubt(event.epoch, str(event.error)),
        }
        self._doers: dict[type, Callable[[Any, Now], None]] = {
            StartAttempt: self._on_start,
            StopAttempt: self._on_stop,
            SendAll: self._on_send_all,
            StatusChanged: self._on_status,
            Stalled: self._on_stalled,
            Held: self._on_held,
            PlanChanged: self._on_plan_changed,
            Rescaled: lambda done, now: self._happened(now.wall, "rescale", done.text),
            EndJob: self._on_end,
        }

    # --- telling ----------------------------------------------------------------------------

    def heard(self, event: Event, now: Now) -> None:
        """The driver has heard this."""
        hear = self._hearers.get(type(event))
        if hear is not None and not self._is_stale(event):
            with self._lock:
                hear(event, now)

    def did(self, instruction: Instruction, now: Now) -> None:
        """The driver has done this."""
        do = self._doers.get(type(instruction))
        if do is not None:
            with self._lock:
                do(instruction, now)

    def failed(self, error: Exception, now: WallMs) -> None:
        """The attempt, or the job, has failed."""
        with self._lock:
            root = self._failures.failed(error, now)
            self._happened(now, "failure", f"{root.name}: {_line(error)}")

    def explained(self, error: Exception) -> None:
        """The cause of the last failure is known now."""
        with self._lock:
            self._failures.explained(error)

    def status(self, status: JobStatus, now: WallMs) -> None:
        """For jobs without a driver of this kind: their status has changed."""
        with self._lock:
            self._to_status(status, now)
            if status.is_terminal_state():
                self._ended_ms = now

    def all_tasks(self, state: TaskState, now: WallMs) -> None:
        """The same for all their tasks."""
        with self._lock:
            self._attempts.move_all(state, now)

    def counted(self, subtask: Subtask, values: Values, now: MonoMs) -> None:
        """The same: one of their subtasks has counted this, and ended."""
        with self._lock:
            self._metrics.take(subtask, values, now)

    # --- looking ----------------------------------------------------------------------------

    def view(self) -> HistoryView:
        """All of it, as it is now."""
        with self._lock:
            checkpoints, attempts = self._checkpoints, self._attempts
            records = tuple(checkpoints.records())
            counts = {
                "total": checkpoints.begun,
                "in_progress": sum(one.state is CheckpointState.IN_PROGRESS for one in records),
                "completed": checkpoints.counts[CheckpointState.COMPLETED],
                "failed": checkpoints.counts[CheckpointState.FAILED],
                "restored": checkpoints.restores,
            }
            return HistoryView(
                self._plan,
                self._started_ms,
                self._ended_ms,
                tuple(self._statuses),
                dict(self._since),
                attempts.begun - 1,
                tuple(attempts.attempts),
                dict(attempts.tasks),
                dict(attempts.slots),
                records,
                counts,
                dict(checkpoints.latest),
                checkpoints.restored,
                tuple(self._failures.records),
                self._failures.count,
                tuple(self._events),
                self._metrics.newest(),
                self._metrics.rates(),
                dict(self._watermarks),
                self._stalled,
                self._held,
                dict(self._samples),
                self._minutes.moments(),
                self._sightings.view(),
            )

    def output(self, slot: SlotId) -> tuple[WallMs, Output] | None:
        """What a slot's process has written, as of when it was last asked."""
        with self._lock:
            return self._sightings.output(slot)

    def progress(self, told: int = 0) -> tuple[int, list[Entry]]:
        """How far the job came with each snapshot: how many entries there were, and those behind ``told``."""
        with self._lock:
            return self._progress.entered, self._progress.behind(told)

    def on_progress(self, wake: Callable[[], None]) -> None:
        """``wake`` is called when there is another, on the thread that tells; it must not block."""
        with self._lock:
            self._progress.hearers.append(wake)

    # --- what is heard ----------------------------------------------------------------------

    def _is_stale(self, event: Event) -> bool:
        generation = getattr(event, "generation", None)
        if generation is None or isinstance(event, Claimed):
            return False
        return bool(generation != self._attempts.generation)

    def _on_claimed(self, event: Claimed, now: Now) -> None:
        restored = event.restored
        if restored is not None:
            outside = restored.root is not None and restored.origin is not None and not self._attempts.begun
            self._checkpoints.restore(RestoreRecord(restored.epoch, now.wall, restored.root, outside))
            self._happened(now.wall, "restore", f"going on from snapshot {restored.epoch}")

    def _on_registered(self, event: SlotRegistered, now: Now) -> None:
        self._attempts.registered(event.slot, event.address, now.wall)

    def _on_lost(self, event: SlotLost, now: Now) -> None:
        self._attempts.lost(event.slot, now.wall)
        if self._is_planned:
            return  # it was told to leave
        host = self._host(event.slot)
        failure = failure_of(ProcessLostError(event.reason), now.wall, None, event.slot, host)
        self._failures.heard(ProcessLostError(event.reason), failure)
        self._happened(now.wall, "slot", event.reason)

    def _on_said(self, event: SlotSaid, now: Now) -> None:
        message, slot = event.message, event.slot
        self._sightings.heard(slot, message, now.wall)
        if isinstance(message, Heartbeat):
            self._attempts.alive(slot, message.used_bytes, message.process, now.wall)
            for subtask, values in message.metrics.items():
                self._metrics.take(subtask, values, now.mono)
            self._minutes.take(self._metrics, now)
        elif isinstance(message, WatermarkReport):
            self._watermarks[message.operator_id, message.subtask] = message
        else:
            self._on_task_said(slot, message, now)

    def _on_task_said(self, slot: SlotId, message: FromSlot, now: Now) -> None:
        attempts = self._attempts
        match message:
            case SnapshotAck():
                self._checkpoints.ack(message, now.wall)
                self._progress.ack(message)
            case SnapshotDeclined():
                place = self._plan.place(message.subtask)
                self._checkpoints.doubt(message.epoch, f"{place}: {message.reason}")
            case Opening():
                attempts.opening(slot, now.wall)
            case Deployed():
                attempts.deployed(slot, now.wall)
            case TaskFinished():
                attempts.move(message.subtask, TaskState.FINISHED, now.wall)
                self._metrics.take(message.subtask, message.metrics, now.mono)
            case Samples():
                self._samples[slot] = now.wall, message
            case TaskFailed():
                subtask = message.subtask if message.subtask in attempts.tasks else None
                place_of = (subtask, slot, self._host(slot))
                self._failures.heard(message.error, failure_of(message.error, now.wall, *place_of))
                attempts.move(message.subtask, TaskState.FAILED, now.wall)

    def _on_attempt_ended(self, event: AttemptEnded, now: Now) -> None:
        if event.error is not None:
            self._failures.heard(event.error, failure_of(event.error, now.wall))
        self._attempts.ended(now.wall)
        self._happened(now.wall, "attempt", f"attempt {self._attempts.begun - 1} has ended")

    def _completed(self, event: PublishDone | SavepointWritten, now: Now, noun: str) -> None:
        record = self._checkpoints.completed(event.epoch, now.wall)
        if record is not None and noun == "checkpoint":  # a job goes on from no other snapshot
            self._progress.completed(record, self._watermarks.values(), now)
        if noun == "savepoint":
            self._happened(now.wall, "savepoint", f"savepoint {event.epoch} is complete")

    # --- what is done -----------------------------------------------------------------------

    def _on_start(self, instruction: StartAttempt, now: Now) -> None:
        self._is_planned = False
        self._attempts.begin(instruction.generation, now.wall)
        self._failures.new_attempt()
        self._metrics.new_attempt()
        self._progress.new_attempt(now.mono)
        self._watermarks.clear()
        self._samples.clear()
        self._sightings.new_attempt()
        begun = f"attempt {self._attempts.begun - 1} begins with {instruction.slots} slots"
        self._happened(now.wall, "attempt", begun)

    def _on_stop(self, instruction: StopAttempt, now: Now) -> None:
        self._attempts.move_all(TaskState.CANCELING, now.wall)
        self._checkpoints.give_up_incomplete(f"its slots were stopped: {instruction.reason}", now.wall)

    def _on_send_all(self, instruction: SendAll, now: Now) -> None:
        message = instruction.message
        if isinstance(message, TriggerSnapshot):
            self._checkpoints.begin(message, self._plan.tasks)
        elif isinstance(message, AbortSnapshot):
            failed = self._checkpoints.failed(message.epoch, message.reason, now.wall)
            if failed is not None:
                self._happened(now.wall, "checkpoint", f"checkpoint {message.epoch} failed: {failed.failure}")

    def _on_stalled(self, instruction: Stalled, now: Now) -> None:
        self._stalled = instruction.why
        self._happened(now.wall, "watermark", instruction.why or "the watermark advances again")

    def _on_plan_changed(self, instruction: PlanChanged, now: Now) -> None:
        self._plan = self._progress.plan = instruction.plan
        self._attempts.change_plan(instruction.plan, now.wall)

    def _on_held(self, instruction: Held, now: Now) -> None:
        self._held = instruction.why
        self._happened(now.wall, "commit", instruction.why or "checkpoints go on")

    def _on_end(self, instruction: EndJob, now: Now) -> None:
        self._ended_ms = now.wall
        if instruction.status is JobStatus.FINISHED:
            self._attempts.finished(now.wall)
        else:
            self._attempts.move_all(TaskState.CANCELED, now.wall)
        self._checkpoints.give_up_incomplete("the job has ended", now.wall)
        self._to_status(instruction.status, now.wall)

    def _on_status(self, instruction: StatusChanged, now: Now) -> None:
        self._is_planned = instruction.planned
        self._to_status(instruction.status, now.wall)

    def _to_status(self, status: JobStatus, now: WallMs) -> None:
        if self._statuses[-1][0] is status:
            return
        self._statuses.append((status, now))
        self._since[status] = now
        self._stalled = None
        self._happened(now, "status", status.name)

    def _host(self, slot: SlotId) -> str:
        return self._attempts.slots[slot].host if slot in self._attempts.slots else ""

    def _happened(self, now: WallMs, kind: str, text: str) -> None:
        self._events.append(Happening(now, kind, shown(text[: 2 * _LONGEST])[:_LONGEST]))


def _line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
