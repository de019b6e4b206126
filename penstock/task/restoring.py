"""An operator's state at the start of a subtask: empty, or what a snapshot holds for it."""

from __future__ import annotations

from dataclasses import replace

from penstock.core.errors import naming
from penstock.core.handles import NativeHandle
from penstock.core.ids import Subtask
from penstock.core.keygroups import key_group_range
from penstock.core.messages import OperatorRestore
from penstock.graph.plan import Plan, Vertex
from penstock.state.backend import KeyedState
from penstock.state.files import StateBlocks
from penstock.state.operator_state import ListMode, ListSnapshot, OperatorStateStore
from penstock.state.rekeying import Rehashed
from penstock.state.rocks.backend import RocksKeyedState
from penstock.state.rocks.native import read_native
from penstock.state.rocks.settings import RocksSettings
from penstock.task.environment import IN_DRIVER_MEMORY, StateStorage


def restored_keyed(
    restore: OperatorRestore | None,
    plan: Plan,
    vertex: Vertex,
    subtask: Subtask,
    source: StateStorage,
    target: StateStorage,
) -> KeyedState:
    """Keyed state of the backend that the plan names, with the subtask's share of a snapshot in it.

    ``source`` is where the snapshot is, ``target`` where the next ones go.
    """
    settings = _rocks_settings(plan, target)
    keyed = KeyedState() if settings is None else RocksKeyedState(settings, vertex.max_parallelism)
    try:
        if restore is not None:
            _fill(keyed, restore, vertex, subtask, source, source.url == target.url)
            if restore.same_program:
                keyed.restored_kinds = frozenset()  # its keys may be of several kinds, and of one by chance
    except BaseException:
        keyed.close()
        raise
    return keyed


def _rocks_settings(plan: Plan, target: StateStorage) -> RocksSettings | None:
    settings = RocksSettings.from_plan(plan.settings.rocksdb)
    if settings is not None and target.url.startswith(IN_DRIVER_MEMORY):
        return replace(settings, native=False)
    return settings


def _fill(
    keyed: KeyedState,
    restore: OperatorRestore,
    vertex: Vertex,
    subtask: Subtask,
    source: StateStorage,
    own_files: bool,
) -> None:
    count = vertex.max_parallelism
    first, last = key_group_range(subtask.index, vertex.parallelism, count)
    rehashed = Rehashed(first, last, count) if restore.old_hashes else None
    native = [handle for handle in restore.keyed if isinstance(handle, NativeHandle)]
    if isinstance(keyed, RocksKeyedState):
        keyed.restore_native(native, source, first, last, own_files, rehashed)
    else:
        for files in native:
            keyed.restore(read_native(files, source, first, last), rehashed)
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
