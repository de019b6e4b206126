"""From what the subtasks acknowledged to the manifest of a snapshot.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.coordinator.schedule import PendingSnapshot
from penstock.core.handles import Blob, Committable, OperatorSnapshot
from penstock.core.ids import Generation, OperatorId, SubtaskIndex, WallMs
from penstock.core.key_kinds import Kind, is_one_kind
from penstock.graph.plan import Plan
from penstock.snapshot.manifest import Manifest, OperatorEntry, Origin, SubtaskEntry


class ManifestMaker:
    """Knows the job; makes its manifests."""

    def __init__(self, plan: Plan, job_id: str, versions: dict[str, str]) -> None:
        self.generation = Generation(0)
        self.origin: Origin | None = None
        """The snapshot the job was started from."""
        self.plan = plan
        self._job_id = job_id
        self._versions = versions

    def make(self, pending: PendingSnapshot, now: WallMs, carried: tuple[Committable, ...]) -> Manifest:
        """The manifest of a snapshot that all subtasks have acknowledged.

        ``carried`` are committables of snapshots before it that may not be committed yet.
        """
        parts = pending.snapshots()
        return Manifest(
            job_id=self._job_id,
            job_name=self.plan.job_name,
            epoch=pending.epoch,
            generation=self.generation,
            kind=pending.kind,
            created_ms=now,
            operators=self._entries(pending),
            enumerators={key: Blob.of(state) for key, state in pending.enumerators.items()},
            committables=tuple(dict.fromkeys(carried + pending.committables())),
            penstock_version=self._versions.get("penstock", ""),
            spark_version=self._versions.get("spark"),
            channels=tuple(handle for part in parts for handle in part.channels),
            origin=self.origin,
        )

    def _entries(self, pending: PendingSnapshot) -> tuple[OperatorEntry, ...]:
        states: dict[tuple[OperatorId, int], OperatorSnapshot] = {}
        finished: dict[tuple[str, int], bool] = {}
        for part in pending.snapshots():
            finished[part.subtask.vertex, part.subtask.index] = part.finished
            for state in part.operators:
                states[state.operator_id, part.subtask.index] = state
        entries = []
        for vertex, planned in self.plan.operators():
            nothing = OperatorSnapshot(planned.operator_id)
            found = [states.get((planned.operator_id, index), nothing) for index in range(vertex.parallelism)]
            subtasks = tuple(
                SubtaskEntry(
                    SubtaskIndex(index),
                    replace(state, key_kinds=()),
                    finished.get((vertex.id, index), False),
                )
                for index, state in enumerate(found)
            )
            entries.append(
                OperatorEntry(
                    planned.operator_id,
                    planned.node.uid,
                    planned.node.name,
                    vertex.id,
                    vertex.parallelism,
                    vertex.max_parallelism,
                    subtasks,
                    _several(kind for state in found for kind in state.key_kinds),
                )
            )
        return tuple(entries)


def _several(kinds: Iterable[Kind]) -> tuple[Kind, ...]:
    """The different kinds, if keys of some cannot be equal to keys of others.

    One kind says nothing: keys that have state show it, and where none has, another type does no harm.
    """
    found = frozenset(kinds)
    return () if is_one_kind(found) else tuple(sorted(found, key=repr))
