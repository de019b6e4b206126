"""From a manifest to what each new subtask gets, at whatever parallelism the plan has now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.coordinator.restored import Restored
from penstock.core.documents import load
from penstock.core.errors import naming
from penstock.core.handles import Blob, ChannelHandle
from penstock.core.ids import OperatorId, SlotId, Subtask, SubtaskIndex
from penstock.core.messages import OperatorRestore
from penstock.graph.overtaking import crossings, takers
from penstock.graph.plan import Plan, Vertex
from penstock.snapshot.manifest import Manifest
from penstock.snapshot.permit import CommitPermit
from penstock.snapshot.recovery import Found
from penstock.snapshot.state_assignment import assign, match, redistribute, resolve_max_parallelism
from penstock.snapshot.storage import SnapshotStore


def adopt_max_parallelism(plan: Plan, manifest: Manifest) -> Plan:
    """The plan with the max parallelism that the snapshot's keyed state was written with."""

    def adopted(vertex: Vertex) -> Vertex:
        head = vertex.head
        entry = manifest.operator(head.operator_id)
        keyed = entry is not None and any(subtask.state.keyed for subtask in entry.subtasks)
        explicit = head.node.max_parallelism is not None or plan.settings.max_parallelism_set
        resolved = resolve_max_parallelism(
            vertex.name,
            stored=entry.max_parallelism if entry is not None and keyed else None,
            planned=vertex.max_parallelism,
            explicit=explicit,
            parallelism=vertex.parallelism,
        )
        return replace(vertex, max_parallelism=resolved)

    return replace(plan, vertices=tuple(map(adopted, plan.vertices)))


def check_restorable(plan: Plan, manifest: Manifest, allow_non_restored: bool) -> None:
    """Raise if the plan cannot take the snapshot's state.  Reads nothing."""
    names = {planned.operator_id: planned.node.name for _, planned in plan.operators()}
    match(manifest, names, allow_non_restored)
    for vertex, planned in plan.operators():
        assign(manifest, planned.operator_id, vertex.parallelism, vertex.max_parallelism)
    _records_in_flight(plan, manifest)


def restored_job(
    plan: Plan,
    found: Found,
    store: SnapshotStore,
    permit: CommitPermit,
    allow_non_restored: bool,
    same_program: bool = False,
) -> Restored:
    """Deal the state of a snapshot to the subtasks of the plan."""
    manifest = found.manifest
    names = {planned.operator_id: planned.node.name for _, planned in plan.operators()}
    match(manifest, names, allow_non_restored)
    subtasks: dict[Subtask, dict[OperatorId, OperatorRestore]] = {}
    for vertex, planned in plan.operators():
        assignments = assign(manifest, planned.operator_id, vertex.parallelism, vertex.max_parallelism)
        lists: list[dict[str, Any]] = [
            {} if blob is None else _loaded(found, store, blob)
            for blob in (assignments[0].lists if assignments else ())
        ]
        entry = manifest.operator(planned.operator_id)
        kinds = () if entry is None else entry.key_kinds
        shares = redistribute(lists, vertex.parallelism) if lists else [{}] * vertex.parallelism
        for index, (assignment, share) in enumerate(zip(assignments, shares, strict=True)):
            if assignment.keyed or share or kinds:
                subtask = Subtask(vertex.id, SubtaskIndex(index))
                old_hashes = manifest.has_old_hashes
                restore = OperatorRestore(assignment.keyed, share, old_hashes, same_program, kinds)
                subtasks.setdefault(subtask, {})[planned.operator_id] = restore
    committables = tuple(item for item in manifest.committables if item.operator_id in names)
    enumerators = {key: blob for key, blob in manifest.enumerators.items() if key in names}
    # Loaded where they are used; here only to refuse the snapshot by its name, before anything is built.
    for blob in (*enumerators.values(), *(Blob.of(item.payload) for item in committables)):
        _loaded(found, store, blob)
    return Restored(
        manifest.epoch,
        found.location.root,
        committables,
        {key: store.read_blob(blob) for key, blob in enumerators.items()},
        subtasks,
        permit,
        channels=_records_in_flight(plan, manifest),
    )


def _loaded(found: Found, store: SnapshotStore, blob: Blob) -> Any:
    place = found.location if blob.path is None else f"{found.location.root}/{blob.path}"
    with naming(str(place)):
        return load(store.read_blob(blob))


def _records_in_flight(plan: Plan, manifest: Manifest) -> dict[SlotId, tuple[ChannelHandle, ...]]:
    """What each slot must read to find its share; refuses records of an exchange that is gone."""
    ways = crossings(plan, manifest.channels)
    found: dict[SlotId, list[ChannelHandle]] = {}
    for handle in manifest.channels:
        crossing = ways[handle.edge]
        entry = manifest.operator(crossing.target.operator_id)
        before = None
        if entry is not None and not manifest.has_old_hashes:
            before = entry.parallelism, entry.max_parallelism
        for index in takers(crossing, handle, before):
            found.setdefault(SlotId(index), []).append(handle)
    return {slot: tuple(handles) for slot, handles in found.items()}
