"""What a user's program is made of: frozen nodes and the links between them, and the job that they are.

The fluent classes in ``penstock.datastream`` only ever add nodes to a :class:`GraphBuilder` or replace
one by a changed copy.  Union, partitioning, key-by and side-output selection are not nodes: they are
properties of links.  A :class:`JobSpec` is what is handed to whoever runs the job.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NewType

from penstock.connectors.sink import Sink
from penstock.connectors.source import Source
from penstock.core.config import Configuration
from penstock.core.error_codes import Code
from penstock.core.errors import GraphError
from penstock.exchange.partition import Partitioning
from penstock.luggage.wishes import Wishes
from penstock.operators.operator import Operator

NodeId = NewType("NodeId", int)


class NodeKind(Enum):
    """What a node is to the plan."""

    SOURCE = "Data Source"
    OPERATOR = "Operator"
    SINK = "Data Sink"


class Chaining(Enum):
    """Whether a node may share a task with its neighbours."""

    ALWAYS = "always"
    HEAD = "starts a new chain"
    NEVER = "on its own"


@dataclass(frozen=True, slots=True)
class Link:
    """Where a node's input comes from."""

    source: NodeId
    tag: str | None = None
    """Side output of the source node; ``None`` is the main output."""
    partitioning: Partitioning | None = None
    """``None``: forward if the parallelisms agree, else rebalance."""
    input_index: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """One step of the program."""

    id: NodeId
    kind: NodeKind
    name: str
    factory: Callable[[], Operator]
    """Makes the operator in the slot; pickled with everything the user's function refers to."""
    links: tuple[Link, ...] = ()
    uid: str | None = None
    uid_hash: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    chaining: Chaining = Chaining.ALWAYS
    keyed: bool = False
    stateful: bool = False
    source: Source | None = None
    sink: Sink | None = None
    description: str | None = None
    buffer_timeout_ms: int | None = None
    slot_group: str | None = None
    output_type: Any = None
    in_columns: bool = False
    """Whether a keyed step takes many keys at once, in columns, and needs no order of time within a key."""
    casts: bool = False
    """Whether results are brought to ``output_type``; else they are known to be of it."""
    side_types: Mapping[str, Any] = field(default_factory=dict)
    """Declared types of side outputs, by tag; what goes there is brought to them."""


class GraphBuilder:
    """Gathers nodes; ids are handed out in order of declaration.

    A program may run several jobs.  Streams outlive them: the next job has the nodes that were declared
    since the last one, and everything these read from.
    """

    def __init__(self) -> None:
        self._nodes: dict[NodeId, Node] = {}
        self._begin = NodeId(1)

    @property
    def nodes(self) -> list[Node]:
        """The nodes of the next job in order of declaration, which is a topological order.

        They are numbered from 1 on, whatever jobs came before.  A source that nobody reads is not run; any
        other step is, whether somebody reads it or not.
        """
        return self.nodes_if_read(())

    def nodes_if_read(self, also: Iterable[NodeId]) -> list[Node]:
        """The nodes of the next job if somebody read those, too."""
        new = (node for node_id, node in self._nodes.items() if node_id >= self._begin)
        wanted = {node.id for node in new if node.kind is not NodeKind.SOURCE}.union(also)
        for node_id in sorted(self._nodes, reverse=True):
            if node_id in wanted:
                wanted.update(link.source for link in self._nodes[node_id].links)
        numbers = {old: NodeId(new) for new, old in enumerate(sorted(wanted), 1)}
        return [_renumbered(self._nodes[old], numbers) for old in numbers]

    @property
    def declared(self) -> int:
        """How many nodes there are: the number of the newest."""
        return len(self._nodes)

    @property
    def begin(self) -> int:
        """The number of the first node since the last job."""
        return self._begin

    def uids(self) -> set[str]:
        """The uids that were given since the last job."""
        return {node.uid for node in self._nodes.values() if node.uid and node.id >= self._begin}

    def next_job(self) -> None:
        """What was declared so far belongs to a job that runs; only what reads from it runs again."""
        self._begin = NodeId(len(self._nodes) + 1)

    def add(self, kind: NodeKind, name: str, factory: Callable[[], Operator], **properties: Any) -> NodeId:
        """Declare a node."""
        node_id = NodeId(len(self._nodes) + 1)
        self._nodes[node_id] = Node(node_id, kind, name, factory, **properties)
        return node_id

    def get(self, node_id: NodeId) -> Node:
        """The node as it is now."""
        try:
            return self._nodes[node_id]
        except KeyError:
            raise GraphError(
                "this stream belongs to another environment; build all streams of a job with one "
                "StreamExecutionEnvironment",
                code=Code.OTHER_ENVIRONMENT,
            ) from None

    def change(self, node_id: NodeId, **changes: Any) -> None:
        """Replace a node by a changed copy."""
        self._nodes[node_id] = dataclasses.replace(self.get(node_id), **changes)


def _renumbered(node: Node, numbers: dict[NodeId, NodeId]) -> Node:
    links = tuple(dataclasses.replace(link, source=numbers[link.source]) for link in node.links)
    return dataclasses.replace(node, id=numbers[node.id], links=links)


@dataclass(frozen=True, slots=True)
class StartedBy:
    """What ``penstock run`` and its like want of the jobs of the program they run."""

    command: Mapping[str, Any] | None = None
    """The options of that command, to start the job again; ``None`` if ``python`` runs the program."""
    on_start: Callable[[Any], object] = lambda job: None
    """Called with the handle of each job that was started, on the thread that starts it."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What ``execute()`` was called on."""

    name: str
    nodes: tuple[Node, ...]
    configuration: Configuration
    parallelism: int | None = None
    max_parallelism: int | None = None
    job_parameters: tuple[tuple[str, str], ...] = ()
    python: Wishes = field(default_factory=Wishes)
    is_aside: bool = False
    """Whether this is a run beside the real job, of which nothing is kept."""
    started_by: StartedBy = field(default_factory=StartedBy)
