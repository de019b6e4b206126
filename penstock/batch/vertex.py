"""One subtask of a vertex in BATCH mode: rows in, rows out.

:func:`run_vertex` is all that a runner calls, whatever it is: a Spark task, or a loop in this process.  Input
must be sorted as :mod:`~penstock.batch.wire` says.  A task that runs again does the same again.

The operators are the same classes as in a stream, with other surroundings.  Event time stands still until a
round of keys, or the input, has ended.  So of all watermarks only the last one passes; before it does, the
timers of processing time fire, each once, as those of event time have.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.batch.inputs import Reader
from penstock.batch.outputs import EdgeOutput, Outbox, edge_output, to_driver
from penstock.batch.sizes import Sizes
from penstock.batch.work import Delivery, TaskAttempt, TaskCounts, VertexWork
from penstock.connectors.builtin.collection import RowsAtHand
from penstock.connectors.source import Split
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.ids import MAX_TIME, Epoch, EventTime, OperatorId, SubtaskIndex
from penstock.core.metrics import MetricGroup
from penstock.core.pickling import dumps
from penstock.operators.chain import PendingOperators
from penstock.operators.operator import Operator, OperatorRuntime, Output
from penstock.operators.sink_operator import SinkOperator
from penstock.operators.source_operator import SourceOperator
from penstock.state.heap.backend import heap_state
from penstock.state.operator_state import OperatorStateStore
from penstock.task.chain import Chain, ChainSetup, build_chain, runtime_of
from penstock.task.measuring import RECORDS_IN, RECORDS_OUT, StepMeasures

_ATTEMPT_BITS = 20
"""More attempts than this holds, in one run, may share a number with those of the next millisecond's."""


class EndingOutput:
    """An operator's output that lets nothing but the end of event time through.

    While it is ``blocked``, not even that: a round of keys ended, and the steps behind know nothing of keys.
    """

    __slots__ = ("_operator", "_out", "blocked", "emit", "side")

    def __init__(self, operator: Operator, out: Output) -> None:
        self._operator = operator
        self._out = out
        self.blocked = False
        self.emit: Callable[[Batch], None] = out.emit
        self.side: Callable[[str, Batch], None] = out.side

    def watermark(self, time: EventTime) -> None:
        """Pass the end of event time on, behind everything that timers have to say."""
        if time != MAX_TIME:
            return
        keyed = self._operator.ctx.keyed
        if keyed.has_timers:
            keyed.timers.processing.fire_each_once(self._fire)
            self._operator.flush_timers()
        if not self.blocked:
            self._out.watermark(time)

    def _fire(self, time: EventTime, key: Any, namespace: Any) -> None:
        for _ in self._operator.on_processing_timer(time, key, namespace) or ():
            pass  # nobody waits for room

    def idle(self, is_idle: bool) -> None:
        """There is no waiting in BATCH mode."""


class BatchChain:
    """The opened operators of one subtask. The first is the head."""

    def __init__(self, operators: Chain, head_output: EndingOutput, metrics: MetricGroup) -> None:
        self.operators = operators
        self.metrics = metrics
        self.head = operators[0][1]
        self._head_output = head_output

    def has_rounds(self) -> None:
        """Keys will end before the input does."""
        self._head_output.blocked = True

    def end_round(self) -> None:
        """All keys so far are whole: their timers fire, and they are forgotten."""
        self.head.watermark(MAX_TIME)
        self.head.run(self.head.operator.forget_keys)

    def end_time(self) -> None:
        """The input has ended: so has event time, for every step."""
        if self._head_output.blocked:
            self.end_round()
            self._head_output.blocked = False
            self.head.operator.ctx.out.watermark(MAX_TIME)
        else:
            self.head.watermark(MAX_TIME)


