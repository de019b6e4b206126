"""The manifest: everything a snapshot is, in one file.  The written form is in ``docs/format.md``.

Pure: bytes in, :class:`Manifest` out, and back.  The encoding is canonical (equal manifests have equal
bytes) and carries its own checksum.  Reading is strict and lives in :mod:`penstock.snapshot.decode`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from penstock.core.error_codes import Code
from penstock.core.errors import SnapshotError
from penstock.core.handles import (
    Blob,
    ChannelHandle,
    Committable,
    KeyedHandle,
    KeyedPiece,
    OperatorSnapshot,
    digest,
)
from penstock.core.ids import Epoch, Generation, OperatorId, SubtaskIndex, VertexId, WallMs
from penstock.core.key_kinds import Kind
from penstock.core.signals import SnapshotKind
from penstock.snapshot.strict_json import canonical, encode_data

FORMAT_VERSION = 4
"""The manifest format this Penstock writes, and the newest it reads; it reads all older ones too."""


@dataclass(frozen=True, slots=True)
class SubtaskEntry:
    """State of an operator on one of its subtasks."""

    index: SubtaskIndex
    state: OperatorSnapshot
    finished: bool


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """An operator as it was when the snapshot was taken."""

    operator_id: OperatorId
    uid: str | None
    name: str
    vertex: VertexId
    parallelism: int
    max_parallelism: int
    subtasks: tuple[SubtaskEntry, ...] = ()
    key_kinds: tuple[Kind, ...] = ()
    """The kinds of keys that its subtasks have met, if there are several; since format 4."""

    @property
    def is_stateful(self) -> bool:
        """Whether any subtask had state."""
        return any(entry.state.blobs() for entry in self.subtasks)


@dataclass(frozen=True, slots=True)
class Origin:
    """The snapshot from outside that a line of checkpoints began with.

    A driver started with the same ``-s`` again sees by it that the job has long gone on from there.
    """

    location: str
    """URL of its manifest, as it was named then."""
    checksum: str
    """Of the bytes of its manifest."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A complete snapshot.  It is true only once the journal says so (checkpoints)."""

    job_id: str
    job_name: str
    epoch: Epoch
    generation: Generation
    kind: SnapshotKind
    created_ms: WallMs
    """When the last subtask had acknowledged it."""
    operators: tuple[OperatorEntry, ...]
    enumerators: Mapping[OperatorId, Blob]
    committables: tuple[Committable, ...]
    penstock_version: str
    spark_version: str | None = None
    format_version: int = FORMAT_VERSION
    channels: tuple[ChannelHandle, ...] = ()
    """What an unaligned barrier overtook; since format 2."""
    origin: Origin | None = None
    """What the job was started from, if that was not its own checkpoint; since format 2."""

    @property
    def has_old_hashes(self) -> bool:
        """Whether keys of some kinds are in other key groups than they have today; see docs/format.md."""
        return self.format_version < 3

    def operator(self, operator_id: OperatorId) -> OperatorEntry | None:
        """The entry of this operator, if it has one."""
        return next((entry for entry in self.operators if entry.operator_id == operator_id), None)

    def blobs(self) -> Iterator[Blob]:
        """All bytes the snapshot consists of, apart from the manifest and its committables."""
        for operator in self.operators:
            for entry in operator.subtasks:
                yield from entry.state.blobs()
        yield from self.enumerators.values()
        for channel in self.channels:
            yield channel.blob

    def files(self) -> dict[str, int]:
        """Every referenced file, and how long it must at least be."""
        needed: dict[str, int] = {}
        for blob in self.blobs():
            if blob.path is not None:
                needed[blob.path] = max(needed.get(blob.path, 0), blob.offset + blob.length)
        return needed

    def to_json(self) -> bytes:
        """The canonical bytes, checksum included."""
        return sign(_document(self))


def sign(document: dict[str, Any]) -> bytes:
    """Canonical bytes of a document with the checksum of the rest of it added."""
    body = {name: value for name, value in document.items() if name != "checksum"}
    return canonical({**body, "checksum": digest(canonical(body))})


def _document(manifest: Manifest) -> dict[str, Any]:
    document = {
        "format_version": manifest.format_version,
        "penstock_version": manifest.penstock_version,
        "spark_version": manifest.spark_version,
        "job_id": manifest.job_id,
        "job_name": manifest.job_name,
        "epoch": manifest.epoch,
        "generation": manifest.generation,
        "kind": manifest.kind.value,
        "created_ms": manifest.created_ms,
        "operators": [_operator(entry, manifest.format_version) for entry in manifest.operators],
        "enumerators": {name: _blob(blob) for name, blob in manifest.enumerators.items()},
        "committables": [_committable(item) for item in manifest.committables],
    }
    if manifest.format_version >= 2:
        document["channels"] = [_channel(handle) for handle in manifest.channels]
        document["origin"] = None if manifest.origin is None else asdict(manifest.origin)
    return document


def _operator(entry: OperatorEntry, version: int) -> dict[str, Any]:
    document: dict[str, Any] = {
        "operator_id": entry.operator_id,
        "uid": entry.uid,
        "name": entry.name,
        "vertex": entry.vertex,
        "parallelism": entry.parallelism,
        "max_parallelism": entry.max_parallelism,
        "subtasks": [_subtask(subtask) for subtask in entry.subtasks],
    }
    if version >= 4:
        document["key_kinds"] = entry.key_kinds
    return document


def _subtask(entry: SubtaskEntry) -> dict[str, Any]:
    return {
        "index": entry.index,
        "finished": entry.finished,
        "keyed": [_keyed(handle) for handle in entry.state.keyed],
        "lists": None if entry.state.lists is None else _blob(entry.state.lists),
    }


def _keyed(handle: KeyedPiece) -> dict[str, Any]:
    known: dict[str, Any] = {"key_groups": list(handle.key_groups), "pickled": handle.pickled}
    if isinstance(handle, KeyedHandle):
        return {**known, "blob": _blob(handle.blob)}
    files = {name: _blob(blob) for name, blob in handle.files}
    return {**known, "backend": handle.backend, "files": files}


def _channel(handle: ChannelHandle) -> dict[str, Any]:
    return {
        "edge": handle.edge,
        "sender": handle.sender,
        "receiver": handle.receiver,
        "blob": _blob(handle.blob),
    }


def _blob(blob: Blob) -> dict[str, Any]:
    known: dict[str, Any] = {"length": blob.length, "checksum": blob.checksum}
    if blob.inline is not None:
        return {**known, "inline": encode_data(blob.inline)}
    return {**known, "path": blob.path, "offset": blob.offset}


def _committable(item: Committable) -> dict[str, Any]:
    return {
        "operator_id": item.operator_id,
        "epoch": item.epoch,
        "subtask_index": item.subtask_index,
        "payload": encode_data(item.payload),
    }


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
                "(execution.checkpointing.dir)",
                code=Code.STATE_TOO_LARGE,
            )
