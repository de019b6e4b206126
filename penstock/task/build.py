"""From the plan to running tasks: builds all subtasks of one slot, with their state restored."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.core.copying import OBJECT_REUSE
from penstock.core.errors import naming
from penstock.core.ids import ChannelId, Epoch, OperatorId, SlotId, Subtask, SubtaskIndex
from penstock.core.keygroups import key_group_range
from penstock.core.messages import Deploy, DriverMessage, Opening, Remark
from penstock.core.metrics import MetricGroup
from penstock.core.unpickling import ALLOWED, Allowed, allow
from penstock.exchange.align import Aligner, AtLeastOnce, ExactlyOnce
from penstock.exchange.channel import InputChannel, LocalSender, Sender
from penstock.exchange.gate import InputGate, Overtaking
from penstock.exchange.outputs import OutputEdge
from penstock.exchange.partition import Broadcast, channel_targets, make_router
from penstock.graph.budget import NetworkBudget
from penstock.graph.nodes import NodeId
from penstock.graph.overtaking import may_overtake
from penstock.graph.plan import Edge, Plan, PlannedOperator, Vertex
from penstock.operators.chain import FanOut, OperatorInput
from penstock.operators.operator import REMARK, Operator, OperatorContext, Output, RuntimeInfo
from penstock.operators.typed import typed_output
from penstock.state.private import never_changes
from penstock.task.environment import StateStorage, TaskEnvironment
from penstock.task.failures import explain_failure
from penstock.task.first_keys import watch_first_keys
from penstock.task.recovered import recovered, recovered_inside
from penstock.task.restoring import restored_keyed, restored_lists
from penstock.task.snapshot import SnapshotLadder
from penstock.task.task import Task
from penstock.task.writing import StateWriter

_NAN_KEYS = (
    "some keys are NaN. All NaN are one key, so records that have nothing in common but a missing number "
    "share its state; filter them out or give them a key before key_by if that is not meant"
)


class Network(Protocol):
    """Channels that cross slots."""

    def connect(self, peers: dict[SlotId, tuple[str, int]]) -> None:
        """Reach all other slots; called once, before anything else."""
        ...

    def sender(self, slot: SlotId, channel: ChannelId, limit: int) -> Sender:
        """The sending end of a channel to a task in another slot."""
        ...

    def register(self, channel: InputChannel) -> None:
        """Elements that arrive for this channel go into its queue."""
        ...


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the tasks being built live."""

    plan: Plan
    slot: SlotId
    deploy: Deploy
    env: TaskEnvironment
    network: Network
    channels: dict[ChannelId, InputChannel]
    budget: NetworkBudget


def build_tasks(
    plan: Plan, slot: SlotId, deploy: Deploy, env: TaskEnvironment, network: Network
) -> list[Task]:
    """All subtasks of ``slot``, opened, in topological order."""
    allow(plan.settings.get(ALLOWED, Allowed()))
    place = _Place(plan, slot, deploy, env, network, {}, NetworkBudget(plan))
    mine = [vertex for vertex in plan.vertices if slot < vertex.parallelism]
    for vertex in mine:
        for edge in plan.edges:
            if edge.target == vertex.id:
                _open_channels(place, edge)
    tasks: list[Task] = []
    try:
        with naming(f"snapshot {deploy.restored_epoch} in {deploy.restore_root}"):
            for vertex in mine:
                tasks.append(_build_task(place, vertex))
    except Exception:
        for task in tasks:
            task.close()
        raise
    return tasks


def _open_channels(place: _Place, edge: Edge) -> None:
    """The receiving ends of ``edge`` in this slot."""
    senders = place.plan.vertex(edge.source).parallelism
    receivers = place.plan.vertex(edge.target).parallelism
    for sender in range(senders):
        if place.slot in channel_targets(edge.partitioning, sender, senders, receivers):
            channel_id = ChannelId(edge.id, SubtaskIndex(sender), SubtaskIndex(int(place.slot)))
            channel = InputChannel(channel_id)
            place.channels[channel_id] = channel
            if sender != place.slot:
                place.network.register(channel)


