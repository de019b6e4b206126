"""A subtask's part of a snapshot, in phases, and the snapshots that the task has heard of.

1. ``prepare``   operators may still emit; sinks flush and hand out committables
2. ``forward``   the barrier goes out on all outputs
3. ``freeze``    state is frozen, without copying; records flow on from here
4. ``write``     files are written in the background; an unaligned snapshot first waits until all it
                 overtook has come in
5. ``ack``       handles go to the coordinator, frozen layers are released

Phases 1 to 3 run on the task's thread in one go, so no record slips in between.  A failure on phase 4
declines the snapshot; a failure on phases 1 to 3 fails the task.

Committables are handed on with every acknowledgement until a snapshot that holds them is published: a
snapshot that is given up must not take prepared output with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from penstock.core.documents import dump
from penstock.core.handles import Committable, SubtaskSnapshot
from penstock.core.ids import Epoch, OperatorId, Subtask
from penstock.core.messages import SnapshotAck, SnapshotDeclined, TriggerSnapshot
from penstock.core.metrics import AT_BARRIERS
from penstock.core.signals import Barrier
from penstock.exchange.channel_state import Overtaken
from penstock.operators.chain import OperatorInput
from penstock.state.backend import FrozenPart
from penstock.task.environment import TaskEnvironment
from penstock.task.writing import FrozenOperator, StateWriter


class RequestedSnapshots:
    """Each is taken once at most, in the order of their epochs."""

    def __init__(self) -> None:
        self._last = self._newest = Epoch(0)
        self._asked: dict[Epoch, TriggerSnapshot] = {}
        self._given_up: set[Epoch] = set()

    def add(self, trigger: TriggerSnapshot) -> None:
        """One is asked for."""
        self._asked = {epoch: kept for epoch, kept in self._asked.items() if epoch >= self._last}
        self._asked[trigger.epoch] = trigger
        self._newest = max(self._newest, trigger.epoch)

    def waiting(self) -> list[TriggerSnapshot]:
        """Those that are not taken yet, oldest first."""
        if self._newest <= self._last:
            return []  # what every step of a source asks
        return [trigger for epoch, trigger in sorted(self._asked.items()) if epoch > self._last]

    def begin(self, epoch: Epoch) -> bool:
        """Whether it is to be taken now; if so, it counts as taken."""
        if epoch <= self._last or epoch in self._given_up:
            return False
        self._last = epoch
        return True

    def give_up(self, epoch: Epoch) -> None:
        """Nobody wants it any more."""
        self._asked.pop(epoch, None)
        self._given_up = {known for known in (*self._given_up, epoch) if known > self._last}

    @property
    def end_the_job(self) -> bool:
        """Whether the job stops with the one that was taken last: nothing comes behind it."""
        taken = self._asked.get(self._last)
        return taken is not None and taken.stop


@dataclass(slots=True)
class _Pending:
    """A snapshot above phase 3."""

    barrier: Barrier
    finished: bool
    committables: tuple[Committable, ...]
    frozen: list[FrozenOperator]
    overtaken: Overtaken | None
    sync_ms: float
    alignment_ms: float
    start_delay_ms: float
    counts: dict[str, float]

    def release(self) -> None:
        """Let the frozen layers go."""
        for operator in self.frozen:
            for part in operator.keyed:
                part.release()


class SnapshotPhases:
    """Takes snapshots of one subtask's operators."""

    def __init__(
        self,
        subtask: Subtask,
        operators: list[tuple[OperatorId, OperatorInput]],
        writer: StateWriter,
        environment: TaskEnvironment,
    ) -> None:
        self._subtask = subtask
        self._operators = operators
        self._writer = writer
        self._env = environment
        self._aborted: set[Epoch] = set()
        self._recording: dict[Epoch, _Pending] = {}
        self._writing: set[Epoch] = set()
        self._prepared: list[Committable] = []
        self.measures: Callable[[], dict[str, float]] = dict
        """The numbers of the task; set by it."""

    def take(
        self,
        barrier: Barrier,
        forward: Callable[[], None],
        finished: bool,
        alignment_ms: float,
        overtaken: Overtaken | None = None,
    ) -> None:
        """Go through phases 1 to 3 now, and start phase 4 unless records that count are still to come."""
        delay_ms = max(0.0, self._env.clock.now_ms() - barrier.triggered_ms - alignment_ms)
        started = self._env.clock.monotonic()
        committables = self._prepare(barrier.epoch)
        forward()
        frozen = self._freeze(barrier)
        counts = {name: count for name, count in self.measures().items() if name.endswith(AT_BARRIERS)}
        if overtaken is not None:
            overtaken.seal()
        sync_ms = (self._env.clock.monotonic() - started) * 1000
        times = (sync_ms, alignment_ms, delay_ms)
        pending = _Pending(barrier, finished, committables, frozen, overtaken, *times, counts)
        if overtaken is None or overtaken.complete:
            self._write(pending)
        else:
            self._recording[barrier.epoch] = pending

    def recorded(self, epoch: Epoch, alignment_ms: float) -> None:
        """All that the barrier overtook is there: phase 4."""
        pending = self._recording.pop(epoch, None)
        if pending is not None:
            pending.alignment_ms = alignment_ms
            self._write(pending)

    def _write(self, pending: _Pending) -> None:
        epoch = pending.barrier.epoch
        self._writing.add(epoch)
        written_from = self._env.clock.monotonic()

        def done(result: SubtaskSnapshot | None, error: Exception | None) -> None:
            self._writing.discard(epoch)
            pending.release()
            if epoch not in self._aborted:
                async_ms = (self._env.clock.monotonic() - written_from) * 1000
                self._ack(pending, result, error, async_ms)

        self._env.background.submit(
            lambda: self._writer.write(pending.barrier, pending.frozen, pending.finished, pending.overtaken),
            done,
        )

    def abort(self, epoch: Epoch) -> None:
        """The snapshot was given up: its result will not be reported.

        The frozen layers stay until the writer is through with them.
        """
        pending = self._recording.pop(epoch, None)
        if pending is not None:
            pending.release()
        self._aborted = {other for other in self._aborted if other in self._writing}
        if epoch in self._writing:
            self._aborted.add(epoch)

    def completed(self, epoch: Epoch) -> None:
        """The snapshot was published, and with it everything prepared up to then."""
        self._prepared = [item for item in self._prepared if item.epoch > epoch]

    def _prepare(self, epoch: Epoch) -> tuple[Committable, ...]:
        for operator_id, step in self._operators:
            step.run(partial(step.operator.prepare_barrier, epoch))
            for committable in step.operator.committables(epoch):
                payload = dump(committable)
                self._prepared.append(Committable(operator_id, epoch, self._subtask.index, payload))
        return tuple(self._prepared)

    def _freeze(self, barrier: Barrier) -> list[FrozenOperator]:
        frozen = []
        for operator_id, step in self._operators:
            ctx = step.operator.ctx
            keyed: list[FrozenPart] = [*ctx.keyed.freeze()] if barrier.location else ctx.keyed.checkpoint()
            step_name = ctx.info.operator_name
            lists, kinds = ctx.operator_state.snapshot(), tuple(ctx.keyed.met_kinds)
            frozen.append(FrozenOperator(operator_id, step_name, keyed, lists, kinds))
        return frozen

    def _ack(
        self, pending: _Pending, snapshot: SubtaskSnapshot | None, error: Exception | None, async_ms: float
    ) -> None:
        epoch = pending.barrier.epoch
        if snapshot is None:
            reason = f"writing state failed: {error}"
            self._env.report(SnapshotDeclined(epoch, self._subtask, reason))
            return
        size = sum(blob.length for operator in snapshot.operators for blob in operator.blobs())
        size += snapshot.persisted
        times = (pending.sync_ms, async_ms, pending.alignment_ms)
        rest = (size, pending.start_delay_ms, pending.counts)
        self._env.report(SnapshotAck(epoch, snapshot, pending.committables, *times, *rest))
