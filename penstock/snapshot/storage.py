"""The storage contract of snapshots; implementations are in ``store``, ``memory`` and ``remote``.

Paths are relative POSIX strings below the store's root.  Errors: a file that is missing or shorter
than asked for is a :class:`CorruptSnapshotError`; any other trouble (network, permissions, full disk)
is a plain :class:`SnapshotError`.  The difference matters: recovery goes back to an older snapshot for
the first, never for the second.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import TracebackType

from penstock.core.errors import CorruptSnapshotError, SnapshotError
from penstock.core.handles import DIGEST_SIZE, Blob, digest
from penstock.snapshot.paths import check_path

Paths = list[str]
"""Paths below a store's root."""

INLINE_LIMIT = 20 * 1024
"""State up to this size travels in the manifest instead of a file of its own."""


class FileWriter(ABC):
    """A file being written.  Use it as a context manager; leaving it by an exception discards it.

    The file is durable and complete when the block ends; until then nobody may look at it.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._length = 0
        self._hash = hashlib.blake2b(digest_size=DIGEST_SIZE)

    def write(self, data: bytes) -> int:
        """Append bytes."""
        self._append(data)
        self._hash.update(data)
        self._length += len(data)
        return len(data)

    def blob(self) -> Blob:
        """The whole file as a blob; ask after the block has ended."""
        return Blob(self._length, self._hash.hexdigest(), self._path)

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._commit()
        else:
            self._discard()

    @abstractmethod
    def _append(self, data: bytes) -> None: ...

    @abstractmethod
    def _commit(self) -> None: ...

    @abstractmethod
    def _discard(self) -> None: ...


class SnapshotStore(ABC):
    """A tree of immutable files.

    The one hard demand is :meth:`create_if_absent`: of several callers, however timed, exactly one
    gets ``True``, and afterwards everybody reads that one's bytes.  The classic mistake is to check
    and then write.  Thread-safe: tasks write while the driver publishes.
    """

    url: str
    """Where the root is; ``open_store(url)`` gives an equal store (driver memory excepted)."""

    inline_limit: int = INLINE_LIMIT
    max_state_bytes: int | None = None
    """Largest state of one subtask that may be kept here, if there is a limit."""

    @abstractmethod
    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file, durably, with all its bytes or not at all; ``False`` if it exists."""

    @abstractmethod
    def write(self, path: str) -> FileWriter:
        """Begin a file of any size; an existing one is replaced when the writer's block ends."""

    @abstractmethod
    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes from ``offset`` on: ``length`` of them, or all."""

    @abstractmethod
    def size(self, path: str) -> int | None:
        """Length of the file, ``None`` if there is none."""

    @abstractmethod
    def list(self, prefix: str = "") -> Paths:
        """Paths of all files below the directory ``prefix``, at any depth, sorted."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Remove a file, durably; a missing one is fine."""

    @abstractmethod
    def delete_tree(self, prefix: str = "") -> None:
        """Remove a directory and everything in it; a missing one is fine."""

    @abstractmethod
    def sub(self, path: str) -> SnapshotStore:
        """The store whose root is the directory ``path`` of this one."""

    def remove_empty(self) -> None:  # noqa: B027 - only some stores have directories
        """Remove the directories that no file is in, the root among them."""

    def leftovers(self, prefix: str = "") -> Paths:
        """Files and directories right in the directory ``prefix`` that are being written or deleted, or were
        when somebody crashed; only some stores have any."""
        return []

    def free_check(self, needed: int) -> None:  # noqa: B027 - only some stores can know
        """Raise a :class:`SnapshotError` if it is known that ``needed`` bytes do not fit."""

    def exists(self, path: str) -> bool:
        """Whether the file is there."""
        return self.size(path) is not None

    def write_file(self, path: str, chunks: Iterable[bytes]) -> Blob:
        """Write a file durably, piece by piece."""
        with self.write(path) as writer:
            for chunk in chunks:
                writer.write(chunk)
        return writer.blob()

    def read_blob(self, blob: Blob) -> bytes:
        """The bytes of a blob, verified against its length and checksum."""
        if blob.inline is not None:
            data = blob.inline
            name = "an inline blob"
        else:
            assert blob.path is not None
            data = self.read(check_path(blob.path), blob.offset, blob.length)
            name = f"{self.url}/{blob.path}"
        if len(data) != blob.length or digest(data) != blob.checksum:
            raise CorruptSnapshotError(
                f"{name} is damaged: its {blob.length} bytes from {blob.offset} on do not have checksum "
                f"{blob.checksum}. Restore from another snapshot, or bring the file back from a copy"
            )
        return data


def missing(url: str, path: str) -> CorruptSnapshotError:
    """The error for a file that is not there."""
    return CorruptSnapshotError(f"{url}/{path} is missing")


def too_short(url: str, path: str, offset: int, length: int | None) -> CorruptSnapshotError:
    """The error for a file that ends too early."""
    wanted = "" if length is None else f" {length} bytes"
    return CorruptSnapshotError(f"{url}/{path} is too short:{wanted} from {offset} on are not there")


def part_of(data: bytes | None, url: str, path: str, offset: int, length: int | None) -> bytes:
    """What ``read`` returns of a file with these bytes; ``None`` for one that is not there."""
    if data is None:
        raise missing(url, path)
    end = len(data) if length is None else offset + length
    if offset > len(data) or end > len(data):
        raise too_short(url, path, offset, length)
    return data[offset:end]


def check_range(offset: int, length: int | None) -> None:
    """Refuse negative ranges."""
    if offset < 0 or (length is not None and length < 0):
        raise SnapshotError(f"cannot read {length} bytes from {offset} on")
