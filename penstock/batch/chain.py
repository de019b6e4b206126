"""The operators of a vertex in BATCH mode: the same classes as in a stream, with other surroundings.

Event time stands still until a round of keys, or the input, has ended.  So of all watermarks only the last
one passes; before it does, the timers of processing time fire, each once, as those of event time have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.batch.outputs import EdgeOutput
from penstock.batch.work import Try, VertexWork
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.copying import OBJECT_REUSE
from penstock.core.ids import MAX_TIME, EventTime, OperatorId, Subtask, SubtaskIndex
from penstock.core.metrics import MetricGroup
from penstock.graph.nodes import NodeId
from penstock.graph.plan import PlannedOperator
from penstock.operators.chain import FanOut, OperatorInput
from penstock.operators.operator import REMARK, Operator, OperatorContext, Output, RuntimeInfo
from penstock.operators.typed import typed_output
from penstock.state.heap.backend import heap_state
from penstock.state.operator_state import OperatorStateStore
from penstock.state.private import never_changes
from penstock.task.build import on_failure, open_operators

_TRY_BITS = 20
"""More tries than this holds, in one run, may share a number with those of the next millisecond's."""


class EndingOutput:
    """An operator's output that lets nothing but the end of event time through.

    While it is ``held``, not even that: a round of keys ended, and the steps behind know nothing of keys.
    """

    __slots__ = ("_operator", "_out", "emit", "held", "side")

    def __init__(self, operator: Operator, out: Output) -> None:
        self._operator = operator
        self._out = out
        self.held = False
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
        if not self.held:
            self._out.watermark(time)

    def _fire(self, time: EventTime, key: Any, namespace: Any) -> None:
        for _ in self._operator.on_processing_timer(time, key, namespace) or ():
            pass  # nobody waits for room

    def idle(self, is_idle: bool) -> None:
        """There is no waiting in BATCH mode."""


class Chain:
    """The opened operators of one subtask. The first is the head."""

    def __init__(self, operators: list[tuple[OperatorId, OperatorInput]], ends: EndingOutput) -> None:
        self.operators = operators
        self.head = operators[0][1]
        self._ends = ends

    def hold(self) -> None:
        """Keys will end before the input does."""
        self._ends.held = True

    def end_round(self) -> None:
        """All keys so far are whole: their timers fire, and they are forgotten."""
        self.head.watermark(MAX_TIME)
        self.head.run(self.head.operator.forget_keys)

    def end_time(self) -> None:
        """The input has ended: so has event time, for every step."""
        if self._ends.held:
            self.end_round()
            self._ends.held = False
            self.head.operator.ctx.out.watermark(MAX_TIME)
        else:
            self.head.watermark(MAX_TIME)


def build_chain(
    work: VertexWork,
    attempt: Try,
    edges: dict[int, EdgeOutput],
    clock: Clock,
    wake: Callable[[], None],
    to_driver: Callable[[OperatorId, Any], None],
) -> Chain:
    """Make the operators back to front, so that each finds its consumers ready, then open them."""
    vertex = work.vertex
    inputs: dict[NodeId, OperatorInput] = {}
    ends: dict[NodeId, EndingOutput] = {}
    contexts: list[tuple[Operator, OperatorContext]] = []
    metrics = MetricGroup()
    place = Subtask(vertex.id, SubtaskIndex(attempt.subtask))
    for planned in reversed(vertex.operators):
        node, operator = planned.node, planned.node.factory()
        consumers: list[tuple[str | None, Output]] = [
            *((tag, inputs[consumer]) for tag, consumer in planned.chained),
            *((tag, edges[edge]) for tag, edge in planned.edges),
        ]
        inputs[node.id] = OperatorInput(operator, on_failure(node.name, place))
        reuses = bool(work.settings.get(OBJECT_REUSE))
        fan = FanOut(consumers, not reuses, never_changes(node.output_type))
        typed = typed_output(fan, node.output_type if node.casts else None, node.side_types)
        ends[node.id] = EndingOutput(operator, typed)
        context = OperatorContext(
            operator_id=planned.operator_id,
            info=_info(work, planned, attempt),
            out=ends[node.id],
            clock=clock,
            keyed=heap_state(),
            operator_state=OperatorStateStore(),
            metrics=metrics.add_group(node.name),
            settings=_settings(work, planned, attempt, to_driver),
            wake=wake,
        )
        contexts.append((operator, context))
    open_operators(inputs, contexts)
    chain = [(planned.operator_id, inputs[planned.node.id]) for planned in vertex.operators]
    return Chain(chain, ends[vertex.head.node.id])


def _settings(
    work: VertexWork,
    planned: PlannedOperator,
    attempt: Try,
    to_driver: Callable[[OperatorId, Any], None],
) -> dict[str, Any]:
    return {
        **work.settings,
        "generation": work.run.generation,
        "attempt": work.run.started_ms << _TRY_BITS | attempt.id,
        "keyed": planned.node.keyed,
        "in_order": work.in_order,
        "to_driver": lambda payload: to_driver(planned.operator_id, payload),
        REMARK: lambda remark: to_driver(planned.operator_id, remark),
    }


def _info(work: VertexWork, planned: PlannedOperator, attempt: Try) -> RuntimeInfo:
    vertex = work.vertex
    return RuntimeInfo(
        job_name=work.job_name,
        task_name=vertex.name,
        operator_name=planned.node.name,
        subtask=attempt.subtask,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        attempt=attempt.number,
        job_parameters=work.settings.get("job_parameters", {}),
    )