def _build_task(place: _Place, vertex: Vertex) -> Task:
    plan, env = place.plan, place.env
    index = SubtaskIndex(int(place.slot))
    subtask = Subtask(vertex.id, index)
    settings = plan.settings
    metrics = MetricGroup()
    edges = {
        edge_id: _output_edge(place, plan.edges[edge_id], vertex, index)
        for planned in vertex.operators
        for _, edge_id in planned.edges
    }
    operators = _build_operators(place, vertex, subtask, edges, metrics)
    gate = _gate(place, vertex, index) if vertex.head.node.links else None
    key_groups = key_group_range(index, vertex.parallelism, vertex.max_parallelism)
    writer = StateWriter(subtask, key_groups, vertex.max_parallelism, env, plan.edge_name)
    ladder = SnapshotLadder(subtask, operators, writer, env)
    inputs = dict(operators)
    for target, batch in recovered_inside(
        plan, vertex, index, place.deploy.channels, _restored_storage(place)
    ):
        inputs[target].keep(batch)
    return Task(
        subtask,
        operators,
        gate,
        list(edges.values()),
        ladder,
        env,
        vertex.buffer_timeout_ms,
        int(settings.get("max_rows", 8192)),
        metrics,
    )


def _gate(place: _Place, vertex: Vertex, index: SubtaskIndex) -> InputGate:
    plan, deploy, settings = place.plan, place.deploy, place.plan.settings
    incoming = [
        (channel, plan.edges[channel_id.edge].input_index)
        for channel_id, channel in place.channels.items()
        if plan.edges[channel_id.edge].target == vertex.id
    ]
    count = len(incoming)
    aligner: Aligner = AtLeastOnce(count) if settings.get("at_least_once") else ExactlyOnce(count)
    timeout = settings.get("aligned_timeout_ms")
    overtaking = Overtaking(may_overtake(plan, vertex.id), timeout)
    numbered = [channel.id for channel, _ in incoming]
    storage = _restored_storage(place)
    old = recovered(plan, vertex, index, numbered, deploy.channels, storage)
    return InputGate(incoming, aligner, place.env.clock, overtaking, old)


def _restored_storage(place: _Place) -> StateStorage:
    root = place.deploy.restore_root
    return place.env.storage if root is None else place.env.open_storage(root)


def _output_edge(place: _Place, edge: Edge, vertex: Vertex, index: SubtaskIndex) -> OutputEdge:
    target = place.plan.vertex(edge.target)
    senders: dict[int, Sender] = {}
    for receiver in channel_targets(edge.partitioning, index, vertex.parallelism, target.parallelism):
        channel_id = ChannelId(edge.id, index, SubtaskIndex(receiver))
        slot = Plan.slot_of(Subtask(target.id, SubtaskIndex(receiver)))
        limit = place.budget.limit(int(place.slot), int(slot))
        if slot == place.slot:
            senders[receiver] = LocalSender(place.channels[channel_id], limit)
        else:
            senders[receiver] = place.network.sender(slot, channel_id, limit)
    name, report = target.head.node.name, place.env.report
    router = make_router(
        edge.partitioning,
        index,
        vertex.parallelism,
        target.parallelism,
        target.max_parallelism,
        lambda: report(Remark(name, "NaN", _NAN_KEYS)),
    )
    most = int(place.plan.settings.get("max_rows", 8192))
    return OutputEdge(router, senders, most, f"step {name!r}")


