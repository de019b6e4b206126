"""One subtask at work: input, chain, output, and the messages that interrupt them.

The slot's loop calls :meth:`Task.step` again and again; each call does a bounded amount of work.  Messages
(triggers, aborts, splits) are handled between steps, so operators never see concurrency.
"""

from __future__ import annotations

import contextlib
from functools import partial

from penstock.core.errors import PenstockError
from penstock.core.ids import MAX_TIME, MIN_TIME, OperatorId, Subtask
from penstock.core.messages import (
    AbortSnapshot,
    AlignWatermarks,
    AssignSplits,
    SnapshotCompleted,
    SnapshotDeclined,
    TaskFinished,
    TriggerSnapshot,
)
from penstock.core.metrics import MetricGroup
from penstock.core.signals import END_OF_INPUT, Barrier, CancelBarrier
from penstock.core.sizing import SEGMENT_BYTES
from penstock.exchange.channel import ALL
from penstock.exchange.channel_state import Overtaken
from penstock.exchange.events import (
    BarrierReady,
    Data,
    GateEvent,
    InputEnded,
    OvertakenComplete,
    SnapshotsCancelled,
    TimeAdvanced,
)
from penstock.exchange.gate import InputGate
from penstock.exchange.outputs import OutputEdge, Outputs
from penstock.exchange.tail import UNWATCHED, Tail
from penstock.operators.chain import OperatorInput, PendingOperators
from penstock.operators.source_operator import SourceOperator
from penstock.task.chain import SuspendedWork
from penstock.task.environment import TaskEnvironment
from penstock.task.flushing import Flushes, is_short
from penstock.task.measuring import StepMeasures
from penstock.task.pacing import BUDGET_S, Pace, SourcePolls
from penstock.task.phases import Phase, TimeShares
from penstock.task.snapshot import RequestedSnapshots, SnapshotPhases

EVENTS_PER_STEP = 64
"""How many gate events one step may serve before the other tasks of the slot get their turn."""


