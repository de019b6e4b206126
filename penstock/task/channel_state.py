"""Records that were in flight when the restored snapshot was taken: each receiver's share of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penstock.core.batch import Batch
from penstock.core.errors import naming
from penstock.core.handles import ChannelHandle
from penstock.core.ids import ChannelId, OperatorId, SubtaskIndex
from penstock.exchange.channel_state import decode
from penstock.exchange.partition import Hash, make_router
from penstock.graph.overtaking import Crossing, crossings, takers
from penstock.graph.plan import Plan, Vertex
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
    first = _first_channels(channels)
    for crossing, batch in _shares(plan, vertex, index, handles, storage, chained=False):
        assert crossing.edge is not None
        yield first[crossing.edge.id], batch


def recovered_inside(
    plan: Plan, vertex: Vertex, index: SubtaskIndex, handles: Iterable[ChannelHandle], storage: StateStorage
) -> list[tuple[OperatorId, Batch]]:
    """The same for exchanges that are within the chain now: the operator that each batch goes to, in order.

    They wait for it as work left over does: what is nearer to the end of the chain is further on its way and
    goes first, all of it before anything new and before a snapshot, which could not hold it.
    """
    place = {planned.operator_id: number for number, planned in enumerate(vertex.operators)}
    found = [
        (crossing.target.operator_id, batch)
        for crossing, batch in _shares(plan, vertex, index, handles, storage, chained=True)
    ]
    return sorted(found, key=lambda item: -place[item[0]])


def _shares(
    plan: Plan,
    vertex: Vertex,
    index: SubtaskIndex,
    handles: Iterable[ChannelHandle],
    storage: StateStorage,
    *,
    chained: bool,
) -> Iterator[tuple[Crossing, Batch]]:
    handles = list(handles)
    found = crossings(plan, handles)
    for handle in sorted(handles, key=lambda item: (item.edge, item.receiver, item.sender)):
        crossing = found[handle.edge]
        here = crossing.vertex.id == vertex.id and (crossing.edge is None) is chained
        if here and index in takers(crossing, handle):
            with naming(f"{handle.blob.place}, records in flight"):
                batches = decode(storage.read_blob(handle.blob))
            for batch in batches:
                share = _share(crossing, index, batch)
                if share is not None:
                    yield crossing, share


def _first_channels(channels: Iterable[ChannelId]) -> Mapping[int, int]:
    first: dict[int, int] = {}
    for number, channel in enumerate(channels):
        first.setdefault(channel.edge, number)
    return first


def _share(crossing: Crossing, index: SubtaskIndex, batch: Batch) -> Batch | None:
    edge, vertex = crossing.edge, crossing.vertex
    if edge is None or not isinstance(edge.partitioning, Hash):
        return batch
    router = make_router(edge.partitioning, 0, 1, vertex.parallelism, vertex.max_parallelism)
    return next((share for target, share in router.route(batch) if target == index), None)
