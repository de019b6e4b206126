"""The checkpoint coordinator: which snapshots are pending, and what each waits for.

A snapshot is *pending* (waiting for acknowledgements), then *publishing* (the manifest is being made
true), then published and forgotten here.  Publishing happens in order of epoch.
"""

from __future__ import annotations

from typing import Any

from penstock.coordinator.commits import CommitQueue
from penstock.coordinator.events import Instruction, Publish, RequestKind, SendAll, SnapshotRequest
from penstock.coordinator.manifests import ManifestMaker
from penstock.coordinator.savepoint_requests import SavepointRequests
from penstock.coordinator.schedule import CommitHold, FailureKind, PendingSnapshot, SnapshotSchedule
from penstock.coordinator.settings import JobSettings
from penstock.core.clock import Now, later
from penstock.core.errors import SnapshotError
from penstock.core.ids import Epoch, Generation, MonoMs, OperatorId
from penstock.core.messages import (
    AbortSnapshot,
    EndInput,
    SnapshotAck,
    SnapshotCompleted,
    SnapshotDeclined,
    TriggerSnapshot,
)
from penstock.core.signals import SnapshotKind
from penstock.graph.plan import Plan
from penstock.snapshot.manifest import Origin

Outcome = tuple[list[Instruction], Exception | None]
"""Instructions, and the error that fails the job, if it does."""


