"""What a subtask starts with: its operators' state, and its share of the records that were in flight.

Both are empty, or what a snapshot holds for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penstock.core.batch import Batch
from penstock.core.errors import naming
from penstock.core.handles import ChannelHandle, NativeHandle
from penstock.core.ids import ChannelId, OperatorId, Subtask, SubtaskIndex
from penstock.core.keygroups import key_group_range
from penstock.core.messages import OperatorRestore
from penstock.exchange.channel_state import decode
from penstock.exchange.partition import Hash, make_router
from penstock.graph.overtaking import Crossing, crossings, takers
from penstock.graph.plan import Plan, Vertex
from penstock.state.backend import FileBackend, StateBackend
from penstock.state.evolution import Rehashed
from penstock.state.files import StateBlocks
from penstock.state.keyed import KeyedState
from penstock.state.operator_state import ListMode, ListSnapshot, OperatorStateStore
from penstock.state.registry import StateBackends
from penstock.task.environment import IN_DRIVER_MEMORY, StateStorage

_ROCKSDB = "rocksdb"
"""Under this name a plan's settings have the options of RocksDB, if the job names it."""


def restored_keyed(
    restore: OperatorRestore | None,
    plan: Plan,
    vertex: Vertex,
    subtask: Subtask,
    source: StateStorage,
    target: StateStorage,
    backends: StateBackends,
) -> KeyedState:
    """Keyed state of the backend that the plan names, with the subtask's share of a snapshot in it.

    ``source`` is where the snapshot is, ``target`` where the next ones go.
    """
    keyed = KeyedState(_opened(backends, plan, vertex, target))
    try:
        if restore is not None:
            keyed.must_be_claimed = not plan.settings.allow_non_restored
            _fill(keyed, restore, vertex, subtask, source, source.url == target.url, backends)
            keyed.met_kinds.update(dict.fromkeys(restore.key_kinds))
            keyed.restored_kinds |= keyed.met_kinds.keys()
            if restore.same_program:
                keyed.restored_kinds = frozenset()  # its keys may be of several kinds, and of one by chance
    except BaseException:
        keyed.close()
        raise
    return keyed


def _opened(backends: StateBackends, plan: Plan, vertex: Vertex, target: StateStorage) -> StateBackend:
    options = plan.settings.rocksdb
    name = backends.default if options is None else _ROCKSDB
    shares_files = not target.url.startswith(IN_DRIVER_MEMORY)
    return backends.open(name, options or {}, vertex.max_parallelism, shares_files)


def _fill(
    keyed: KeyedState,
    restore: OperatorRestore,
    vertex: Vertex,
    subtask: Subtask,
    source: StateStorage,
    own_files: bool,
    backends: StateBackends,
) -> None:
    count = vertex.max_parallelism
    first, last = key_group_range(subtask.index, vertex.parallelism, count)
    rehashed = Rehashed(first, last, count) if restore.old_hashes else None
    native = [handle for handle in restore.keyed if isinstance(handle, NativeHandle)]
    name = keyed.backend.name if isinstance(keyed.backend, FileBackend) else None
    if mine := [files for files in native if files.backend == name]:
        keyed.restore_files(mine, source, first, last, own_files, rehashed)
    for files in native:
        if files.backend != name:
            reader = backends.reader(files, count)
            keyed.restore(reader.read_files(files, source, first, last), rehashed)
    for handle in restore.keyed:
        if not isinstance(handle, NativeHandle):
            groups = count if rehashed is not None and handle.pickled else None
            with naming(handle.blob.place):
                data = source.read_blob(handle.blob)
                keyed.restore(StateBlocks(data, first, last, handle.key_groups, groups), rehashed)


def restored_lists(restore: OperatorRestore | None) -> OperatorStateStore:
    """Operator state, already dealt."""
    if restore is None:
        return OperatorStateStore()
    lists = {
        name: ListSnapshot(ListMode(mode), tuple(items)) for name, (mode, items) in restore.lists.items()
    }
    return OperatorStateStore(lists)


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
