"""The snapshot desk: which snapshots are under way, and what each waits for.

A snapshot is *pending* (waiting for acknowledgements), then *publishing* (the manifest is being made
true), then published and forgotten here.  Publishing happens in order of epoch.
"""

from __future__ import annotations

from penstock.coordinator.events import Instruction, Publish, SendAll
from penstock.coordinator.schedule import FailureKind, PendingSnapshot, SnapshotSchedule
from penstock.coordinator.settings import JobSettings
from penstock.core.errors import SnapshotError
from penstock.core.handles import Blob, Committable, OperatorSnapshot
from penstock.core.ids import Epoch, Generation, OperatorId, SubtaskIndex
from penstock.core.messages import (
    AbortSnapshot,
    SnapshotAck,
    SnapshotCompleted,
    SnapshotDeclined,
    TriggerSnapshot,
)
from penstock.core.signals import SnapshotKind
from penstock.graph.plan import Plan
from penstock.snapshot.manifest import Manifest, OperatorEntry, SubtaskEntry

Outcome = tuple[list[Instruction], Exception | None]
"""Instructions, and the error that fails the job, if it does."""


class SnapshotDesk:
    """Triggers, collects, completes, expires and gives up snapshots. Pure."""

    def __init__(self, plan: Plan, job_id: str, settings: JobSettings, versions: dict[str, str]) -> None:
        self.final_published = False
        self.last_published: Epoch | None = None
        self.completed = 0
        """Snapshots published since the job started, over all attempts."""
        self.history: list[dict[str, float]] = []
        self._plan = plan
        self._job_id = job_id
        self._settings = settings
        self._versions = versions
        self._schedule = SnapshotSchedule(settings)
        self._generation = Generation(0)
        self._last_epoch = Epoch(0)
        self._pending: dict[Epoch, PendingSnapshot] = {}
        self._publishing: dict[Epoch, PendingSnapshot] = {}

    def new_attempt(self, generation: Generation, last_epoch: Epoch) -> None:
        """A new gang will start; epochs go on from where any attempt ever was."""
        self._generation = generation
        self._last_epoch = max(self._last_epoch, last_epoch)
        self.final_published = False
        self._schedule.reset_failures()
        self.clear()

    def start(self, now: int) -> None:
        """All tasks run."""
        self._schedule.start(now)

    def clear(self) -> None:
        """Forget everything under way: the gang is going away."""
        self._pending.clear()
        self._publishing.clear()
        self._schedule.stop()

    def next_wake(self) -> int | None:
        """When something becomes due."""
        expiries = [pending.triggered_ms + self._settings.timeout_ms for pending in self._pending.values()]
        due = self._schedule.next_wake()
        if due is not None and len(self._pending) + len(self._publishing) < self._settings.max_concurrent:
            expiries.append(due)
        return min(expiries, default=None)

    def on_time(self, now: int, enumerators: dict[OperatorId, bytes], all_finished: bool) -> Outcome:
        """Expire what took too long; trigger what is due."""
        out, error = self._expire(now)
        if error is not None:
            return out, error
        in_flight = len(self._pending) + len(self._publishing)
        if all_finished:
            self._schedule.stop()
            if in_flight == 0 and not self.final_published:
                out.append(self._trigger(now, enumerators, final=True))
        elif self._schedule.is_due(now, in_flight):
            self._schedule.on_triggered(now)
            out.append(self._trigger(now, enumerators, final=False))
        return out, None

    def _trigger(self, now: int, enumerators: dict[OperatorId, bytes], final: bool) -> SendAll:
        self._last_epoch = Epoch(self._last_epoch + 1)
        pending = PendingSnapshot(
            self._last_epoch,
            SnapshotKind.CHECKPOINT,
            now,
            final,
            dict(enumerators),
            set(self._plan.subtasks()),
        )
        self._pending[pending.epoch] = pending
        return SendAll(TriggerSnapshot(pending.epoch, pending.kind, now))

    def _expire(self, now: int) -> Outcome:
        out: list[Instruction] = []
        for pending in list(self._pending.values()):
            if now - pending.triggered_ms >= self._settings.timeout_ms:
                missing = ", ".join(sorted(map(str, pending.missing))[:3])
                more, error = self._give_up(pending, FailureKind.EXPIRED, f"missing: {missing}")
                out += more
                if error is not None:
                    return out, error
        return out, None

    def _give_up(self, pending: PendingSnapshot, kind: FailureKind, detail: str) -> Outcome:
        self._pending.pop(pending.epoch, None)
        out: list[Instruction] = [SendAll(AbortSnapshot(pending.epoch))]
        if self._schedule.on_failed(kind):
            return out, SnapshotError(
                f"checkpoint {pending.epoch} failed: {kind.text} ({detail}); more failures in a row "
                f"than execution.checkpointing.tolerable-failed-checkpoints "
                f"({self._settings.tolerable_failures})"
            )
        return out, None

    def on_ack(self, ack: SnapshotAck, now: int, unconfirmed: tuple[Committable, ...]) -> list[Instruction]:
        """A subtask is done. Late acknowledgements of snapshots given up change nothing."""
        pending = self._pending.get(ack.epoch)
        if pending is None or not pending.acknowledge(ack):
            return []
        out: list[Instruction] = []
        for older in [epoch for epoch in self._pending if epoch < ack.epoch]:
            more, _ = self._give_up(self._pending[older], FailureKind.SUBSUMED, "")
            out += more
        del self._pending[ack.epoch]
        self._publishing[ack.epoch] = pending
        carried = unconfirmed + tuple(
            item
            for epoch, other in self._publishing.items()
            if epoch < ack.epoch
            for item in other.committables()
        )
        return [*out, Publish(self._manifest(pending, now, carried))]

    def on_declined(self, message: SnapshotDeclined, now: int) -> Outcome:
        """A subtask cannot take part."""
        pending = self._pending.get(message.epoch)
        if pending is None:
            return [], None
        kind = FailureKind.SUBSUMED if message.overtaken else FailureKind.DECLINED
        return self._give_up(pending, kind, f"{message.subtask}: {message.reason}")

    def on_published(self, epoch: Epoch, now: int) -> PendingSnapshot | None:
        """The manifest is true."""
        pending = self._publishing.pop(epoch, None)
        if pending is None:
            return None
        self.last_published = epoch
        self.completed += 1
        self.final_published = self.final_published or pending.final
        self._schedule.on_completed(now)
        acks = pending.acks.values()
        self.history.append(
            {
                "epoch": float(epoch),
                "duration_ms": float(now - pending.triggered_ms),
                "sync_ms": max(ack.sync_ms for ack in acks),
                "async_ms": max(ack.async_ms for ack in acks),
                "alignment_ms": max(ack.alignment_ms for ack in acks),
                "bytes": float(sum(ack.state_bytes for ack in acks)),
            }
        )
        del self.history[:-100]
        return pending

    def announce(self, epoch: Epoch) -> list[Instruction]:
        """Tell the tasks."""
        return [SendAll(SnapshotCompleted(epoch))]

    def on_publish_failed(self, epoch: Epoch, error: Exception, now: int) -> Outcome:
        """The manifest could not be written."""
        pending = self._publishing.pop(epoch, None)
        if pending is None:
            return [], None
        return self._give_up(pending, FailureKind.NOT_PUBLISHED, str(error))

    def _manifest(self, pending: PendingSnapshot, now: int, carried: tuple[Committable, ...]) -> Manifest:
        states: dict[tuple[OperatorId, int], OperatorSnapshot] = {}
        finished: dict[tuple[str, int], bool] = {}
        for part in pending.snapshots():
            finished[part.subtask.vertex, part.subtask.index] = part.finished
            for state in part.operators:
                states[state.operator_id, part.subtask.index] = state
        entries = []
        for vertex, planned in self._plan.operators():
            subtasks = tuple(
                SubtaskEntry(
                    SubtaskIndex(index),
                    states.get((planned.operator_id, index), OperatorSnapshot(planned.operator_id, (), None)),
                    finished.get((vertex.id, index), False),
                )
                for index in range(vertex.parallelism)
            )
            entries.append(
                OperatorEntry(
                    planned.operator_id,
                    planned.node.uid,
                    planned.node.name,
                    vertex.id,
                    vertex.parallelism,
                    vertex.max_parallelism,
                    subtasks,
                )
            )
        return Manifest(
            job_id=self._job_id,
            job_name=self._plan.job_name,
            epoch=pending.epoch,
            generation=self._generation,
            kind=pending.kind,
            created_ms=now,
            operators=tuple(entries),
            enumerators={key: Blob.of(state) for key, state in pending.enumerators.items()},
            committables=tuple(dict.fromkeys(carried + pending.committables())),
            penstock_version=self._versions.get("penstock", ""),
            spark_version=self._versions.get("spark"),
        )
