"""The plan: vertices (chains of operators), the exchanges between them, and the settings that slots need.

Compiled on the driver by :func:`compile_plan`, shipped to every slot (:func:`pickled_plan`).  Subtask ``i``
of every vertex runs in slot ``i`` (slot sharing), so the job needs as many slots as its largest parallelism.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import cloudpickle

from penstock.core.error_codes import Code
from penstock.core.errors import GraphError
from penstock.core.ids import EdgeId, OperatorId, SlotId, Subtask, SubtaskIndex, VertexId
from penstock.core.pickling import culprit, ship
from penstock.core.secret_fields import DEFAULT, patterns_of
from penstock.core.unpickling import Allowed
from penstock.exchange.partition import Forward, Partitioning, Rebalance
from penstock.graph.identity import operator_ids
from penstock.graph.nodes import Chaining, Link, Node, NodeId, NodeKind


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Resolved by the driver from the configuration (``coordinator/assemble.py``), the same for every slot.

    The defaults are those of a plan that was compiled by hand, as tests do.
    """

    checkpointing: bool = False
    """Whether periodic snapshots are on; never in BATCH mode."""
    at_least_once: bool = False
    """Whether barriers are only counted: no channel is blocked until all have brought theirs."""
    unaligned: bool = False
    """Whether barriers may overtake records, where the exchange allows it (``graph/overtaking.py``)."""
    aligned_timeout_ms: int | None = None
    """With ``unaligned``: how long to wait aligned before overtaking; ``None`` overtakes at once."""
    auto_watermark_interval_ms: int = 200
    """How often watermarks are emitted; 0, as in BATCH mode, is never."""
    batch: bool = False
    """Whether the job runs in BATCH mode."""
    object_reuse: bool = False
    """Whether steps and state share records that can change, instead of getting a copy each."""
    max_rows: int = 8192
    """Rows that travel together at most."""
    channel_bytes: int = 8 << 20
    """The most that may be in flight on one channel."""
    network_bytes: int = 256 << 20
    """The most that may be in flight on all channels of a slot (``graph/budget.py``)."""
    deals_by_room: bool = True
    """Whether what is dealt in turn goes to those who have room (``exchange/dealing.py``)."""
    heartbeat_interval_ms: int = 10_000
    """How often slots say they are alive."""
    allow_non_restored: bool = False
    """Whether a snapshot may hold state that the program does not take, or keys of another type."""
    max_parallelism_set: bool = False
    """Whether the user chose the max parallelism; else a snapshot's own is adopted."""
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    """The user's global job parameters, for functions to read."""
    allowed_classes: Allowed = field(default_factory=Allowed)
    """What may be unpickled from snapshots besides the data types that always are."""
    log_format: str = "text"
    """How workers write their logs (``core/log_format.py``)."""
    rocksdb: Mapping[str, Any] | None = None
    """Arguments of ``state.rocks.database.RocksSettings``; ``None`` keeps keyed state on the heap."""
    local_backup: str | None = None
    """Where slots keep copies of their snapshot files: a directory, or empty for the default one."""
    secret_fields: tuple[str, ...] = patterns_of(DEFAULT)
    """Names of fields that are never shown to people, see ``core/secret_fields.py``."""


_AS_BY_DEFAULT = PlanSettings()


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Job-wide settings that shape the plan."""

    parallelism: int
    max_parallelism: int | None = None
    chaining: bool = True
    buffer_timeout_ms: int = 100


@dataclass(frozen=True, slots=True)
class PlannedOperator:
    """A node with its place in the plan."""

    node: Node
    operator_id: OperatorId
    chained: tuple[tuple[str | None, NodeId], ...]
    """Consumers in the same task: (side output tag or None, node)."""
    edges: tuple[tuple[str | None, EdgeId], ...]
    """Exchanges that leave the task here: (side output tag or None, edge)."""


@dataclass(frozen=True, slots=True)
class Vertex:
    """A chain (in general a tree) of operators deployed as one task. The first one is the head."""

    id: VertexId
    name: str
    operators: tuple[PlannedOperator, ...]
    parallelism: int
    max_parallelism: int
    buffer_timeout_ms: int

    @property
    def head(self) -> PlannedOperator:
        """The operator that receives the task's input."""
        return self.operators[0]

    def subtasks(self) -> list[Subtask]:
        """All parallel instances."""
        return [Subtask(self.id, SubtaskIndex(index)) for index in range(self.parallelism)]


