"""Manifests for tests."""

from __future__ import annotations

from penstock.core.handles import Blob, Committable, KeyedHandle, OperatorSnapshot
from penstock.core.ids import Epoch, Generation, OperatorId, SubtaskIndex, VertexId
from penstock.core.signals import SnapshotKind
from penstock.snapshot.manifest import Manifest, OperatorEntry, SubtaskEntry
from penstock.snapshot.storage import SnapshotStore

COUNT = OperatorId("op-count")
SINK = OperatorId("op-sink")
SOURCE = OperatorId("op-source")


def make_manifest(
    epoch: int,
    generation: int = 1,
    blobs: tuple[Blob, ...] = (),
    kind: SnapshotKind = SnapshotKind.CHECKPOINT,
    parallelism: int = 2,
) -> Manifest:
    """A small manifest; ``blobs`` become the keyed state of the counting operator."""
    ranges = [(0, 63), (64, 127)]
    subtasks = tuple(
        SubtaskEntry(
            SubtaskIndex(index),
            OperatorSnapshot(
                COUNT,
                tuple(KeyedHandle(blob, ranges[index % 2], False) for blob in blobs[index::parallelism]),
                Blob.of(b"lists-%d" % index),
            ),
            False,
        )
        for index in range(parallelism)
    )
    return Manifest(
        job_id="job",
        job_name="a job",
        epoch=Epoch(epoch),
        generation=Generation(generation),
        kind=kind,
        created_ms=1_700_000_000_000,
        operators=(OperatorEntry(COUNT, "count", "Count", VertexId("v1"), parallelism, 128, subtasks),),
        enumerators={SOURCE: Blob.of(b"splits")},
        committables=(Committable(SINK, Epoch(epoch), SubtaskIndex(0), b"file-1"),),
        penstock_version="0.1.0",
        spark_version="4.3.0",
    )


def store_state(root: SnapshotStore, epoch: int, generation: int = 1, name: str = "v1-0") -> Blob:
    """Write a state file of a checkpoint and give its blob."""
    return root.write_file(f"chk-{epoch}/{name}-{generation}.state", [b"state ", b"of %d" % epoch])