class CheckpointCoordinator:
    """Triggers, collects, completes, expires and aborts snapshots. Pure."""

    def __init__(
        self,
        plan: Plan,
        job_id: str,
        settings: JobSettings,
        versions: dict[str, str],
        commits: CommitQueue,
    ) -> None:
        self.final_published = False
        self.last_published: Epoch | None = None
        self.completed = 0
        """Snapshots published since the job started, over all attempts."""
        self.history: list[dict[str, float]] = []
        self.requests = SavepointRequests()
        self._plan = plan
        self._settings = settings
        self._commits = commits
        self._maker = ManifestMaker(plan, job_id, versions)
        self._schedule = SnapshotSchedule(settings)
        self._hold = CommitHold(commits)
        self._last_epoch = Epoch(0)
        self._pending: dict[Epoch, PendingSnapshot] = {}
        self._publishing: dict[Epoch, PendingSnapshot] = {}
        self._in_doubt = False
        """Whether the newest checkpoint that was to be published may be true or not."""

    def new_attempt(self, generation: Generation, last_epoch: Epoch, origin: Origin | None = None) -> None:
        """A new worker group will start; epochs go on from where any attempt ever was."""
        self._maker.generation = generation
        self._maker.origin = origin
        self._last_epoch = max(self._last_epoch, last_epoch)
        self.final_published = False
        self._in_doubt = False
        self._schedule.reset_failures()
        self._forget()

    def change_plan(self, plan: Plan) -> None:
        """The attempts to come have another plan."""
        self._plan = plan
        self._maker.plan = plan

    def start(self, now: MonoMs) -> None:
        """All tasks run."""
        self._schedule.start(now)

    def clear(self, reason: str) -> list[Instruction]:
        """Forget what is pending: its slots go away.  What is being published may still become durable."""
        publishing = {epoch: one for epoch, one in self._publishing.items() if not one.standalone}
        self._forget()
        self._publishing = publishing
        return self.requests.clear(reason)

    def _forget(self) -> None:
        self._pending.clear()
        self._publishing.clear()
        self._schedule.stop()
        self._hold.forget()

    @property
    def is_publishing(self) -> bool:
        """Whether a checkpoint is being published."""
        return bool(self._publishing)

    @property
    def is_settled(self) -> bool:
        """Whether nothing counts on prepared output that is not committed.

        A savepoint of a job without checkpoints does.
        """
        return self._commits.is_empty and not self._in_doubt and self._settings.interval_ms is not None

    @property
    def held(self) -> str | None:
        """Why snapshots that are due or asked for do not begin."""
        return self._hold.why

    def pending(self) -> list[dict[str, Any]]:
        """Snapshots that wait for acknowledgements or storage, in plain values."""
        total = self._plan.tasks
        return [
            {"epoch": pending.epoch, "kind": pending.kind.value, "acks": len(pending.acks), "of": total}
            for pending in [*self._publishing.values(), *self._pending.values()]
        ]

    def next_wake(self) -> MonoMs | None:
        """When something becomes due."""
        expiries = [later(one.triggered_at, self._settings.timeout_ms) for one in self._pending.values()]
        due = self._schedule.next_wake()
        untold = not self._hold.is_full or self._hold.why is None  # once due, users hear that it is held
        if due is not None and not self.requests.is_last_begun and self._room() and untold:
            expiries.append(due)
        return min(expiries, default=None)

    def _room(self) -> bool:
        """Whether a periodic checkpoint may begin; savepoints take no room."""
        begun = [*self._pending.values(), *self._publishing.values()]
        most = self._schedule.max_concurrent
        return sum(not pending.standalone for pending in begun) < most and not self._would_overtake()

    def _would_overtake(self) -> bool:
        """Whether a checkpoint's barriers would overtake a savepoint's, and so end it."""
        kinds = [pending.kind for pending in self._pending.values()]
        return self._settings.unaligned and SnapshotKind.SAVEPOINT in kinds

    def on_time(self, now: Now, enumerators: dict[OperatorId, bytes], all_finished: bool) -> Outcome:
        """Expire what took too long; trigger what is due or was asked for."""
        out, error = self._expire(now.mono)
        if error is not None:
            return out, error
        if all_finished:
            self._schedule.stop()
            if not self._pending and not self._publishing and not self.final_published:
                out.append(self._trigger_last(now, enumerators))
            return out, None
        out += self._hold.look(self._is_due(now.mono) or self.requests.is_wanted, now.mono)
        out += self._begin_requests(now, enumerators)
        if self._is_due(now.mono) and not self._hold.is_full:
            self._schedule.on_triggered(now.mono)
            out.append(self._trigger(now, enumerators))
        return out, None

    def _is_due(self, now: MonoMs) -> bool:
        return not self.requests.is_last_begun and self._schedule.is_due(now) and self._room()

    def _begin_requests(self, now: Now, enumerators: dict[OperatorId, bytes]) -> list[Instruction]:
        out: list[Instruction] = []
        ready = self.requests.ready(self._may_begin)
        for request in sorted(ready, key=lambda request: request.kind is not RequestKind.CHECKPOINT):
            if request.kind is RequestKind.DRAIN:
                out.append(SendAll(EndInput()))
            else:
                out.append(self._trigger(now, enumerators, request))
        return out

    def _may_begin(self, request: SnapshotRequest) -> bool:
        """The end of the job is not held, it brings one epoch more; but it would cut off what is."""
        if request.kind.ends_job:
            return not (self._hold.is_full and self.requests.is_wanted)
        overtakes = request.location is None and self._would_overtake()
        return not overtakes and not self._hold.is_full

    def _trigger_last(self, now: Now, enumerators: dict[OperatorId, bytes]) -> SendAll:
        """The final snapshot, into the directory of the client that wants the job to end with a savepoint."""
        if self.requests.ending is None:
            self.requests.ready(lambda request: request.kind.ends_job)
        return self._trigger(now, enumerators, self.requests.ending, final=True)

    def _trigger(
        self,
        now: Now,
        enumerators: dict[OperatorId, bytes],
        request: SnapshotRequest | None = None,
        final: bool = False,
    ) -> SendAll:
        self._last_epoch = Epoch(self._last_epoch + 1)
        stop = request is not None and request.kind.ends_job
        location = None if request is None else request.location
        pending = PendingSnapshot(
            self._last_epoch,
            SnapshotKind.CHECKPOINT if location is None else SnapshotKind.SAVEPOINT,
            now.mono,
            final or stop,
            dict(enumerators),
            set(self._plan.subtasks()),
            location=location,
            held_ms=0 if location is not None else self._hold.late_ms(),
        )
        self._pending[pending.epoch] = pending
        if request is not None:
            self.requests.begun(pending.epoch, request)
        overtakes = self._settings.unaligned and not self._settings.aligned_timeout_ms and location is None
        return SendAll(TriggerSnapshot(pending.epoch, pending.kind, now.wall, overtakes, location, stop))

    def _expire(self, now: MonoMs) -> Outcome:
        out: list[Instruction] = []
        for pending in list(self._pending.values()):
            if now - pending.triggered_at >= self._settings.timeout_ms:
                missing = "; ".join(sorted(map(self._plan.place, pending.missing))[:3])
                more, error = self._abort(pending, FailureKind.EXPIRED, f"missing: {missing}")
                out += more
                if error is not None:
                    return out, error
        return out, None

    def _abort(self, pending: PendingSnapshot, kind: FailureKind, detail: str) -> Outcome:
        self._pending.pop(pending.epoch, None)
        reason = f"{kind.text} ({detail})" if detail else kind.text
        out: list[Instruction] = [SendAll(AbortSnapshot(pending.epoch, reason))]
        drained = self._is_drained(pending)
        # A manifest that may have been written keeps its files.
        discard = kind is not FailureKind.NOT_PUBLISHED
        out += self.requests.failed(pending.epoch, reason, discard)
        if pending.kind is SnapshotKind.SAVEPOINT:
            error = SnapshotError(f"the input was ended for a savepoint, which then failed: {reason}")
            return out, error if drained else None
        if self._schedule.on_failed(kind):
            return out, SnapshotError(
                f"checkpoint {pending.epoch} failed: {kind.text} ({detail}); more failures in a row "
                f"than execution.checkpointing.tolerable-failed-checkpoints "
                f"({self._settings.tolerable_failures})"
            )
        return out, None

    def _is_drained(self, pending: PendingSnapshot) -> bool:
        """Whether the job ended its input for this savepoint, and so cannot just go on."""
        ending = self.requests.ending
        return pending.final and ending is not None and ending.kind is RequestKind.DRAIN

    def on_ack(self, ack: SnapshotAck, now: Now) -> list[Instruction]:
        """A subtask is done. Late acknowledgements of aborted snapshots change nothing."""
        pending = self._pending.get(ack.epoch)
        if pending is None or not pending.acknowledge(ack):
            return []
        out: list[Instruction] = []
        for older in [] if pending.standalone else self._older_checkpoints(ack.epoch):
            more, _ = self._abort(older, FailureKind.SUBSUMED, "")
            out += more
        del self._pending[ack.epoch]
        self._publishing[ack.epoch] = pending
        # What a newer checkpoint prepared belongs to records that this one's sources will read again.
        carried = tuple(item for item in self._commits.unconfirmed() if item.epoch <= ack.epoch) + tuple(
            item
            for epoch, other in self._publishing.items()
            if epoch < ack.epoch
            for item in other.committables()
        )
        manifest = self._maker.make(pending, now.wall, carried)
        return [*out, Publish(manifest, pending.location, pending.standalone)]

    def _older_checkpoints(self, epoch: Epoch) -> list[PendingSnapshot]:
        return [other for other in self._pending.values() if other.epoch < epoch and not other.standalone]

    def on_declined(self, message: SnapshotDeclined) -> Outcome:
        """A subtask cannot take part."""
        pending = self._pending.get(message.epoch)
        if pending is None:
            return [], None
        kind = FailureKind.SUBSUMED if message.overtaken else FailureKind.DECLINED
        return self._abort(pending, kind, f"{self._plan.place(message.subtask)}: {message.reason}")

    def on_written(self, epoch: Epoch, now: MonoMs) -> list[Instruction]:
        """A standalone savepoint is complete: a checkpoint follows at once, see ``savepoint_requests.py``."""
        if self._publishing.pop(epoch, None) is None:
            return []
        if self._settings.interval_ms is None or (self.last_published or 0) > epoch:
            return self.requests.done(epoch)
        self._schedule.hurry(now)
        self.requests.written(epoch)
        return []

    def on_published(self, epoch: Epoch, now: MonoMs) -> PendingSnapshot | None:
        """The manifest is durable."""
        pending = self._publishing.pop(epoch, None)
        if pending is None:
            return None
        self.last_published = epoch
        self._in_doubt = False
        self.completed += 1
        self.final_published = self.final_published or pending.final
        self._schedule.on_completed(now)
        acks = pending.acks.values()
        self.history.append(
            {
                "epoch": float(epoch),
                "duration_ms": float(now - pending.triggered_at),
                "held_ms": float(pending.held_ms),
                "sync_ms": max(ack.sync_ms for ack in acks),
                "async_ms": max(ack.async_ms for ack in acks),
                "alignment_ms": max(ack.alignment_ms for ack in acks),
                "bytes": float(sum(ack.state_bytes for ack in acks)),
                "persisted_bytes": float(sum(ack.snapshot.persisted for ack in acks)),
                "uploaded_bytes": float(sum(ack.snapshot.written for ack in acks)),
            }
        )
        del self.history[:-100]
        return pending

    def announce(self, epoch: Epoch) -> list[Instruction]:
        """Tell the tasks, and the client that asked for it."""
        return [SendAll(SnapshotCompleted(epoch)), *self.requests.done(epoch)]

    def on_publish_failed(self, epoch: Epoch, error: Exception) -> Outcome:
        """The manifest could not be written."""
        pending = self._publishing.pop(epoch, None)
        if pending is None:
            return [], None
        self._in_doubt = self._in_doubt or not pending.standalone
        return self._abort(pending, FailureKind.NOT_PUBLISHED, str(error))