def _build_operators(
    place: _Place,
    vertex: Vertex,
    subtask: Subtask,
    edges: dict[Any, OutputEdge],
    metrics: MetricGroup,
) -> list[tuple[OperatorId, OperatorInput]]:
    """Make the operators back to front, so that each finds its consumers ready, then open them."""
    inputs: dict[NodeId, OperatorInput] = {}
    contexts: list[tuple[Operator, OperatorContext]] = []
    for planned in reversed(vertex.operators):
        operator = planned.node.factory()
        consumers: list[tuple[str | None, Output]] = [
            *((tag, inputs[node]) for tag, node in planned.chained),
            *((tag, edges[edge]) for tag, edge in planned.edges),
        ]
        wrapped = OperatorInput(operator, on_failure(planned.node.name, subtask))
        inputs[planned.node.id] = wrapped
        node = planned.node
        reuses = bool(place.plan.settings.get(OBJECT_REUSE))
        fan = FanOut(consumers, not reuses, never_changes(node.output_type))
        out = typed_output(fan, node.output_type if node.casts else None, node.side_types)
        place.env.opening(Opening(subtask, node.name))
        context = _context(place, vertex, planned, subtask, out, metrics)
        contexts.append((operator, context))
    names = {id(inputs[planned.node.id].operator): planned.node.name for planned in vertex.operators}
    tell = place.env.opening
    open_operators(inputs, contexts, lambda operator: tell(Opening(subtask, names[id(operator)])))
    if not place.plan.settings.get("allow_non_restored"):
        for planned, (operator, context) in zip(reversed(vertex.operators), contexts, strict=True):
            links = planned.node.links
            keyed = {link.input_index for link in links if not isinstance(link.partitioning, Broadcast)}
            watch_first_keys(operator, context.keyed.restored_kinds, keyed)
    return [(planned.operator_id, inputs[planned.node.id]) for planned in vertex.operators]


def open_operators(
    inputs: dict[NodeId, OperatorInput],
    contexts: list[tuple[Operator, OperatorContext]],
    opening: Callable[[Operator], None] = lambda operator: None,
) -> None:
    """Open all, saying which is next; if one fails, close those that were opened, and the half open one."""
    opened: list[Operator] = []
    try:
        for operator, context in contexts:
            wrapped = next(i for i in inputs.values() if i.operator is operator)
            opened.append(operator)
            opening(operator)
            wrapped.run(lambda operator=operator, context=context: operator.open(context))  # type: ignore[misc]
    except Exception:
        for operator in reversed(opened):
            with contextlib.suppress(Exception):
                operator.close()
        for _, context in contexts:
            context.keyed.close()
        raise


def on_failure(step: str, subtask: Subtask) -> Callable[[Exception, Operator], Exception]:
    """What turns a failure of a step into an error that names it."""
    where = f"{subtask.index}"
    return lambda error, operator: explain_failure(error, step, where, operator)


def _context(
    place: _Place,
    vertex: Vertex,
    planned: PlannedOperator,
    subtask: Subtask,
    out: Output,
    metrics: MetricGroup,
) -> OperatorContext:
    deploy, env = place.deploy, place.env
    restore = deploy.restore.get(subtask, {}).get(planned.operator_id)
    storage = _restored_storage(place)
    keyed = restored_keyed(restore, place.plan, vertex, subtask, storage, env.storage, env.backends)
    operator_id = planned.operator_id
    info = RuntimeInfo(
        job_name=place.plan.job_name,
        task_name=vertex.name,
        operator_name=planned.node.name,
        subtask=int(subtask.index),
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        attempt=deploy.attempt,
        job_parameters=place.plan.settings.get("job_parameters", {}),
    )
    settings = {
        **place.plan.settings,
        "generation": int(env.generation),
        "keyed": planned.node.keyed,
        "to_driver": lambda payload: env.report(DriverMessage(operator_id, payload)),
        "to_coordinator": env.report,
        REMARK: env.report,
    }
    return OperatorContext(
        operator_id=operator_id,
        info=info,
        out=out,
        clock=env.clock,
        keyed=keyed,
        operator_state=restored_lists(restore),
        metrics=metrics.add_group(planned.node.name),
        restored_epoch=Epoch(deploy.restored_epoch) if deploy.restored_epoch is not None else None,
        settings=settings,
        wake=env.wake,
    )
