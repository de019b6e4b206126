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

DIGEST_SIZE = 16
"""Bytes of a checksum; its text form is twice as long."""


def digest(data: bytes | memoryview) -> str:
    """The checksum used everywhere in snapshots: hexadecimal BLAKE2b of 16 bytes."""
    return hashlib.blake2b(data, digest_size=DIGEST_SIZE).hexdigest()


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
class OperatorSnapshot:
    """State of one operator on one subtask."""

    operator_id: OperatorId
    keyed: tuple[KeyedHandle, ...] = ()
    lists: Blob | None = None
    """Operator state: a pickled dict of state name to (mode, items)."""

    def blobs(self) -> tuple[Blob, ...]:
        """Everything this state is made of."""
        keyed = tuple(handle.blob for handle in self.keyed)
        return keyed if self.lists is None else (*keyed, self.lists)


@dataclass(frozen=True, slots=True)
class SubtaskSnapshot:
    """A subtask's part of a snapshot; operators without state are left out."""

    subtask: Subtask
    operators: tuple[OperatorSnapshot, ...]
    finished: bool
    """Whether the subtask had reached the end of its input."""


@dataclass(frozen=True, slots=True)
class Committable:
    """Something a sink prepared in ``epoch``: committed once that snapshot is published."""

    operator_id: OperatorId
    epoch: Epoch
    subtask_index: SubtaskIndex
    payload: bytes
    """The sink's own description, pickled."""
