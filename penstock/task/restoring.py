"""An operator's state at the start of a subtask: empty, or what a snapshot holds for it."""

from __future__ import annotations

from penstock.core.errors import naming
from penstock.core.handles import NativeHandle
from penstock.core.ids import Subtask
from penstock.core.keygroups import key_group_range
from penstock.core.messages import OperatorRestore
from penstock.graph.plan import Plan, Vertex
from penstock.state.backend import FileBackend, StateBackend
from penstock.state.files import StateBlocks
from penstock.state.keyed import KeyedState
from penstock.state.operator_state import ListMode, ListSnapshot, OperatorStateStore
from penstock.state.registry import StateBackends
from penstock.state.rekeying import Rehashed
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
            _fill(keyed, restore, vertex, subtask, source, source.url == target.url, backends)
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