def build_batch_chain(
    work: VertexWork,
    attempt: TaskAttempt,
    edges: Mapping[int, EdgeOutput],
    clock: Clock,
    wake: Callable[[], None],
    to_driver: Callable[[OperatorId, Any], None],
) -> BatchChain:
    """The operators of one attempt of a subtask, with empty state."""
    outputs: list[EndingOutput] = []
    metrics = MetricGroup()

    def ending(operator: Operator, out: Output) -> Output:
        outputs.append(EndingOutput(operator, out))  # the head's is the last: a step may wrap its ``ctx.out``
        return outputs[-1]

    setup = ChainSetup(
        job_name=work.job_name,
        vertex=work.vertex,
        index=SubtaskIndex(attempt.subtask),
        settings=work.settings,
        clock=clock,
        metrics=metrics,
        runtime=lambda planned: _runtime(work, attempt, partial(to_driver, planned.operator_id)),
        state=lambda planned: (heap_state(), OperatorStateStore()),
        attempt=attempt.number,
        wake=wake,
        output=ending,
    )
    return BatchChain(build_chain(setup, edges), outputs[-1], metrics)


def _runtime(work: VertexWork, attempt: TaskAttempt, to_driver: Callable[[Any], None]) -> OperatorRuntime:
    return replace(
        runtime_of(work.settings),
        in_order=work.in_order,
        generation=work.run.generation,
        attempt_id=work.run.started_ms << _ATTEMPT_BITS | attempt.id,
        to_driver=to_driver,
        report_remark=to_driver,
    )


EPOCH = Epoch(1)
"""The one and only for the driver: a BATCH job commits once."""
_MIN_ROWS = 65536
"""Records in a batch: nobody waits for the first result, so they may be more than in a stream."""
_PAUSE_S = 0.05
"""How long to wait at most for a source or an outside system before looking again."""


def run_vertex(
    work: VertexWork,
    attempt: TaskAttempt,
    rows: Iterator[pa.RecordBatch],
    clock: Clock,
    check: Callable[[], None] = lambda: None,
    sizes: Sizes | None = None,
) -> Iterator[pa.RecordBatch]:
    """Run one subtask to its end. ``rows`` is its input; a source has none, or all it reads.

    ``check`` is called now and then, and may raise to end it early.
    """
    run = _Run(work, attempt, clock, sizes or Sizes())
    try:
        if work.at_hand:
            yield from run.read_source((Split("rows", RowsAtHand(rows)),), check)
        elif work.splits:
            yield from run.read_source(work.splits[attempt.subtask], check)
        else:
            yield from run.read_rows(rows, check)
        yield from run.finish()
    finally:
        run.close()


