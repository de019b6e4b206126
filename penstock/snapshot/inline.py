"""State that travels inside manifests, and how much of it the driver's memory takes.  Pure."""

from __future__ import annotations

from collections import Counter

from penstock.core.errors import SnapshotError
from penstock.core.ids import SubtaskIndex, VertexId
from penstock.snapshot.manifest import Manifest


def check_inline(manifest: Manifest, limit: int | None) -> None:
    """Refuse a manifest with a subtask that keeps more than ``limit`` bytes in it."""
    if limit is None:
        return
    sizes: Counter[tuple[VertexId, SubtaskIndex]] = Counter()
    names: dict[VertexId, list[str]] = {}
    for operator in manifest.operators:
        names.setdefault(operator.vertex, []).append(operator.name)
        for entry in operator.subtasks:
            inline = sum(blob.length for blob in entry.state.blobs() if blob.inline is not None)
            sizes[operator.vertex, entry.index] += inline
    for (vertex, index), size in sizes.items():
        if size > limit:
            raise SnapshotError(
                f"the state of step {' -> '.join(names[vertex])!r}, subtask {index}, has {size} bytes, the "
                f"limit for snapshots kept in the driver's memory is {limit}; set a checkpoint directory "
                "(execution.checkpointing.dir)"
            )
