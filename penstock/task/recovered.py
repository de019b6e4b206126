"""Records that were in flight when the restored snapshot was taken: each receiver's share of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penstock.core.batch import Batch
from penstock.core.handles import ChannelHandle
from penstock.core.ids import ChannelId, SubtaskIndex
from penstock.exchange.overtaken import decode
from penstock.exchange.partition import Hash, make_router
from penstock.graph.overtaking import edges_by_name, takers
from penstock.graph.plan import Edge, Plan, Vertex
from penstock.task.environment import StateStorage


def recovered(
    plan: Plan,
    vertex: Vertex,
    index: SubtaskIndex,
    channels: Iterable[ChannelId],
    handles: Iterable[ChannelHandle],
    storage: StateStorage,
) -> Iterator[tuple[int, Batch]]:
    """The share of subtask ``index``, in order, each batch with the number of a channel of its edge.

    ``channels`` are the subtask's input channels as its gate numbers them.  All records of an edge go to
    its first channel: should a snapshot be taken while they wait, they are again ahead of all others.
    """
    handles = list(handles)
    edges = edges_by_name(plan, handles)
    first = _first_channels(channels)
    for handle in sorted(handles, key=lambda item: (item.edge, item.receiver, item.sender)):
        edge = edges[handle.edge]
        if edge.target == vertex.id:
            for batch in decode(storage.read_blob(handle.blob)):
                share = _share(edge, vertex, handle, index, batch)
                if share is not None:
                    yield first[edge.id], share


def _first_channels(channels: Iterable[ChannelId]) -> Mapping[int, int]:
    first: dict[int, int] = {}
    for number, channel in enumerate(channels):
        first.setdefault(channel.edge, number)
    return first


def _share(
    edge: Edge, vertex: Vertex, handle: ChannelHandle, index: SubtaskIndex, batch: Batch
) -> Batch | None:
    if index not in takers(edge, vertex, handle):
        return None
    if not isinstance(edge.partitioning, Hash):
        return batch
    router = make_router(edge.partitioning, 0, 1, vertex.parallelism, vertex.max_parallelism)
    return next((share for target, share in router.route(batch) if target == index), None)
