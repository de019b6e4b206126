"""What a vertex needs to know to run in BATCH mode: made on the driver, sent with each of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.batch.inputs import IncomingEdge
from penstock.batch.outputs import OutgoingEdge
from penstock.connectors.source import Split
from penstock.core.ids import OperatorId, VertexId
from penstock.exchange.partition import Custom, Hash, Rebalance, Rescale, Shuffle
from penstock.graph.bounded import form_of
from penstock.graph.nodes import NodeKind
from penstock.graph.plan import Edge, Plan, PlanSettings, Vertex


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job, from its start to its commit."""

    generation: int
    """Grows from run to run as long as runs fail and there is a checkpoint directory."""
    started_ms: int


@dataclass(frozen=True, slots=True)
class VertexWork:
    """A vertex with its exchanges and, if it is a source, where it reads."""

    job_name: str
    vertex: Vertex
    incoming: Mapping[int, IncomingEdge]
    outgoing: Mapping[int, OutgoingEdge]
    settings: PlanSettings
    run: Run
    splits: tuple[tuple[Split, ...], ...] = ()
    at_hand: bool = False
    """Whether it is a source whose rows the runner reads itself and brings; it has no splits then."""
    in_order: bool = False
    """Whether who receives a record, of this vertex or one behind it, depends on the records before it.

    A task that runs again must then read in the same order: what comes out of it is in the order of what
    went in, and others have read of its first attempt.
    """

    @property
    def is_collected(self) -> bool:
        """Whether the driver reads its rows: it has sinks, or nobody else would have it run."""
        return not self.outgoing or any(
            planned.node.kind is NodeKind.SINK for planned in self.vertex.operators
        )


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """One attempt to run one subtask."""

    subtask: int
    number: int = 0
    """How many attempts failed before."""
    id: int = 0
    """No other attempt of any subtask in this run has it, also not one at the same time."""


@dataclass(frozen=True, slots=True)
class Feed:
    """What a vertex reads from another: the exchanges between the two."""

    source: VertexId
    edges: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Delivery:
    """Something for the driver, from one sink: prepared output, or a message."""

    operator_id: OperatorId
    subtask: int
    prepared: bool
    payload: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """What a subtask has counted when it ended, by the names of metrics: a message to the driver."""

    vertex: VertexId
    values: dict[str, float]


def vertex_work(
    plan: Plan, vertex: Vertex, run: Run, splits: tuple[tuple[Split, ...], ...], at_hand: bool = False
) -> VertexWork:
    """The work of one vertex."""
    incoming = {
        int(edge.id): IncomingEdge(form_of(plan, edge), edge.input_index)
        for edge in plan.edges
        if edge.target == vertex.id
    }
    outgoing = {int(edge.id): _outgoing(plan, edge) for edge in plan.edges if edge.source == vertex.id}
    return VertexWork(
        plan.job_name,
        vertex,
        incoming,
        outgoing,
        plan.settings,
        run,
        splits,
        at_hand,
        _distributes(plan, vertex),
    )


def _distributes(plan: Plan, vertex: Vertex) -> bool:
    """Whether the order of the vertex' records decides who receives some of them, there or further behind.

    It does where records are distributed in turn, and behind a step that takes them row by row: which of two
    that came at the same time it saw first may be in its results, and they go to whom their key says.
    """
    behind = {vertex.id}
    for other in in_order(plan):
        if any(feed.source in behind for feed in feeds_of(plan, other)):
            behind.add(other.id)
    return any(
        edge.source in behind
        and plan.vertex(edge.target).parallelism > 1
        and (
            isinstance(edge.partitioning, (Rebalance, Rescale, Shuffle))
            or (
                isinstance(edge.partitioning, (Hash, Custom))
                and edge.source != vertex.id
                and not plan.vertex(edge.source).head.node.in_columns
            )
        )
        for edge in plan.edges
    )


def _outgoing(plan: Plan, edge: Edge) -> OutgoingEdge:
    target = plan.vertex(edge.target)
    return OutgoingEdge(
        int(edge.id),
        form_of(plan, edge),
        edge.partitioning,
        edge.input_index,
        target.parallelism,
        target.max_parallelism,
        f"step {target.head.node.name!r}",
    )


def feeds_of(plan: Plan, vertex: Vertex) -> tuple[Feed, ...]:
    """Where a vertex reads from, in order of the program."""
    found: dict[VertexId, list[int]] = {}
    for edge in plan.edges:
        if edge.target == vertex.id:
            found.setdefault(edge.source, []).append(int(edge.id))
    return tuple(Feed(source, tuple(edges)) for source, edges in found.items())


def in_order(plan: Plan) -> list[Vertex]:
    """The vertices, each behind all it reads from."""
    done: set[VertexId] = set()
    left = list(plan.vertices)
    ordered: list[Vertex] = []
    while left:
        ready = [v for v in left if all(feed.source in done for feed in feeds_of(plan, v))]
        ordered += ready
        done.update(vertex.id for vertex in ready)
        left = [vertex for vertex in left if vertex.id not in done]
    return ordered
