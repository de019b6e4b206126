"""The plan as people and tools read it."""

from __future__ import annotations

import json
from typing import Any

from penstock.exchange.partition import Forward
from penstock.graph.bounded import form_of
from penstock.graph.budget import NetworkBudget
from penstock.graph.nodes import Node, NodeId, NodeKind
from penstock.graph.overtaking import why_aligned
from penstock.graph.plan import Edge, Plan, PlannedOperator
from penstock.graph.wall_clock import wall_clock


def plan_json(plan: Plan) -> str:
    """Flink's execution plan: one entry per step, with ship strategies of its inputs."""
    edges = {edge.id: edge for edge in plan.edges}
    strategies: dict[tuple[NodeId, NodeId], str] = {}
    heads = {vertex.id: vertex.head.node.id for vertex in plan.vertices}
    for _, planned in plan.operators():
        for _, consumer in planned.chained:
            strategies[planned.node.id, consumer] = Forward().strategy
        for _, edge_id in planned.edges:
            edge = edges[edge_id]
            strategies[planned.node.id, heads[edge.target]] = edge.partitioning.strategy
    nodes = [
        _node_entry(planned.node, vertex.parallelism, strategies) for vertex, planned in plan.operators()
    ]
    return json.dumps({"nodes": sorted(nodes, key=lambda entry: entry["id"])}, indent=2)


def _node_entry(node: Node, parallelism: int, strategies: dict[tuple[NodeId, NodeId], str]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": node.id,
        "type": node.name,
        "pact": node.kind.value,
        "contents": node.description or node.name,
        "parallelism": parallelism,
    }
    predecessors = [
        {
            "id": link.source,
            "ship_strategy": strategies.get((link.source, node.id), Forward().strategy),
            "side": "second" if link.input_index else "first",
        }
        for link in node.links
    ]
    if predecessors:
        entry["predecessors"] = predecessors
    return entry


def plan_text(plan: Plan) -> str:
    """The plan in words: tasks, their chains, and the exchanges between them."""
    batch = plan.settings.batch
    room = "BATCH mode, as Spark stages" if batch else f"{plan.slots} slots"
    lines = [f"job {plan.job_name!r}: {len(plan.vertices)} tasks, {room}"]
    names = {vertex.id: vertex.name for vertex in plan.vertices}
    for vertex in plan.vertices:
        lines.append(f"  [{vertex.parallelism}x] {vertex.name}   (max parallelism {vertex.max_parallelism})")
        for edge in plan.edges:
            if edge.source == vertex.id:
                note = f"   ({form_of(plan, edge).value})" if batch else _alignment(plan, edge)
                lines.append(f"        {edge.partitioning.strategy} -> {names[edge.target]}{note}")
    if plan.edges and not batch:
        lines.append(f"  {NetworkBudget(plan)}")
    unread = [planned.node.name for _, planned in plan.operators() if _is_unread(planned)]
    if unread:
        lines.append("  nobody reads the results of these; they run for what else they do:")
        lines += [f"        step {name!r}" for name in unread]
    clocked = wall_clock([planned.node for _, planned in plan.operators()])
    if clocked:
        lines.append("  depends on the wall clock or on chance, so that a replay may differ:")
        lines += [f"        {sentence}" for sentence in clocked]
    return "\n".join(lines)


def _is_unread(planned: PlannedOperator) -> bool:
    """Whether a step that is no sink is the last one."""
    return planned.node.kind is not NodeKind.SINK and not planned.chained and not planned.edges


def _alignment(plan: Plan, edge: Edge) -> str:
    aligned = why_aligned(plan, edge)
    return "" if aligned is None else f"   (barriers stay aligned: {aligned})"
