"""The plan as people and tools read it, and where its program depends on the wall clock or on chance.

Replaying such a program may give other results.  It is found without running anything: processing-time
windows and triggers say so themselves, and the code of users' functions is searched for the names of what
asks for the time.  That is a hint, not a proof: a function that calls another which asks for the time is not
seen.
"""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from penstock.exchange.partition import Forward
from penstock.graph.bounded import form_of
from penstock.graph.budget import NetworkBudget
from penstock.graph.nodes import Node, NodeId, NodeKind
from penstock.graph.overtaking import why_aligned
from penstock.graph.plan import Edge, Plan, PlannedOperator

_TELLING = {
    "register_processing_time_timer": "sets processing-time timers",
    "current_processing_time": "asks for the processing time",
    "enable_time_to_live": "has state whose time to live is counted by the wall clock",
    "perf_counter": "asks for the time",
    "monotonic": "asks for the time",
    "utcnow": "asks for the time",
    "now": "asks for the time",
    "today": "asks for the date",
    "uuid4": "makes random identifiers",
}
_MODULES = {
    "time": "uses the time module",
    "random": "uses the random module",
    "secrets": "uses random numbers",
}
_DEPTH = 4


def wall_clock(nodes: Sequence[Node]) -> list[str]:
    """One sentence per step that may give other results when it is run again."""
    return [f"step {node.name!r} {', '.join(found)}" for node in nodes if (found := _reasons(node))]


def _reasons(node: Node) -> list[str]:
    """Why, each once, in the order of discovery."""
    return list(dict.fromkeys(_in_value(node.factory, _DEPTH, set())))


def _in_value(value: Any, depth: int, seen: set[int]) -> Iterator[str]:
    """Search what a factory is made of: arguments, functions, objects of users' classes."""
    if depth < 0 or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            yield from _in_value(part, depth - 1, seen)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _in_value(part, depth - 1, seen)
    elif isinstance(value, types.FunctionType):
        yield from _in_function(value, depth, seen)
    elif isinstance(value, types.MethodType):
        yield from _in_value(value.__self__, depth, seen)
        yield from _in_value(value.__func__, depth, seen)
    elif not isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
        yield from _in_object(value, depth, seen)


def _in_function(function: types.FunctionType, depth: int, seen: set[int]) -> Iterator[str]:
    if not _is_ours(function.__module__):
        yield from _in_code(function.__code__, function.__globals__)
    for cell in function.__closure__ or ():
        try:
            yield from _in_value(cell.cell_contents, depth - 1, seen)
        except ValueError:
            continue


def _in_code(code: types.CodeType, names: dict[str, Any]) -> Iterator[str]:
    for name in code.co_names:
        said = _said_by(name, names.get(name))
        if said is not None:
            yield said
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _in_code(constant, names)


def _said_by(name: str, used: Any) -> str | None:
    """What a name in the code tells; ``used`` is what the program's module calls so, if anything."""
    if used is None:
        return _TELLING.get(name)
    if isinstance(used, types.ModuleType):
        return _MODULES.get(used.__name__)
    if isinstance(used, type):
        return None
    origin = getattr(used, "__module__", None) or type(getattr(used, "__self__", None)).__module__
    if origin == "uuid":
        return _TELLING.get(used.__name__)
    return _MODULES.get(origin)


def _in_object(value: Any, depth: int, seen: set[int]) -> Iterator[str]:
    """Our windows and triggers say it themselves; of users' objects the methods are searched."""
    said = getattr(value, "wall_clock", None)
    if isinstance(said, str):
        yield said
    if not _is_ours(type(value).__module__):
        for _, method in inspect.getmembers(type(value), inspect.isfunction):
            if not _is_ours(method.__module__):
                yield from _in_code(method.__code__, method.__globals__)
    for part in getattr(value, "__dict__", {}).values():
        yield from _in_value(part, depth - 1, seen)


def _is_ours(module: str | None) -> bool:
    return module is None or module == "penstock" or module.startswith("penstock.")


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