class _Run:
    """A running subtask."""

    def __init__(self, work: VertexWork, attempt: TaskAttempt, clock: Clock, sizes: Sizes) -> None:
        self._work = work
        self._subtask = attempt.subtask
        self._clock = clock
        self._sizes = sizes
        self._woken = threading.Event()
        self._outbox = Outbox()
        self._close_input: Callable[[], None] = lambda: None
        senders = work.vertex.parallelism
        self._edges = {
            edge_id: edge_output(edge, attempt.subtask, senders, self._outbox, sizes)
            for edge_id, edge in work.outgoing.items()
        }
        self._chain = build_batch_chain(
            work, attempt, self._edges, clock, self._woken.set, partial(self._deliver, False)
        )
        self._operators = [wrapped for _, wrapped in self._chain.operators]
        self._pending = PendingOperators(self._operators)
        self._max_rows = max(_MIN_ROWS, work.settings.max_rows)

    # --- input ------------------------------------------------------------------------------

    def read_source(self, splits: Sequence[Split], check: Callable[[], None]) -> Iterator[pa.RecordBatch]:
        """Read all of these splits, then end event time.

        Where order matters, one after the other: which of several has something next is a matter of time.
        """
        head = self._chain.head
        source = head.operator
        assert isinstance(source, SourceOperator)
        for some in [(split,) for split in splits] if self._work.in_order else [splits]:
            head.run(partial(source.add_splits, some))
            yield from self._read(source, check)
        source.no_more_splits()
        head.operator.ctx.out.watermark(MAX_TIME)

    def _read(self, source: SourceOperator, check: Callable[[], None]) -> Iterator[pa.RecordBatch]:
        head = self._chain.head
        while source.reading:
            check()
            emitted = 0

            def poll() -> None:
                nonlocal emitted
                emitted = source.poll(self._room())

            self._await_room()
            head.run(poll)
            if not emitted and source.reading:
                self._woken.wait(_PAUSE_S)
            if self._outbox.is_full():
                yield from self._outbox.take()

    def read_rows(
        self, rows: Iterator[pa.RecordBatch], check: Callable[[], None]
    ) -> Iterator[pa.RecordBatch]:
        """Read all rows, then end event time."""
        work, chain = self._work, self._chain
        reader = Reader(work.incoming, self._process, chain.end_round, self._sizes, work.in_order)
        self._close_input = reader.close
        if reader.has_rounds:
            chain.has_rounds()
        for batch in rows:
            check()
            yield from self._flow(reader.feed(batch))
        yield from self._flow(reader.end())
        self._chain.end_time()

    def _flow(self, reading: Iterator[None]) -> Iterator[pa.RecordBatch]:
        """Read on, and send what comes of it."""
        for _ in reading:
            if self._outbox.is_full():
                yield from self._outbox.take()

    def _process(self, batch: Batch, input_index: int) -> None:
        if not self._pending:
            self._chain.head.process(batch, input_index)
            return
        start = 0
        while start < len(batch):
            self._await_room()
            stop = min(len(batch), start + self._room())
            self._chain.head.process(batch.slice(start, stop), input_index)
            start = stop

    # --- operators with something pending -----------------------------------------------------

    def _room(self) -> int:
        return self._pending.room(self._max_rows)

    def _await_room(self) -> None:
        while self._pending and self._room() <= 0:
            self._turn()

    def _turn(self) -> None:
        """Take what outside systems have answered; wait a moment if that is nothing."""
        for wrapped in self._pending:
            due = wrapped.operator.next_processing_time()
            if due is not None and due <= self._clock.now_ms():
                wrapped.run(partial(wrapped.operator.on_processing_time, self._clock.now_ms()))
                return
        self._woken.wait(_PAUSE_S)
        self._woken.clear()

    # --- the end ----------------------------------------------------------------------------

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Flush the operators, hand out what sinks prepared, and empty the outbox.

        To sinks the epoch is a number that no earlier run had: some know by it what they did already.
        """
        epoch = Epoch(self._work.run.started_ms)
        while not self._pending.are_drained():
            self._turn()
        for operator_id, wrapped in self._chain.operators:
            wrapped.run(wrapped.operator.finish)
            if isinstance(wrapped.operator, SinkOperator):
                wrapped.run(partial(wrapped.operator.prepare_barrier, epoch))
                for committable in wrapped.operator.committables(epoch):
                    self._deliver(True, operator_id, committable)
        for edge in self._edges.values():
            edge.flush()
        counts = TaskCounts(self._work.vertex.id, self._counts())
        self._deliver(False, self._work.vertex.head.operator_id, counts)
        yield from self._outbox.take()

    def _counts(self) -> dict[str, float]:
        head = self._chain.head
        is_source = isinstance(head.operator, SourceOperator)
        whole = {
            RECORDS_IN: 0 if is_source else head.records_in,
            RECORDS_OUT: sum(edge.rows for edge in self._edges.values()),
        }
        return {**StepMeasures(self._operators, self._chain.metrics, self._clock).read(), **whole}

    def _deliver(self, prepared: bool, operator_id: OperatorId, payload: Any) -> None:
        to_driver(self._outbox, dumps(Delivery(operator_id, self._subtask, prepared, payload)))

    def close(self) -> None:
        """Release everything; errors while closing do not hide the cause of the end."""
        with contextlib.suppress(Exception):
            self._close_input()
        for wrapped in self._operators:
            with contextlib.suppress(Exception):
                wrapped.operator.close()
