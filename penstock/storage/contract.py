"""What Penstock asks of a file system, and the errors of one that does not have what is asked for."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from io import SEEK_END
from typing import BinaryIO, NamedTuple

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, ConnectorError

TEMPORARY = ".tmp-"
"""Names that begin so are being written or deleted, or were left by a crash; no listing shows them."""


class FoundFile(NamedTuple):
    """A file and its size in bytes."""

    path: str
    size: int


class MissingFileError(ConnectorError):
    """There is nothing at a path."""

    code = Code.MISSING_FILE

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"there is no file or directory {path!r}. Check the spelling, and that every machine of the "
            "cluster sees it: a path on the driver's own disk is not on the executors'."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (MissingFileError, (self.path,))


class ShortFileError(ConnectorError):
    """A file ends before the bytes that were asked for."""


class NoFileSystemError(ConfigError, ConnectorError):
    """A URL of a kind that nobody knows, or whose package is not installed."""

    code = Code.NO_FILE_SYSTEM


class Storage(ABC):
    """A file system; any number of threads may use it at once.

    Paths are strings: absolute local paths, or URLs, as ``places.normalise`` makes them on the driver.

    The one hard demand is :meth:`create_new`: of several callers, however timed, exactly one gets ``True``,
    and afterwards everybody reads that one's bytes.  The classic mistake is to check and then write; and some
    stores take the call and overwrite, so whoever relies on it asks :meth:`creates_exclusively` first.

    A file is whole and durable, with its name, when :meth:`create_new` or the block of :meth:`writing` ends.
    Whoever writes many files at once takes the three steps apart: :meth:`create`, :meth:`seal` for the bytes,
    :meth:`sync_directories` for the names.

    What is not there is a :class:`MissingFileError`, what ends too early a :class:`ShortFileError`; any other
    trouble comes as the system's or the client's own exception.
    """

    @abstractmethod
    def find(self, path: str) -> list[FoundFile]:
        """All files below ``path``, at any depth, sorted; the file itself if it is one."""

    def list_files(self, path: str) -> list[str]:
        """The paths that :meth:`find` finds."""
        return [found.path for found in self.find(path)]

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""

    @abstractmethod
    def size(self, path: str) -> int | None:
        """The bytes of a file; ``None`` if there is none."""

    @abstractmethod
    def open_read(self, path: str) -> BinaryIO:
        """Open for reading bytes."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes from ``offset`` on: ``length`` of them, or all."""
        with self.open_read(path) as stream:
            end = end_of(path, stream.seek(0, SEEK_END), offset, length)
            stream.seek(offset)
            return bytes(stream.read(end - offset))

    @abstractmethod
    def create_new(self, path: str, data: bytes) -> bool:
        """Create a whole, durable file in one step unless the name is taken; whether it was us."""

    @abstractmethod
    def creates_exclusively(self, directory: str) -> bool:
        """Whether :meth:`create_new` can be relied on there, by trying; makes the directory."""

    @abstractmethod
    def writing(self, path: str) -> AbstractContextManager[BinaryIO]:
        """A file of any size, which may replace another; discarded if the block is left by an exception.

        Nobody may look for the file before the block has ended.
        """

    @abstractmethod
    def create(self, path: str) -> BinaryIO:
        """Open a new file for writing bytes, with its directories."""

    @abstractmethod
    def seal(self, stream: BinaryIO) -> None:
        """Close a file that ``create`` opened, and make its bytes durable."""

    @abstractmethod
    def move(self, source: str, target: str) -> None:
        """Give a sealed file another name in the same directory, in one step where the store can."""

    @abstractmethod
    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, if missing."""

    def make_own_directory(self, path: str) -> None:
        """The same for what is nobody else's business: rows on their way through files."""
        self.make_directory(path)

    def sync_directories(self, paths: Iterable[str]) -> None:  # noqa: B027 - only some stores need it
        """Make the names in the directories of these files durable."""

    @abstractmethod
    def remove(self, path: str) -> bool:
        """Delete a file; ``False`` if it was not there, where the store can tell."""

    @abstractmethod
    def remove_tree(self, path: str) -> None:
        """Delete a directory and everything in it; it need not exist."""

    def remove_empty(self, path: str) -> None:  # noqa: B027 - only some stores have directories
        """Delete the directories from ``path`` on that no file is in."""

    def leftovers(self, path: str) -> list[str]:
        """Files and directories right in ``path`` with a temporary name; only some stores leave any."""
        return []


def end_of(path: str, size: int | None, offset: int, length: int | None) -> int:
    """Where a range of a file ends that has ``size`` bytes; an error if it is not all there."""
    if size is None:
        raise MissingFileError(path)
    end = size if length is None else offset + length
    if offset > size or end > size:
        raise ShortFileError(f"{path!r} has only {size} bytes")
    return end


def temporary_name() -> str:
    """A name that nobody uses."""
    return f"{TEMPORARY}{uuid.uuid4().hex}"


def is_temporary(path: str) -> bool:
    """Whether a relative path is below a temporary name, or has one."""
    return any(part.startswith(TEMPORARY) for part in path.split("/"))


def first_line(error: BaseException) -> str:
    """What an exception of the system or of a client says, in short."""
    shown = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    return str(shown).splitlines()[0][:200]