@dataclass(frozen=True, slots=True)
class Edge:
    """An exchange from an operator of one vertex to the head of another."""

    id: EdgeId
    source: VertexId
    target: VertexId
    partitioning: Partitioning
    input_index: int
    name: str = ""
    """What snapshots call it, see :func:`link_name`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a slot needs to know to build its tasks."""

    job_name: str
    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]
    settings: PlanSettings = _AS_BY_DEFAULT
    parallelism: int = 1
    """That of steps without one of their own."""

    @property
    def slots(self) -> int:
        """How many slots the job needs."""
        return max(vertex.parallelism for vertex in self.vertices)

    @property
    def tasks(self) -> int:
        """How many subtasks the job has."""
        return sum(vertex.parallelism for vertex in self.vertices)

    def vertex(self, vertex_id: VertexId) -> Vertex:
        """The vertex with this id."""
        return next(vertex for vertex in self.vertices if vertex.id == vertex_id)

    def place(self, subtask: Subtask) -> str:
        """A subtask as people know it."""
        names = [vertex.name for vertex in self.vertices if vertex.id == subtask.vertex]
        return f"step {names[0]!r}, subtask {subtask.index}" if names else str(subtask)

    def subtasks(self) -> list[Subtask]:
        """All subtasks of the job."""
        return [subtask for vertex in self.vertices for subtask in vertex.subtasks()]

    def operators(self) -> Iterable[tuple[Vertex, PlannedOperator]]:
        """All operators with their vertices."""
        return ((vertex, planned) for vertex in self.vertices for planned in vertex.operators)

    def edge_name(self, edge_id: EdgeId) -> str:
        """What an exchange is called in snapshots."""
        return self.edges[edge_id].name

    def subtasks_in(self, slot: SlotId) -> list[Subtask]:
        """Those that run in a slot, in topological order."""
        index = SubtaskIndex(int(slot))
        return [Subtask(vertex.id, index) for vertex in self.vertices if slot < vertex.parallelism]

    @staticmethod
    def slot_of(subtask: Subtask) -> SlotId:
        """Where a subtask runs."""
        return SlotId(int(subtask.index))


def link_name(source: OperatorId, tag: str | None, target: OperatorId, input_index: int, alike: int) -> str:
    """What snapshots call the way from an operator to another, whether it is an exchange or not.

    Chains are made and broken by the parallelism, so no vertex is part of it.  ``alike`` counts earlier
    links that are the same in all else, as in a union of a stream with itself.
    """
    output = source if tag is None else f"{source}#{tag}"
    return f"{output}>{target}/{input_index}.{alike}"


def default_max_parallelism(parallelism: int) -> int:
    """Power of two above one and a half times the parallelism, within 128 and 32768."""
    wanted = parallelism + parallelism // 2
    power = 1 << max(0, wanted - 1).bit_length()
    return min(max(power, 128), 32768)


