"""From the plan to running tasks: builds all subtasks of one slot, with their state restored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from penstock.core.errors import naming
from penstock.core.ids import ChannelId, Epoch, SlotId, Subtask, SubtaskIndex
from penstock.core.keygroups import key_group_range
from penstock.core.log_place import at_task
from penstock.core.messages import Deploy, DriverMessage, Opening, Remark
from penstock.core.metrics import MetricGroup
from penstock.core.unpickling import allow
from penstock.exchange.barrier_alignment import Aligner, AtLeastOnce, ExactlyOnce
from penstock.exchange.channel import InputChannel, LocalSender, Sender
from penstock.exchange.gate import InputGate, Overtaking
from penstock.exchange.outputs import OutputEdge
from penstock.exchange.partition import Broadcast, Rebalance, Rescale, channel_targets, make_router
from penstock.graph.budget import NetworkBudget
from penstock.graph.overtaking import may_overtake
from penstock.graph.plan import Edge, Plan, PlannedOperator, Vertex
from penstock.operators.operator import OperatorRuntime
from penstock.state.keyed import KeyedState
from penstock.state.operator_state import OperatorStateStore
from penstock.task.chain import Chain, ChainSetup, build_chain, runtime_of
from penstock.task.environment import StateStorage, TaskEnvironment
from penstock.task.first_keys import watch_first_keys
from penstock.task.met_keys import remember_kinds
from penstock.task.restoring import recovered, recovered_inside, restored_keyed, restored_lists
from penstock.task.snapshot import SnapshotPhases
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
    allow(plan.settings.allowed_classes)
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
    finally:
        at_task(None)
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
    subtask, log_place = Subtask(vertex.id, index), (vertex.name, int(index))
    at_task(log_place)
    metrics = MetricGroup()
    edges = {
        int(edge_id): _output_edge(place, plan.edges[edge_id], vertex, index)
        for planned in vertex.operators
        for _, edge_id in planned.edges
    }
    # What reads the snapshot comes first: an operator that is open must be closed by its task.
    gate = _gate(place, vertex, index) if vertex.head.node.links else None
    inside = list(recovered_inside(plan, vertex, index, place.deploy.channels, _restored_storage(place)))
    operators = _build_operators(place, vertex, subtask, edges, metrics)
    key_groups = key_group_range(index, vertex.parallelism, vertex.max_parallelism)
    writer = StateWriter(subtask, key_groups, vertex.max_parallelism, env, plan.edge_name)
    phases = SnapshotPhases(subtask, operators, writer, env)
    inputs = dict(operators)
    for target, batch in inside:
        inputs[target].keep(batch)
    task = Task(
        subtask,
        operators,
        gate,
        list(edges.values()),
        phases,
        env,
        vertex.buffer_timeout_ms,
        plan.settings.max_rows,
        metrics,
    )
    task.log_place = log_place
    return task


def _gate(place: _Place, vertex: Vertex, index: SubtaskIndex) -> InputGate:
    plan, deploy, settings = place.plan, place.deploy, place.plan.settings
    incoming = [
        (channel, plan.edges[channel_id.edge].input_index)
        for channel_id, channel in place.channels.items()
        if plan.edges[channel_id.edge].target == vertex.id
    ]
    count = len(incoming)
    aligner: Aligner = AtLeastOnce(count) if settings.at_least_once else ExactlyOnce(count)
    overtaking = Overtaking(may_overtake(plan, vertex.id), settings.aligned_timeout_ms)
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
    settings = place.plan.settings
    by_room = settings.deals_by_room and isinstance(edge.partitioning, Rebalance | Rescale)
    return OutputEdge(router, senders, settings.max_rows, f"step {name!r}", target.id, by_room)


def _build_operators(
    place: _Place, vertex: Vertex, subtask: Subtask, edges: dict[int, OutputEdge], metrics: MetricGroup
) -> Chain:
    deploy, env = place.deploy, place.env
    told = env.opening
    setup = ChainSetup(
        job_name=place.plan.job_name,
        vertex=vertex,
        index=subtask.index,
        settings=place.plan.settings,
        clock=env.clock,
        metrics=metrics,
        runtime=partial(_runtime, place),
        state=partial(_state, place, vertex, subtask),
        attempt=deploy.attempt,
        restored_epoch=Epoch(deploy.restored_epoch) if deploy.restored_epoch is not None else None,
        wake=env.wake,
        opening=lambda step: told(Opening(subtask, step)),
    )
    chain = build_chain(setup, edges)
    for planned, (_, entry) in zip(vertex.operators, chain, strict=True):
        if planned.node.keyed:
            remember_kinds(entry.operator)
        if not place.plan.settings.allow_non_restored:
            links = planned.node.links
            keyed = {link.input_index for link in links if not isinstance(link.partitioning, Broadcast)}
            watch_first_keys(entry.operator, entry.operator.ctx.keyed.restored_kinds, keyed)
    return chain


def _runtime(place: _Place, planned: PlannedOperator) -> OperatorRuntime:
    operator_id, report = planned.operator_id, place.env.report
    return replace(
        runtime_of(place.plan.settings),
        generation=int(place.env.generation),
        to_driver=lambda payload: report(DriverMessage(operator_id, payload)),
        report_watermark=report,
        report_remark=report,
    )


def _state(
    place: _Place, vertex: Vertex, subtask: Subtask, planned: PlannedOperator
) -> tuple[KeyedState, OperatorStateStore]:
    restore, env = place.deploy.restore.get(subtask, {}).get(planned.operator_id), place.env
    source = _restored_storage(place)
    keyed = restored_keyed(restore, place.plan, vertex, subtask, source, env.storage, env.backends)
    return keyed, restored_lists(restore)
