"""Where the bytes of a snapshot are: the small descriptions that travel instead of the state itself.

A task writes state, makes handles and sends them with its acknowledgement; the coordinator gathers
them into a manifest; on restore it deals them out again.  Handles are frozen and picklable.

Invariant: ``checksum`` is :func:`digest` of exactly the ``length`` bytes that the blob describes, so
whoever reads a blob can tell whether they are still the bytes that were written.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from penstock.core.ids import Epoch, OperatorId, Subtask, SubtaskIndex
from penstock.core.key_kinds import Kind

DIGEST_SIZE = 16
"""Bytes of a checksum; its text form is twice as long."""


def new_digest(data: bytes | memoryview = b"") -> hashlib.blake2b:
    """The beginning of a checksum, to be updated with more bytes."""
    return hashlib.blake2b(data, digest_size=DIGEST_SIZE)


def digest(data: bytes | memoryview) -> str:
    """The checksum used everywhere in snapshots: hexadecimal BLAKE2b of 16 bytes."""
    return new_digest(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes of a snapshot: either carried along (``inline``) or a range of a stored file (``path``).

    ``path`` is relative to the root of the snapshot: the job's directory for a checkpoint, the
    savepoint's own directory for a savepoint.
    """

    length: int
    checksum: str
    path: str | None = None
    offset: int = 0
    inline: bytes | None = None

    def __post_init__(self) -> None:
        if (self.path is None) == (self.inline is None):
            raise ValueError("a blob is either inline or a range of a file: give one of path and inline")

    @property
    def place(self) -> str:
        """For people: the file it is in."""
        return "the manifest" if self.path is None else self.path

    @classmethod
    def of(cls, data: bytes) -> Blob:
        """The blob that carries ``data`` itself."""
        return cls(len(data), digest(data), inline=data)


@dataclass(frozen=True, slots=True)
class KeyedHandle:
    """Keyed state of the key groups ``key_groups[0]`` to ``key_groups[1]``, both included."""

    blob: Blob
    key_groups: tuple[int, int]
    pickled: bool
    """Whether some values are pickled Python objects: not to be loaded from untrusted places."""

    def overlaps(self, first: int, last: int) -> bool:
        """Whether any key group from ``first`` to ``last`` may be in here."""
        return self.key_groups[0] <= last and first <= self.key_groups[1]


@dataclass(frozen=True, slots=True)
class NativeHandle:
    """Keyed state of some key groups as a backend's own files, which only that backend can open.

    Only checkpoints hold such handles; savepoints are written in blocks that every backend reads.
    """

    backend: str
    files: tuple[tuple[str, Blob], ...]
    """Name of a file in the backend's directory, and its bytes, in order of names."""
    key_groups: tuple[int, int]
    pickled: bool
    """Whether some values are pickled Python objects: not to be loaded from untrusted places."""

    def overlaps(self, first: int, last: int) -> bool:
        """Whether any key group from ``first`` to ``last`` may be in here."""
        return self.key_groups[0] <= last and first <= self.key_groups[1]

    @property
    def length(self) -> int:
        """Bytes of all files."""
        return sum(blob.length for _, blob in self.files)


KeyedPiece = KeyedHandle | NativeHandle
"""A piece of keyed state in a snapshot."""


def keyed_blobs(handle: KeyedPiece) -> tuple[Blob, ...]:
    """Everything a piece of keyed state is made of."""
    return (handle.blob,) if isinstance(handle, KeyedHandle) else tuple(blob for _, blob in handle.files)


@dataclass(frozen=True, slots=True)
class ChannelHandle:
    """Elements that an unaligned barrier overtook in one channel, in their order.

    They belong to the receiving side: a restored job hands them to the receivers of the edge before
    anything new.
    """

    edge: str
    """Name of the exchange, the same at any parallelism (see ``penstock.graph.plan.link_name``)."""
    sender: SubtaskIndex
    receiver: SubtaskIndex
    blob: Blob


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """State of one operator on one subtask."""

    operator_id: OperatorId
    keyed: tuple[KeyedPiece, ...] = ()
    lists: Blob | None = None
    """Operator state: a document, a dict of state name to (mode, items)."""
    key_kinds: tuple[Kind, ...] = ()
    """The kinds of keys that the operator has met, whether they have state or not."""

    def blobs(self) -> tuple[Blob, ...]:
        """Everything this state is made of."""
        keyed = tuple(blob for handle in self.keyed for blob in keyed_blobs(handle))
        return keyed if self.lists is None else (*keyed, self.lists)


@dataclass(frozen=True, slots=True)
class SubtaskSnapshot:
    """A subtask's part of a snapshot; operators without state are left out."""

    subtask: Subtask
    operators: tuple[OperatorSnapshot, ...]
    finished: bool
    """Whether the subtask had reached the end of its input."""
    channels: tuple[ChannelHandle, ...] = ()
    """What the barrier overtook on the way in; empty for aligned snapshots."""
    written: int = 0
    """Bytes that were stored for it: fewer than it has if files of earlier snapshots are part of it."""

    @property
    def persisted(self) -> int:
        """Bytes of records in flight."""
        return sum(handle.blob.length for handle in self.channels)


@dataclass(frozen=True, slots=True)
class Committable:
    """Something a sink prepared in ``epoch``: committed once that snapshot is published."""

    operator_id: OperatorId
    epoch: Epoch
    subtask_index: SubtaskIndex
    payload: bytes
    """The sink's own description, a document."""