class _Compiler:
    """Working state of one compilation."""

    def __init__(self, nodes: list[Node], options: PlanOptions) -> None:
        if not nodes:
            raise GraphError(
                "there is nothing to run: the program has no steps since its last job, or only sources that "
                "nobody reads; add a step behind a source, such as print(), sink_to() or map()",
                code=Code.NOTHING_TO_RUN,
            )
        self.options = options
        self.nodes = {node.id: node for node in nodes}
        self.parallelism = {node.id: self._parallelism_of(node) for node in nodes}
        self.ids = operator_ids(_sinks_first(nodes))
        self.consumers: dict[NodeId, list[tuple[Link, Node]]] = {node.id: [] for node in nodes}
        for node in nodes:
            for link in node.links:
                self.consumers[link.source].append((link, node))
        self.heads = [node for node in nodes if not self._is_chained(node)]
        self.edges: list[Edge] = []
        self.alike: Counter[tuple[NodeId, str | None, NodeId, int]] = Counter()

    def _parallelism_of(self, node: Node) -> int:
        wanted = node.parallelism or self.options.parallelism
        limit = node.max_parallelism or self.options.max_parallelism
        if limit is not None and wanted > limit:
            raise GraphError(
                f"step {node.name!r} has parallelism {wanted}, above its max parallelism {limit}; "
                "lower the parallelism or raise set_max_parallelism() (only possible for a job "
                "without snapshots)",
                code=Code.ABOVE_MAX_PARALLELISM,
            )
        return wanted

    def partitioning(self, link: Link, node: Node) -> Partitioning:
        if link.partitioning is not None:
            same = self.parallelism[link.source] == self.parallelism[node.id]
            if isinstance(link.partitioning, Forward) and not same:
                raise GraphError(
                    f"forward into step {node.name!r} needs equal parallelism on both sides, but it "
                    f"is {self.parallelism[link.source]} and {self.parallelism[node.id]}; use "
                    "rebalance() or rescale()",
                    code=Code.FORWARD,
                )
            return link.partitioning
        same = self.parallelism[link.source] == self.parallelism[node.id]
        return Forward() if same else Rebalance()

    def _is_chained(self, node: Node) -> bool:
        """Whether ``node`` runs in the task of its only input."""
        if not self.options.chaining or len(node.links) != 1 or node.chaining is not Chaining.ALWAYS:
            return False
        link = node.links[0]
        upstream = self.nodes[link.source]
        return (
            isinstance(self.partitioning(link, node), Forward)
            and self.parallelism[upstream.id] == self.parallelism[node.id]
            and upstream.chaining is not Chaining.NEVER
            and (node.max_parallelism or 0) in (0, upstream.max_parallelism or 0)
            and node.slot_group in (None, upstream.slot_group)
        )

    def members(self, head: Node) -> list[Node]:
        """The nodes of the chain that starts at ``head``, parents before children."""
        found = [head]
        for node in found:
            for link, consumer in self.consumers[node.id]:
                if self._is_chained(consumer) and link.source == node.id:
                    found.append(consumer)
        return found

    def vertex_id(self, head: Node) -> VertexId:
        """The start of the head's identity; all of it if another chain's begins alike."""
        whole = self.ids[head.id]
        alike = [other for other in self.heads if self.ids[other.id][:12] == whole[:12]]
        return VertexId(whole[:12] if len(alike) == 1 else whole)

    def planned(self, node: Node) -> PlannedOperator:
        chained: list[tuple[str | None, NodeId]] = []
        edges: list[tuple[str | None, EdgeId]] = []
        for link, consumer in self.consumers[node.id]:
            if self._is_chained(consumer):
                chained.append((link.tag, consumer.id))
            else:
                edges.append((link.tag, self._edge(node, link, consumer)))
        return PlannedOperator(node, self.ids[node.id], tuple(chained), tuple(edges))

    def _edge(self, node: Node, link: Link, consumer: Node) -> EdgeId:
        edge = Edge(
            EdgeId(len(self.edges)),
            self.vertex_id(self._head_of(node)),
            self.vertex_id(consumer),
            self.partitioning(link, consumer),
            link.input_index,
            self._name(node, link, consumer),
        )
        self.edges.append(edge)
        return edge.id

    def _name(self, node: Node, link: Link, consumer: Node) -> str:
        same = (node.id, link.tag, consumer.id, link.input_index)
        alike = self.alike[same]
        self.alike[same] += 1
        return link_name(self.ids[node.id], link.tag, self.ids[consumer.id], link.input_index, alike)

    def _head_of(self, node: Node) -> Node:
        while self._is_chained(node):
            node = self.nodes[node.links[0].source]
        return node

    def vertex(self, head: Node) -> Vertex:
        members = self.members(head)
        parallelism = self.parallelism[head.id]
        timeout = head.buffer_timeout_ms
        return Vertex(
            self.vertex_id(head),
            " -> ".join(node.name for node in members),
            tuple(self.planned(node) for node in members),
            parallelism,
            head.max_parallelism or self.options.max_parallelism or default_max_parallelism(parallelism),
            self.options.buffer_timeout_ms if timeout is None else timeout,
        )


def compile_plan(
    nodes: list[Node], job_name: str, options: PlanOptions, settings: PlanSettings = _AS_BY_DEFAULT
) -> Plan:
    """Chain the nodes and lay the exchanges."""
    compiler = _Compiler(nodes, options)
    vertices = tuple(compiler.vertex(head) for head in compiler.heads)
    return Plan(job_name, vertices, tuple(compiler.edges), settings, options.parallelism)


def _sinks_first(nodes: list[Node]) -> list[Node]:
    """Nodes that end in a sink, then the others, each in order.

    So a step that nobody reads, put into a program, leaves the identities of all others as they were.
    """
    wanted = {node.id for node in nodes if node.kind is NodeKind.SINK}
    for node in reversed(nodes):
        if node.id in wanted:
            wanted.update(link.source for link in node.links)
    return sorted(nodes, key=lambda node: node.id not in wanted)


def pickled_plan(plan: Plan) -> bytes:
    """The plan as slots get it; refuses what cannot be sent, by its step."""
    for _, planned in plan.operators():
        _check_shipping(planned.node.factory, f"step {planned.node.name!r}")
    for edge in plan.edges:
        target = plan.vertex(edge.target).name
        _check_shipping(edge.partitioning, f"the key selector or partitioner before {target!r}")
    return ship(shipped_plan(plan))


def shipped_plan(plan: Plan) -> Plan:
    """The plan for the slots: sources and sinks travel inside their operators only."""
    vertices = tuple(
        replace(
            vertex,
            operators=tuple(
                replace(planned, node=replace(planned.node, source=None, sink=None))
                for planned in vertex.operators
            ),
        )
        for vertex in plan.vertices
    )
    return replace(plan, vertices=vertices)


def _check_shipping(part: object, what: str) -> None:
    try:
        cloudpickle.dumps(part)
    except Exception as error:
        raise GraphError(
            f"{what} cannot be sent to the slots: {culprit(part)}, which cannot be pickled ({error}). Open "
            "files, locks, connections and Spark objects belong to one process: make them in the function's "
            "open() instead",
            code=Code.FUNCTION_NOT_PICKLABLE,
        ) from error
