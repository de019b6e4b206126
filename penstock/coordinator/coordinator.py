"""The job's state machine: one door, events in, instructions out.

::

    CREATED ─ claim ─▶ PREPARING ─ splits found, old commits done ─▶ STARTING ─ all slots ─▶ DEPLOYING
        ─ all deployed ─▶ RUNNING ─ final snapshot committed ─▶ STOPPING ─▶ ENDED
    STARTING ─ too few slots for a while ─▶ STOPPING ─ worker group is gone ─▶ (claim again, a smaller plan)
    RUNNING ─ checkpoint of a rescale published ─▶ STOPPING ─ worker group is gone ─▶ (claim again)
    any ─ failure ─▶ STOPPING ─ worker group is gone ─▶ WAITING ─ delay over ─▶ (claim again) or ENDED

Invariants
* At most one attempt exists; a new one starts only after the old worker group is gone.
* Nothing is committed without a permit, and a permit exists only for what is published.
* Committables of a restored snapshot are committed before the first record of the new attempt.
* A message of an older generation changes nothing.
"""

# long because a state machine is read as a whole
from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.coordinator.checkpoint_coordinator import CheckpointCoordinator
from penstock.coordinator.commits import CommitQueue
from penstock.coordinator.elasticity import Elasticity
from penstock.coordinator.events import (
    AttemptEnded,
    CancelRequested,
    Claim,
    Claimed,
    ClaimFailed,
    CommitDone,
    CommitFailed,
    DiscoveryFailed,
    EndJob,
    Event,
    Instruction,
    LaidOut,
    LayoutRefused,
    PlanChanged,
    PublishDone,
    PublishFailed,
    ReportFailure,
    Rescaled,
    SavepointWritten,
    SendAll,
    SlotLost,
    SlotRegistered,
    SlotSaid,
    SlotsFound,
    SnapshotRequested,
    SplitsDiscovered,
    Start,
    StartAttempt,
    StatusChanged,
    StopAttempt,
    Tick,
)
from penstock.coordinator.layout import Layout
from penstock.coordinator.phases import JobPhase, is_stale
from penstock.coordinator.rescaling import Rescaling
from penstock.coordinator.restart import RestartCounter, may_pass
from penstock.coordinator.restored import Restored
from penstock.coordinator.settings import JobSettings
from penstock.coordinator.split_assigner import SplitAssigner
from penstock.coordinator.watermark_alignment import WatermarkAligner
from penstock.coordinator.worker_group import WorkerGroup
from penstock.core.clock import Now, later
from penstock.core.errors import (
    ClusterError,
    CorruptSnapshotError,
    FencedError,
    PenstockError,
    ProcessLostError,
    SparkLostError,
    TransportError,
)
from penstock.core.ids import Generation, MonoMs, SlotId
from penstock.core.job import JobStatus
from penstock.core.messages import (
    Deployed,
    Leave,
    SnapshotAck,
    SnapshotDeclined,
    TaskFailed,
    WatermarkReport,
)
from penstock.graph.plan import Plan


