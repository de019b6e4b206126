"""Which exchanges unaligned barriers may overtake on, and where records in flight go after a restore.

The records that a barrier overtook must find their way again at another parallelism.  A keyed exchange has
the key to go by, and round robin, random and global ones do not care; forward and rescale tie a receiver to
its senders, broadcast copies would diverge, and a custom partitioner is asked only once for each record.

Which steps form a chain depends on the parallelism, so an exchange may be gone when records that were on it
come back: then they go to the operator itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.core.errors import SnapshotError
from penstock.core.handles import ChannelHandle
from penstock.core.ids import SubtaskIndex, VertexId
from penstock.core.keygroups import key_group_range
from penstock.exchange.partition import Broadcast, Custom, Forward, Hash, Rescale
from penstock.graph.plan import Edge, Plan, PlannedOperator, Vertex, link_name

_ALWAYS_ALIGNED = (Forward, Rescale, Broadcast, Custom)


def may_overtake(plan: Plan, vertex: VertexId) -> bool:
    """Whether barriers overtake at the input of a task: only if they may on every edge into it."""
    incoming = [edge for edge in plan.edges if edge.target == vertex]
    return plan.settings.unaligned and not any(map(_is_always_aligned, incoming))


def why_aligned(plan: Plan, edge: Edge) -> str | None:
    """Why an edge stays aligned although unaligned checkpoints are on; ``None`` if it does not."""
    if not plan.settings.unaligned or may_overtake(plan, edge.target):
        return None
    if _is_always_aligned(edge):
        return f"{edge.partitioning.strategy.lower()} is always aligned"
    return "another input of this task is always aligned"


def _is_always_aligned(edge: Edge) -> bool:
    return isinstance(edge.partitioning, _ALWAYS_ALIGNED)


_OLDER_NAME = re.compile(r"(?P<source>[0-9a-f]{12})>(?P<target>[0-9a-f]{12})/(?P<input>\d+)\.\d+")


@dataclass(frozen=True, slots=True)
class Crossing:
    """The way from one operator to another: where records in flight go on after a restore."""

    vertex: Vertex
    """The task of the second one."""
    target: PlannedOperator
    edge: Edge | None
    """``None`` if there is no exchange at the parallelism of now: both are in one chain."""


def crossings(plan: Plan, channels: Iterable[ChannelHandle]) -> dict[str, Crossing]:
    """The ways of the plan by the names snapshots use; refuses records in flight on one it lacks."""
    found = _crossings(plan)
    older = _by_older_names(plan, found)
    names = {
        name: found.get(name) or older.get(name) or _only_way_in(plan, found, name)
        for name in {handle.edge for handle in channels}
    }
    lost = sorted(name for name, crossing in names.items() if crossing is None)
    if lost:
        raise SnapshotError(
            f"the snapshot holds records on their way between tasks that the program no longer has or no "
            f"longer connects ({', '.join(lost)}); they would be lost. To change the program, start it once "
            "more as it was, take a savepoint, which holds no records in flight, and start from that"
        )
    return {name: crossing for name, crossing in names.items() if crossing is not None}


def _crossings(plan: Plan) -> dict[str, Crossing]:
    found: dict[str, Crossing] = {}
    for edge in plan.edges:
        vertex = plan.vertex(edge.target)
        found[edge.name] = Crossing(vertex, vertex.head, edge)
    for vertex, planned in plan.operators():
        members = {member.node.id: member for member in vertex.operators}
        for tag, node in planned.chained:
            target = members[node]
            name = link_name(
                planned.operator_id, tag, target.operator_id, target.node.links[0].input_index, 0
            )
            found[name] = Crossing(vertex, target, None)
    return found


def _by_older_names(plan: Plan, found: dict[str, Crossing]) -> dict[str, Crossing]:
    """Names were once made of the vertices of both ends: they hold while chains stay as they were.

    If those have changed, the target is still known: it may have just one way in.
    """
    older: dict[str, Crossing] = {}
    alike: Counter[str] = Counter()
    for edge in plan.edges:
        ends = f"{edge.source}>{edge.target}/{edge.input_index}"
        older[f"{ends}.{alike[ends]}"] = found[edge.name]
        alike[ends] += 1
    return older


def _only_way_in(plan: Plan, found: dict[str, Crossing], name: str) -> Crossing | None:
    """What an older name means after chains have changed, if that is certain."""
    named = _OLDER_NAME.fullmatch(name)
    ids = [planned.operator_id for _, planned in plan.operators()]
    if named is None or not any(operator_id.startswith(named["source"]) for operator_id in ids):
        return None
    ways = [
        crossing
        for crossing in found.values()
        if crossing.target.operator_id.startswith(named["target"])
        and (0 if crossing.edge is None else crossing.edge.input_index) == int(named["input"])
    ]
    return ways[0] if len(ways) == 1 else None


def takers(crossing: Crossing, handle: ChannelHandle, before: tuple[int, int] | None = None) -> list[int]:
    """The subtasks at the end of a way whose share may be in a handle.

    Of a keyed exchange those whose keys may be in it: ``before`` is the parallelism and max parallelism the
    receiver had when the snapshot was taken; without it, all.  Of others one, which takes all of it.
    """
    count, most = crossing.vertex.parallelism, crossing.vertex.max_parallelism
    if crossing.edge is None or not isinstance(crossing.edge.partitioning, Hash):
        return [handle.receiver % count]
    if before is None or before[1] != most:
        return list(range(count))
    first, last = key_group_range(handle.receiver, before[0], most)
    ranges = [key_group_range(SubtaskIndex(index), count, most) for index in range(count)]
    return [index for index, (low, high) in enumerate(ranges) if low <= last and first <= high]
