"""Snapshots in a storage: relative paths below a root, checksums, and errors that say what to do.

Errors: a file that is missing or shorter than asked for is a :class:`CorruptSnapshotError`; any other
trouble (network, permissions, full disk) is a plain :class:`SnapshotError`.  The difference matters: recovery
goes back to an older snapshot for the first, never for the second.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, CorruptSnapshotError, PenstockError, SnapshotError
from penstock.core.handles import Blob, digest, new_digest
from penstock.snapshot.paths import check_path
from penstock.storage.at_once import each
from penstock.storage.contract import MissingFileError, ShortFileError, Storage, first_line
from penstock.storage.memory import MemoryStorage
from penstock.storage.own_files import pieces, write_file
from penstock.storage.places import join, normalise, storage_of, url_of

Paths = list[str]
"""Paths below a store's root."""
_FULL = (errno.ENOSPC, errno.EDQUOT)

INLINE_LIMIT = 20 * 1024
"""State up to this size travels in the manifest instead of a file of its own."""

MAX_STATE_BYTES = 5 * 1024 * 1024
"""Default limit for the state of one subtask in the driver's memory."""


class SnapshotStore:
    """A tree of immutable files below a root, which is a path or URL; with ``files``, one that these know.

    The one hard demand is :meth:`create_if_absent`: of several callers, however timed, exactly one
    gets ``True``, and afterwards everybody reads that one's bytes; see :class:`Storage`, which keeps it.
    Thread-safe: tasks write while the driver publishes.
    """

    inline_limit: int = INLINE_LIMIT
    at_once: int = 1
    """How many files :meth:`fetch` reads side by side."""
    max_state_bytes: int | None = None
    """Largest state of one subtask that may be kept here, if there is a limit."""

    def __init__(self, root: str, files: Storage | None = None) -> None:
        self.root = root_of(root) if files is None else root
        """Where the files are, in the storage's own words."""
        self.files = storage_of(self.root, own=True) if files is None else files
        self.url = url_of(self.root)
        """The same for others; ``open_store(url)`` gives an equal store (driver memory excepted)."""

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file, durably, with all its bytes or not at all; ``False`` if it exists."""
        with self.using(path) as full:
            return self.files.create_new(full, data)

    def write(self, path: str) -> FileWriter:
        """Begin a file of any size; an existing one is replaced when the writer's block ends."""
        return FileWriter(self, check_path(path))

    def write_file(self, path: str, chunks: Iterable[bytes]) -> Blob:
        """Write a file durably, piece by piece."""
        with self.write(path) as writer:
            for chunk in chunks:
                writer.write(chunk)
        return writer.blob()

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes from ``offset`` on: ``length`` of them, or all."""
        if offset < 0 or (length is not None and length < 0):
            raise SnapshotError(f"cannot read {length} bytes from {offset} on")
        with self.using(path) as full:
            try:
                return self.files.read(full, offset, length)
            except ShortFileError:
                wanted = "" if length is None else f" {length} bytes"
                raise CorruptSnapshotError(
                    f"{self.url}/{path} is too short:{wanted} from {offset} on are not there"
                ) from None

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

    def store(self, path: str, file: Path) -> Blob:
        """Write a file durably with the bytes of a local one."""
        return self.write_file(path, pieces(file))

    def fetch(self, wanted: Sequence[tuple[Blob, Path]]) -> None:
        """Make local files of blobs, verified."""
        each(lambda item: write_file(item[1], self.read_blob(item[0])), wanted, self.at_once)

    def size(self, path: str) -> int | None:
        """Length of the file, ``None`` if there is none."""
        with self.using(path) as full:
            return self.files.size(full)

    def exists(self, path: str) -> bool:
        """Whether the file is there."""
        return self.size(path) is not None

    def list(self, prefix: str = "") -> Paths:
        """Paths of all files below the directory ``prefix``, at any depth, sorted."""
        with self.using(prefix, or_root=True) as full:
            try:
                return self._relative(self.files.list_files(full))
            except MissingFileError:
                return []

    def leftovers(self, prefix: str = "") -> Paths:
        """Files and directories right in the directory ``prefix`` that are being written or deleted, or were
        when somebody crashed; only some stores have any."""
        with self.using(prefix, or_root=True) as full:
            return self._relative(self.files.leftovers(full))

    def delete(self, path: str) -> None:
        """Remove a file, durably; a missing one is fine."""
        with self.using(path) as full:
            if self.files.remove(full):
                self.files.sync_directories([full])

    def delete_tree(self, prefix: str = "") -> None:
        """Remove a directory and everything in it; a missing one is fine."""
        with self.using(prefix, or_root=True) as full:
            self.files.remove_tree(full)

    def remove_empty(self) -> None:
        """Remove the directories that no file is in, the root among them."""
        self.files.remove_empty(self.root)

    def sub(self, path: str) -> Self:
        """The store whose root is the directory ``path`` of this one."""
        return self.at(join(self.root, check_path(path)))

    def at(self, root: str) -> Self:
        """The same storage at another root."""
        other = copy(self)
        other.root, other.url = root, url_of(root)
        return other

    @contextmanager
    def using(self, path: str, or_root: bool = False) -> Iterator[str]:
        """The whole path of a file or directory; trouble with it becomes an error that names it."""
        full = self.root if or_root and not path else join(self.root, check_path(path))
        try:
            yield full
        except MissingFileError:
            raise CorruptSnapshotError(f"{self.url}/{path} is missing") from None
        except PenstockError:
            raise
        except Exception as error:
            text = f"{self.url}/{path} cannot be used: {first_line(error)}"
            if isinstance(error, OSError) and error.errno in _FULL:
                raise SnapshotError(
                    f"{text}. Free some space, keep fewer snapshots (execution.checkpointing.num-retained), "
                    "or use another directory",
                    code=Code.STORE_FULL,
                ) from error
            raise SnapshotError(text) from error

    def _relative(self, found: Iterable[str]) -> Paths:
        return [path.removeprefix(self.root).lstrip("/") for path in found]


def root_of(url: str) -> str:
    """The absolute path or URL of a directory of snapshots."""
    if not url:
        raise ConfigError("the snapshot directory is empty: give a path or a URL such as file:///data/ckp")
    return normalise(url)


class MemoryStore(SnapshotStore):
    """Snapshots in the driver's memory: for experiments, used when no checkpoint directory is configured.

    They survive a failed attempt, not the driver.  State travels to the driver inside acknowledgements, so
    its size is limited.
    """

    def __init__(self, max_state_bytes: int = MAX_STATE_BYTES) -> None:
        super().__init__("driver-memory:", MemoryStorage())
        self.max_state_bytes = self.inline_limit = max_state_bytes


class FileWriter:
    """A file being written.  Use it as a context manager; leaving it by an exception discards it.

    The file is durable and complete when the block ends; until then nobody may look at it.
    """

    def __init__(self, store: SnapshotStore, path: str) -> None:
        self._store = store
        self._path = path
        self._length = 0
        self._hash = new_digest()
        with store.using(path) as full:
            self._open = store.files.writing(full)

    def write(self, data: bytes) -> int:
        """Append bytes."""
        most = self._store.max_state_bytes
        if most is not None and self._length + len(data) > most:
            raise SnapshotError(
                f"{self._path} is larger than {most} bytes, the limit for snapshots kept in the driver's "
                f"memory; set a checkpoint directory (execution.checkpointing.dir)",
                code=Code.STATE_TOO_LARGE,
            )
        with self._store.using(self._path):
            self._stream.write(data)
        self._hash.update(data)
        self._length += len(data)
        return len(data)

    def blob(self) -> Blob:
        """The whole file as a blob; ask after the block has ended."""
        return Blob(self._length, self._hash.hexdigest(), self._path)

    def __enter__(self) -> FileWriter:
        with self._store.using(self._path):
            self._stream = self._open.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._open.__exit__(kind, error, trace)
            return
        with self._store.using(self._path):
            self._open.__exit__(None, None, None)