class Coordinator:
    """Decides. Call :meth:`handle` from one thread only."""

    def __init__(
        self,
        plan: Plan,
        plan_bytes: bytes,
        job_id: str,
        settings: JobSettings,
        rng: random.Random,
        versions: dict[str, str] | None = None,
    ) -> None:
        self.phase = JobPhase.CREATED
        self.generation = Generation(0)
        self.attempt = -1
        self.commits = CommitQueue(settings.committer_retries, settings.commit_backoff_ms)
        self.checkpoints = CheckpointCoordinator(plan, job_id, settings, versions or {}, self.commits)
        self.log: deque[tuple[MonoMs, str]] = deque(maxlen=1000)
        self._rescaling = Rescaling(Layout(plan, plan_bytes))
        self._elastic = Elasticity(settings.elastic)
        self._settings = settings
        self._restart = RestartCounter(settings.restart, rng)
        self._restored: Restored | None = None
        self._sources = SplitAssigner(plan)
        self._group = WorkerGroup(plan, plan_bytes)
        self._watermarks = WatermarkAligner(settings.stall_ms)
        self._damaged = self._cancelled = self._is_failing = self._keep = False
        self._lost: SparkLostError | None = None
        self._deadline: MonoMs | None = None
        self._after_stop: Callable[[Now], list[Instruction]] | None = None
        self._handlers: dict[type, Callable[[Any, Now], list[Instruction]]] = {
            Start: lambda event, now: [Claim()],
            Claimed: self._on_claimed,
            ClaimFailed: self._on_claim_failed,
            SplitsDiscovered: self._on_splits,
            DiscoveryFailed: lambda event, now: self._fail(event.error, now),
            SlotRegistered: self._on_registered,
            SlotLost: lambda event, now: self._fail(ProcessLostError(event.reason), now),
            SlotSaid: self._on_said,
            AttemptEnded: self._on_attempt_ended,
            PublishDone: self._on_published,
            SavepointWritten: lambda event, now: self.checkpoints.on_written(event.epoch, now.mono),
            PublishFailed: self._on_publish_failed,
            CommitDone: self._on_committed,
            CommitFailed: self._on_commit_failed,
            CancelRequested: self._on_cancel,
            SnapshotRequested: self._on_requested,
            SlotsFound: self._on_slots_found,
            LaidOut: self._on_laid_out,
            LayoutRefused: self._on_layout_refused,
            Tick: lambda event, now: [],
        }

    # --- the door ---------------------------------------------------------------------------

    def handle(self, event: Event, now: Now) -> list[Instruction]:
        """Take one event; the instructions must be carried out in order."""
        if self.phase is JobPhase.ENDED or is_stale(event, self.phase, self.generation):
            return []
        before = self.phase
        instructions = self._handlers[type(event)](event, now)
        instructions += self._on_time(now)
        if self.phase is not before:
            self._elastic.entered(self.phase, self._rescaling, now.mono)
            instructions += self._elastic.look(self.generation, now.mono)
            self.log.append((now.mono, f"{before.name} -> {self.phase.name} on {type(event).__name__}"))
        return instructions

    def next_wake(self) -> MonoMs | None:
        """When a :class:`Tick` is due at the latest."""
        times = [
            self._deadline,
            self._elastic.next_wake(),
            self.commits.next_wake() if self._may_commit else None,
        ]
        if self.phase is JobPhase.RUNNING:
            times += [self.checkpoints.next_wake(), self._sources.next_wake()]
        return min((time for time in times if time is not None), default=None)

    def _on_time(self, now: Now) -> list[Instruction]:
        """Whatever is due: commits, snapshots, discovery, deadlines."""
        out: list[Instruction] = []
        commit = self.commits.next(now.mono) if self._may_commit else None
        if commit is not None:
            out.append(commit)
        if self._deadline is not None and now.mono >= self._deadline:
            self._deadline = None
            out += self._on_deadline(now)
        out += self._elastic.look(self.generation, now.mono)
        if self.phase is JobPhase.RUNNING:
            out += self._sources.look_again(self.generation, now.mono)
            enumerators, is_finished = self._sources.enumerators(), self._group.is_finished
            out += self._or_fail(*self.checkpoints.on_time(now, enumerators, is_finished), now)
        return out

    @property
    def _may_commit(self) -> bool:
        """Between two attempts what is open waits for the next one; behind a cancelled job there is none."""
        return self._cancelled or self.phase is JobPhase.PREPARING or self.phase.has_slots

    def _or_fail(self, out: list[Instruction], error: Exception | None, now: Now) -> list[Instruction]:
        return out + (self._fail(error, now) if error is not None else [])

    def _on_deadline(self, now: Now) -> list[Instruction]:
        if self.phase is JobPhase.WAITING:
            self.phase = JobPhase.CREATED
            return [Claim(self._damaged)]
        return self._fail(self._group.too_late(self._settings), now)

    # --- starting ---------------------------------------------------------------------------

    def _on_claim_failed(self, event: ClaimFailed, now: Now) -> list[Instruction]:
        """At a restart the storage may just be out of reach for a while; anything else is for the user."""
        if self._rescaling.turns_back(event.error):
            return [*self._rescaling.turn_back(event.error), *self._lay_out(now)]
        again = self.attempt >= 0 and may_pass(event.error)
        delay = self._restart.next_delay(now.mono) if again else None
        if delay is None:
            return self._end(JobStatus.FAILED, event.error)
        return [ReportFailure(event.error, delay), *self._wait(later(now.mono, delay))]

    def _on_claimed(self, event: Claimed, now: Now) -> list[Instruction]:
        self.phase = JobPhase.PREPARING
        self.generation = event.generation
        self.attempt += 1
        self._restored = event.restored
        self._group = WorkerGroup(self._rescaling.layout.plan, self._rescaling.layout.plan_bytes)
        self._watermarks.restart()
        restored = event.restored
        origin = restored.origin if restored else None
        self.checkpoints.new_attempt(event.generation, event.last_epoch, origin)
        self.commits.restart(restored.committables if restored else (), restored.permit if restored else None)
        # Without checkpoints nothing says what was read: at most once, the job goes on with what is new.
        from_end = self.attempt > 0 and restored is None and self._settings.interval_ms is None
        enumerators = restored.enumerators if restored else None
        out = self._sources.restart(event.generation, enumerators, from_end)
        return out + self._start_if_ready(now)

    def _on_splits(self, event: SplitsDiscovered, now: Now) -> list[Instruction]:
        self._sources.found(event, now.mono)
        if self.phase is JobPhase.PREPARING:
            return self._start_if_ready(now)
        return self._sources.assign() if self.phase is JobPhase.RUNNING else []

    def _start_if_ready(self, now: Now) -> list[Instruction]:
        if self.phase is not JobPhase.PREPARING or not self._sources.is_ready or not self.commits.is_empty:
            return []
        self.phase = JobPhase.STARTING
        self._deadline = later(now.mono, self._settings.slots_timeout_ms)
        return [StartAttempt(self.generation, self._group.wanted)]

    def _on_registered(self, event: SlotRegistered, now: Now) -> list[Instruction]:
        if self.phase is not JobPhase.STARTING:
            return []
        self._group.registered(event)
        if self._group.missing:
            return []
        self.phase = JobPhase.DEPLOYING
        self._deadline = later(now.mono, self._settings.deploy_timeout_ms)
        return self._group.deployments(self.generation, self.attempt, self._restored) + self._sources.assign()

    def _on_requested(self, event: SnapshotRequested, now: Now) -> list[Instruction]:
        return self._rescaling.refuse(event.request) or self.checkpoints.requests.ask(event.request)

    def _on_slots_found(self, event: SlotsFound, now: Now) -> list[Instruction]:
        if event.room is None:
            return []
        return self._elastic.found(self.generation, event.room, self._rescaling, now.mono)

    def _on_laid_out(self, event: LaidOut, now: Now) -> list[Instruction]:
        if self.phase is not JobPhase.STARTING:
            return []  # the slots came after all
        out = self._rescaling.fit(event.layout, event.why)
        return out + self._stop(now, event.why, self._lay_out)

    def _on_layout_refused(self, event: LayoutRefused, now: Now) -> list[Instruction]:
        self._elastic.refused()
        return [Rescaled(f"the job cannot go on at parallelism {event.parallelism}: {event.error}")]

    # --- running ----------------------------------------------------------------------------

    def _on_said(self, event: SlotSaid, now: Now) -> list[Instruction]:
        message = event.message
        self._group.hear(event.slot, message)
        if isinstance(message, TaskFailed):
            return self._on_task_failed(event.slot, message.error, now)
        if isinstance(message, Deployed) and self._group.is_deployed and self.phase is JobPhase.DEPLOYING:
            self.phase = JobPhase.RUNNING
            self._deadline = None
            self.checkpoints.start(now.mono)
            return [StatusChanged(JobStatus.RUNNING), *self._rescaling.arrived()]
        if isinstance(message, WatermarkReport):
            return self._watermarks.on_report(event.slot, message, now.mono, self.phase is JobPhase.RUNNING)
        if isinstance(message, SnapshotAck):
            return self.checkpoints.on_ack(message, now)
        if isinstance(message, SnapshotDeclined):
            return self._or_fail(*self.checkpoints.on_declined(message), now)
        return []

    def _on_task_failed(self, slot: SlotId, error: Exception, now: Now) -> list[Instruction]:
        building = self.phase is JobPhase.DEPLOYING and not self._group.has_deployed(slot)
        if building and isinstance(error, CorruptSnapshotError) and not self._damaged:
            # Reading state found damage that lengths do not show: look again, with checksums.
            self._damaged = True
            return [
                ReportFailure(error, 0),
                *self._stop(now, "a damaged snapshot", lambda _: self._wait(now.mono)),
            ]
        if building and self.attempt == 0 and not isinstance(error, TransportError):
            return self._give_up(error, now)
        return self._fail(error, now)

    def _on_published(self, event: PublishDone, now: Now) -> list[Instruction]:
        pending = self.checkpoints.on_published(event.epoch, now.mono)
        if pending is None:
            return []
        self.commits.published(pending.committables(), event.permit)
        if self.phase is not JobPhase.RUNNING:
            return self._end_if_cancelled()
        out = self.checkpoints.announce(event.epoch)
        request = self.checkpoints.requests.rescale()
        if request is not None:
            out += self._rescaling.begin(request, event.epoch)
            return out + self._stop(now, "the job is rescaled", self._lay_out)
        return out + self._finish_if_done(now)

    def _on_publish_failed(self, event: PublishFailed, now: Now) -> list[Instruction]:
        if isinstance(event.error, FencedError):
            self._is_failing = True
            return self._stop(now, str(event.error), lambda _: self._end(JobStatus.FAILED, event.error))
        out, error = self.checkpoints.on_publish_failed(event.epoch, event.error)
        return self._or_fail(out, error, now) if self.phase is JobPhase.RUNNING else self._end_if_cancelled()

    def _on_committed(self, event: CommitDone, now: Now) -> list[Instruction]:
        try:
            self.commits.done(event, now.mono)
        except PenstockError as error:
            return self._on_commit_failed(CommitFailed(error), now)
        if self._cancelled:
            return self._end_cancelled()
        return self._start_if_ready(now) or self._finish_if_done(now)

    def _on_commit_failed(self, event: CommitFailed, now: Now) -> list[Instruction]:
        self.commits.failed()
        if self._cancelled:
            return self._end(JobStatus.CANCELED, None)
        return self._fail(event.error, now)

    def _finish_if_done(self, now: Now) -> list[Instruction]:
        is_done = self.checkpoints.final_published and self.commits.is_empty
        if self.phase is not JobPhase.RUNNING or not is_done:
            return []
        self.checkpoints.requests.finish()
        return self._stop(now, "the job has finished", lambda _: self._end(JobStatus.FINISHED, None))

    # --- stopping ---------------------------------------------------------------------------

    def _on_cancel(self, event: CancelRequested, now: Now) -> list[Instruction]:
        self._keep |= event.keep
        if self._is_failing:
            return []  # what is published, or commits, may not be ours any more: not to be waited for
        if self.phase is JobPhase.STOPPING:
            self._after_stop = lambda _: self._end_cancelled()
            return [StatusChanged(JobStatus.CANCELLING)]
        out: list[Instruction] = [StatusChanged(JobStatus.CANCELLING)]
        return out + self._stop(now, "the job was cancelled", lambda _: self._end_cancelled())

    def _fail(self, error: Exception, now: Now) -> list[Instruction]:
        """Stop the attempt; then restart or give up, as the strategy says."""
        if self.phase in (JobPhase.CREATED, JobPhase.STOPPING, JobPhase.WAITING, JobPhase.ENDED):
            return []
        if self._rescaling.turns_back(error):
            out = self._rescaling.turn_back(error)
            return out + self._stop(now, f"the job is not rescaled: {error}", self._lay_out)
        delay = self._restart.delay_after(error, now.mono)
        if delay is None:
            return self._give_up(error, now)
        restart_at = later(now.mono, delay)
        out = [ReportFailure(error, delay), StatusChanged(JobStatus.RESTARTING)]
        return out + self._stop(now, f"the job restarts: {error}", lambda _: self._wait(restart_at))

    def _give_up(self, error: Exception, now: Now) -> list[Instruction]:
        """End as FAILED. Also for errors while tasks are first built: trying again would not help."""
        self._is_failing = True
        stop = self._stop(now, f"the job has failed: {error}", lambda _: self._end(JobStatus.FAILED, error))
        return [StatusChanged(JobStatus.FAILING), *stop]

    def _stop(self, now: Now, reason: str, after: Callable[[Now], list[Instruction]]) -> list[Instruction]:
        """End the worker group, if there is one, then go on with ``after``."""
        out = self.checkpoints.clear(reason)
        self._deadline = None
        has_slots = self.phase.has_slots
        self.phase = JobPhase.STOPPING
        if not has_slots:
            return out + after(now)
        self._after_stop = after
        return [*out, SendAll(Leave(reason)), StopAttempt(self.generation, reason)]

    def _on_attempt_ended(self, event: AttemptEnded, now: Now) -> list[Instruction]:
        if self.phase is not JobPhase.STOPPING:
            error = event.error or ClusterError("the Spark job of the worker group ended unexpectedly")
            first = self.phase is JobPhase.STARTING and self.attempt == 0
            hopeless = first and not isinstance(error, ProcessLostError)
            out = self._give_up(error, now) if hopeless else self._fail(error, now)
            return [item for item in out if not isinstance(item, StopAttempt)] + self._ended(now)
        self._lost = event.error if isinstance(event.error, SparkLostError) else None
        return self._ended(now)

    def _ended(self, now: Now) -> list[Instruction]:
        after, self._after_stop = self._after_stop, None
        return after(now) if after is not None else []

    def _lay_out(self, now: Now) -> list[Instruction]:
        """No worker group runs: the next one may have another plan."""
        plan = self._rescaling.layout.plan
        self.checkpoints.change_plan(plan)
        self._sources.change_plan(plan)
        return [PlanChanged(plan), *self._wait(now.mono)]

    def _wait(self, restart_at: MonoMs) -> list[Instruction]:
        if self._lost is not None:
            return self._end(JobStatus.FAILED, self._lost)
        self.phase = JobPhase.WAITING
        self._deadline = restart_at
        return []

    def _end_cancelled(self) -> list[Instruction]:
        self._cancelled = True
        return self._end_if_cancelled()

    def _end_if_cancelled(self) -> list[Instruction]:
        """What is published is promised: it is committed before the job ends."""
        is_over = self._cancelled and self.commits.is_empty and not self.checkpoints.is_publishing
        return self._end(JobStatus.CANCELED, None) if is_over else []

    def _end(self, status: JobStatus, error: Exception | None) -> list[Instruction]:
        self.phase = JobPhase.ENDED
        delete = self._settings.deletes_checkpoints(status, self._keep) and self.commits.is_empty
        how = status.name if error is None else f"{status.name}, {error}"
        answers = self._rescaling.close(how) + self.checkpoints.requests.close(how)
        abandons = status is JobStatus.CANCELED and self._group.is_deployed and self.checkpoints.is_settled
        last = self.generation if abandons else None
        return [StatusChanged(status), EndJob(status, error, delete, answers, last)]
