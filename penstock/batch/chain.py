"""The operators of a vertex in BATCH mode: the same classes as in a stream, with other surroundings.

Event time stands still until a round of keys, or the input, has ended.  So of all watermarks only the last
one passes; before it does, the timers of processing time fire, each once, as those of event time have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from penstock.batch.outputs import EdgeOutput
from penstock.batch.work import TaskAttempt, VertexWork
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.ids import MAX_TIME, EventTime, OperatorId, SubtaskIndex
from penstock.core.metrics import MetricGroup
from penstock.operators.operator import Operator, OperatorRuntime, Output
from penstock.state.heap.backend import heap_state
from penstock.state.operator_state import OperatorStateStore
from penstock.task.chain import Chain, ChainSetup, build_chain, runtime_of

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

    def __init__(self, operators: Chain, head_output: EndingOutput) -> None:
        self.operators = operators
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

    def ending(operator: Operator, out: Output) -> Output:
        outputs.append(EndingOutput(operator, out))  # the head's is the last: a step may wrap its ``ctx.out``
        return outputs[-1]

    setup = ChainSetup(
        job_name=work.job_name,
        vertex=work.vertex,
        index=SubtaskIndex(attempt.subtask),
        settings=work.settings,
        clock=clock,
        metrics=MetricGroup(),
        runtime=lambda planned: _runtime(work, attempt, partial(to_driver, planned.operator_id)),
        state=lambda planned: (heap_state(), OperatorStateStore()),
        attempt=attempt.number,
        wake=wake,
        output=ending,
    )
    return BatchChain(build_chain(setup, edges), outputs[-1])


def _runtime(work: VertexWork, attempt: TaskAttempt, to_driver: Callable[[Any], None]) -> OperatorRuntime:
    return replace(
        runtime_of(work.settings),
        in_order=work.in_order,
        generation=work.run.generation,
        attempt_id=work.run.started_ms << _ATTEMPT_BITS | attempt.id,
        to_driver=to_driver,
        report_remark=to_driver,
    )
