"""Which exchanges unaligned barriers may overtake on, and where records in flight go after a restore.

The records that a barrier overtook must find their way again at another parallelism.  A keyed exchange has
the key to go by, and round robin, random and global ones do not care; forward and rescale tie a receiver to
its senders, broadcast copies would diverge, and a custom partitioner is asked only once for each record.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.core.errors import SnapshotError
from penstock.core.handles import ChannelHandle
from penstock.core.ids import SubtaskIndex, VertexId
from penstock.core.keygroups import key_group_range
from penstock.exchange.partition import Broadcast, Custom, Forward, Hash, Rescale
from penstock.graph.plan import Edge, Plan, Vertex

UNALIGNED = "unaligned"
"""Key of the plan's settings: whether barriers may overtake at all."""

_ALWAYS_ALIGNED = (Forward, Rescale, Broadcast, Custom)


def may_overtake(plan: Plan, vertex: VertexId) -> bool:
    """Whether barriers overtake at the input of a task: only if they may on every edge into it."""
    incoming = [edge for edge in plan.edges if edge.target == vertex]
    return bool(plan.settings.get(UNALIGNED)) and not any(map(_is_always_aligned, incoming))


def why_aligned(plan: Plan, edge: Edge) -> str | None:
    """Why an edge stays aligned although unaligned checkpoints are on; ``None`` if it does not."""
    if not plan.settings.get(UNALIGNED) or may_overtake(plan, edge.target):
        return None
    if _is_always_aligned(edge):
        return f"{edge.partitioning.strategy.lower()} is always aligned"
    return "another input of this task is always aligned"


def _is_always_aligned(edge: Edge) -> bool:
    return isinstance(edge.partitioning, _ALWAYS_ALIGNED)


def edges_by_name(plan: Plan, channels: Iterable[ChannelHandle]) -> dict[str, Edge]:
    """The edges of the plan by the names snapshots use; refuses records in flight on an edge it lacks."""
    edges = {plan.edge_name(edge.id): edge for edge in plan.edges}
    lost = sorted({handle.edge for handle in channels if handle.edge not in edges})
    if lost:
        raise SnapshotError(
            f"the snapshot holds records on their way between tasks that the program no longer has or no "
            f"longer connects ({', '.join(lost)}); they would be lost. To change the program, start it once "
            "more as it was, take a savepoint, which holds no records in flight, and start from that"
        )
    return edges


def takers(
    edge: Edge, vertex: Vertex, handle: ChannelHandle, before: tuple[int, int] | None = None
) -> list[int]:
    """The subtasks of ``vertex``, at the end of ``edge``, whose share may be in a handle.

    Of a keyed exchange those whose keys may be in it: ``before`` is the parallelism and max parallelism the
    vertex had when the snapshot was taken; without it, all.  Of others one, which takes all of it.
    """
    count, most = vertex.parallelism, vertex.max_parallelism
    if not isinstance(edge.partitioning, Hash):
        return [handle.receiver % count]
    if before is None or before[1] != most:
        return list(range(count))
    first, last = key_group_range(handle.receiver, before[0], most)
    ranges = [key_group_range(SubtaskIndex(index), count, most) for index in range(count)]
    return [index for index, (low, high) in enumerate(ranges) if low <= last and first <= high]