class Task:
    """A running subtask."""

    def __init__(
        self,
        subtask: Subtask,
        operators: list[tuple[OperatorId, OperatorInput]],
        gate: InputGate | None,
        edges: list[OutputEdge],
        phases: SnapshotPhases,
        environment: TaskEnvironment,
        buffer_timeout_ms: int,
        max_rows: int,
        metrics: MetricGroup,
    ) -> None:
        self.subtask = subtask
        self.edges = edges
        self.log_place = (str(subtask.vertex), int(subtask.index))
        self.phase = Phase.RUNNING
        self.metrics = metrics
        self._operators = [operator for _, operator in operators]
        self._head = self._operators[0]
        self._timed, self._unfinished = self._operators, list(self._operators)
        self._pending = PendingOperators(self._operators)
        self._may_be_pending = bool(self._pending)
        self._gate = gate
        self._left_over = SuspendedWork(self._operators)
        source = self._head.operator
        self._source = source if isinstance(source, SourceOperator) else None
        self._polls = None if self._source is None else SourcePolls(self._head, self._source)
        self._outputs = Outputs(edges)
        self._phases = phases
        phases.measures = self.measures
        self._env = environment
        self._flushes = Flushes(self._outputs, environment.clock, buffer_timeout_ms)
        self._pace = Pace(max_rows if gate is None else ALL, max(self._outputs.limit, SEGMENT_BYTES))
        self._asked = RequestedSnapshots()
        self._in_snapshot = False
        self._input_ended = self._ending = self._ran_out = False
        self._records_in = metrics.counter("numRecordsIn")
        self._shares = TimeShares(environment.clock.monotonic())
        self._steps = StepMeasures(self._operators, metrics, environment.clock)
        for operator in self._operators:
            ctx = operator.operator.ctx
            ctx.blocked_ms, ctx.blocked = self._shares.blocked_ms, self._is_blocked
            ctx.emitted_bytes, ctx.piece_bytes = self._outputs.emitted_bytes, self._outputs.piece_bytes
        self.tail: Tail = UNWATCHED

    # --- the loop ---------------------------------------------------------------------------

    def step(self) -> bool:
        """One bounded piece of work; false if there was nothing to do."""
        if self.phase is not Phase.RUNNING:
            return False
        self._shares.begin(self._env.clock.monotonic())
        worked = self._work()
        if worked:
            self._shares.worked(self._env.clock.monotonic())
        return worked

    def measures(self) -> dict[str, float]:
        """All numbers of the subtask and its operators, by the names of their metrics."""
        gate, outputs = self._gate, self._outputs
        reached = MIN_TIME if gate is None else gate.watermark
        numbers = {
            "numRecordsOut": outputs.emitted_rows(),
            "numBytesIn": 0 if gate is None else gate.taken_bytes(),
            "numBytesOut": outputs.emitted_bytes(),
            "currentInputWatermark": reached,
            "currentOutputWatermark": outputs.watermark() if outputs.has_edges else reached,
        }
        return {**self._steps.read(), **numbers, **self._shares.milliseconds()}

    def _work(self) -> bool:
        worked, shares = False, self._shares
        shares.was_blocked = False
        if self._left_over:
            worked = self._left_over.resume(self.writable)
            shares.was_blocked = bool(self._left_over)
            if shares.was_blocked:
                return worked
        worked = self._answer_barriers() or worked
        if self._asked.end_the_job:
            return worked
        shares.was_blocked = not self.writable()
        if shares.was_blocked:
            return worked
        if self._run_timers():
            worked = True
            shares.was_blocked = bool(self._left_over) or not self.writable()
            if shares.was_blocked:
                return True
        if self._ending:
            self._end()
            return self._flushes.flush() or worked or self.phase is not Phase.RUNNING
        shares.was_blocked = self._room() <= 0
        if shares.was_blocked:
            return self._flushes.flush() or worked
        if self._read_source() if self._gate is None else self._read_gate(self._gate):
            self._flushes.after_work(self._ran_out)
            return True
        return self._flushes.flush() or worked

    def writable(self) -> bool:
        """Whether all outputs are below their bounds; if not, the task is backpressured."""
        return self._outputs.writable() and not self._env.congested()

    def _is_blocked(self) -> bool:
        """What operators ask between two pieces. What a snapshot sets off is not interrupted."""
        return not self._in_snapshot and not self.writable()

    def held_bytes(self) -> int:
        """Records that wait in the task: in its input channels, between its operators, in its buffers."""
        queued = 0 if self._gate is None else self._gate.queued_bytes()
        return queued + self._left_over.waiting_bytes() + self._outputs.gathered_bytes()

    def _room(self) -> int:
        """How many records may be read at once."""
        rows = self._pace.rows
        return self._pending.room(rows) if self._may_be_pending else rows

    def next_deadline_ms(self) -> int | None:
        """Processing time at which the task wants a step although no input arrived."""
        if self.phase is not Phase.RUNNING or self._asked.end_the_job:
            return None
        if self._left_over:
            return None  # no clock helps, only room
        if not self.writable():
            return None if self._gate is None else self._gate.next_deadline_ms()
        due = [op.operator.next_processing_time() for op in self._timed]
        inlet = self._gate or self._polls
        due.append(None if inlet is None else inlet.next_deadline_ms())
        return min((time for time in due if time is not None), default=None)

    def _answer_barriers(self) -> bool:
        """Also a task that cannot emit takes part in snapshots: barriers may overtake.

        One whose operators are in the middle of something does not: their state is not that of any moment
        between two records.
        """
        gate = self._gate
        if self._is_finishing:
            return False
        if gate is None:
            return self._begin_snapshots()
        if gate.next_deadline_ms() is not None:
            gate.on_time(self._env.clock.now_ms())
        worked = False
        while (event := gate.poll_snapshot()) is not None:
            self._on_signal(event)
            worked = True
        return worked

    def _run_timers(self) -> bool:
        now = self._env.clock.now_ms()
        worked = False
        for operator in self._timed:
            due = operator.operator.next_processing_time()
            if due is not None and due <= now:
                operator.run(partial(operator.operator.on_processing_time, now))
                worked = True
                if self._left_over:
                    break
        return worked

    def _read_gate(self, gate: InputGate) -> bool:
        served, pace, self._ran_out = 0, self._pace, False
        monotonic, emitted_bytes = self._env.clock.monotonic, self._outputs.emitted_bytes
        began = last = monotonic()
        while served < EVENTS_PER_STEP and self.phase is Phase.RUNNING and (room := self._room()) > 0:
            event = gate.poll(room)
            if event is None:
                self._ran_out = True
                break
            served += 1
            if isinstance(event, Data):
                rows, emitted = len(event.batch), emitted_bytes()
                self._records_in.count += rows
                self.tail.saw(event.batch)
                self._head.process(event.batch, event.input_index)
                last, before = monotonic(), last
                pace.took(rows, last - before, emitted_bytes() - emitted)
                if last - began > BUDGET_S:
                    break
            else:
                self._on_signal(event)
                last = monotonic()  # what a watermark sets off says nothing about the cost of rows
            if self._left_over or not self.writable():
                break
        return served > 0

    def _read_source(self) -> bool:
        polls = self._polls
        assert polls is not None
        if self._input_ended:
            self._end()
            return True
        now = self._env.clock.now_ms()
        if not polls.due(now):
            return False
        began, moved = self._env.clock.monotonic(), self._outputs.emitted_bytes()
        most = self._room()
        emitted = polls.poll(most, now)
        self._ran_out = is_short(emitted, most)
        if polls.source.finished:
            self._end()
            return True
        if emitted:
            moved = max(self._outputs.emitted_bytes() - moved, polls.source.polled_bytes)
            self._pace.took(emitted, self._env.clock.monotonic() - began, moved)
        return emitted > 0

    # --- signals ----------------------------------------------------------------------------

    def _on_signal(self, event: GateEvent) -> None:
        if isinstance(event, TimeAdvanced):
            if event.idle is False:
                self._head.idle(False)
            if event.watermark is not None:
                self._head.watermark(event.watermark)
            if event.idle is True:
                self._head.idle(True)
        elif isinstance(event, BarrierReady):
            self._snapshot(event.barrier, event.alignment_ms, event.overtaken)
        elif isinstance(event, OvertakenComplete):
            self._phases.recorded(event.epoch, event.alignment_ms)
        elif isinstance(event, SnapshotsCancelled):
            for epoch in event.epochs:
                self._phases.abort(epoch)
                self._outputs.broadcast(CancelBarrier(epoch))
                reason = "a newer snapshot overtook it"
                self._env.report(SnapshotDeclined(epoch, self.subtask, reason, overtaken=True))
        elif isinstance(event, InputEnded) and event.all_ended:
            self._end()

    def _end(self) -> None:
        """The end of input: last watermark, then the rest as soon as nothing is under way any more."""
        if not self._ending:
            self._ending = True
            if self._gate is None:
                self._timed = self._timed[1:]
                self.end_input()
                self._head.operator.ctx.out.watermark(MAX_TIME)
        if not self._left_over and self._pending.are_drained():
            self._finish()

    def _finish(self) -> None:
        """Flush the operators, as far as the outputs take it; then close the outputs."""
        while self._unfinished:
            operator = self._unfinished.pop(0)
            operator.run(operator.operator.finish)
            if self._left_over:
                return
        self._outputs.broadcast(END_OF_INPUT)
        self.phase = Phase.FINISHED
        self._env.report(TaskFinished(self.subtask, self.measures()))
        self._begin_snapshots()

    @property
    def _is_finishing(self) -> bool:
        """Whether some operators have flushed everything and others have not."""
        return self.phase is Phase.RUNNING and len(self._unfinished) < len(self._operators)

    # --- messages ---------------------------------------------------------------------------

    def trigger(self, message: TriggerSnapshot) -> None:
        """A snapshot begins. Sources start the barrier, finished tasks answer, others wait for it.

        A task between its sources' end and its own may never see the barrier: it remembers the
        trigger and answers when it finishes, each of several.
        """
        self._asked.add(message)
        if self._gate is None or self.phase is Phase.FINISHED:
            self._begin_snapshots()
        else:
            self._gate.expect(message.barrier())

    def _begin_snapshots(self) -> bool:
        """Begin those that were asked for, unless operators are in the middle of something."""
        if self._is_finishing or self._left_over:
            return False
        waiting = self._asked.waiting()
        for trigger in waiting:
            self._snapshot(trigger.barrier(), 0.0)
        return bool(waiting)

    def _snapshot(self, barrier: Barrier, alignment_ms: float, overtaken: Overtaken | None = None) -> None:
        if not self._asked.begin(barrier.epoch):
            return
        finished = self.phase is Phase.FINISHED
        forward = (lambda: None) if finished else partial(self._outputs.broadcast, barrier)
        self._in_snapshot = True
        self._phases.take(barrier, forward, finished, alignment_ms, overtaken)
        self._in_snapshot = False

    def end_input(self) -> None:
        """A source ends here, whatever it could still read."""
        self._input_ended = True
        if self._polls is not None:
            self._polls.now()

    def abort(self, message: AbortSnapshot) -> None:
        """The coordinator gave a snapshot up."""
        self._asked.give_up(message.epoch)
        self._phases.abort(message.epoch)
        if self._gate is not None and self.phase is Phase.RUNNING:
            self._gate.cancel(message.epoch)

    def completed(self, message: SnapshotCompleted) -> None:
        """A snapshot was published."""
        self._phases.completed(message.epoch)
        for operator in self._operators:
            operator.run(partial(operator.operator.on_snapshot_complete, message.epoch))

    def assign(self, message: AssignSplits) -> None:
        """New splits for a source."""
        if self._polls is None:
            raise PenstockError(f"splits were sent to {self.subtask}, which is not a source")
        self._polls.source.add_splits(list(message.splits))
        if message.final:
            self._polls.source.no_more_splits()
        self._polls.now()

    def settled(self) -> None:
        """A source has what is known to come."""
        if self._polls is not None:
            self._polls.source.splits_settled()

    def align(self, message: AlignWatermarks) -> None:
        """Sources of the group may read on, or must wait."""
        if self._polls is not None:
            self._polls.source.align(message.group, message.slowest)
            self._polls.now()

    def close(self) -> None:
        """Release everything; errors while closing do not hide the cause of the end."""
        if self.phase is not Phase.CLOSED:
            self.phase = Phase.CLOSED
            self._left_over.drop()
            for operator in self._operators:
                with contextlib.suppress(Exception):
                    operator.operator.close()
                with contextlib.suppress(Exception):
                    operator.operator.ctx.keyed.close()
