"""What the file connectors ask of a file system, locally and through fsspec.

Paths are strings: absolute local paths, or URLs.  ``normalise`` makes them so on the driver, because a
relative path would mean something else in a slot.  ``file:`` URLs are local paths; every other scheme
(``s3:``, ``webhdfs:``, ``memory:``, ...) goes to the fsspec package that handles it.

Durability is the local file system's own work (fsync of the file, then of its directory); remote
stores promise it when a file is closed or moved.
"""

from __future__ import annotations

import errno
import os
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from penstock.core.errors import ConnectorError, PositionGoneError
from penstock.core.exclusive import create_new, is_exclusive, rename_new, renames_onto_free_names
from penstock.core.own_files import make_directory, sync_path

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]*://")


class FoundFile(NamedTuple):
    """A file and its size in bytes."""

    path: str
    size: int


class Storage(ABC):
    """A file system, as far as sources and sinks need one."""

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
        """The bytes of a file; ``None`` if it is not there."""

    @abstractmethod
    def open_read(self, path: str) -> BinaryIO:
        """Open for reading bytes."""

    @abstractmethod
    def create(self, path: str) -> BinaryIO:
        """Open a new file for writing bytes, with its directories."""

    @abstractmethod
    def create_new(self, path: str, data: bytes) -> bool:
        """Create a whole, durable file in one step unless the name is taken; whether it was us."""

    @abstractmethod
    def creates_exclusively(self, directory: str) -> bool:
        """Whether :meth:`create_new` can be relied on there, by trying."""

    @abstractmethod
    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, if missing."""

    def make_own_directory(self, path: str) -> None:
        """The same for what is nobody else's business: rows on their way through files."""
        self.make_directory(path)

    @abstractmethod
    def seal(self, stream: BinaryIO) -> None:
        """Close a file that ``create`` opened, and make its bytes durable."""

    @abstractmethod
    def move(self, source: str, target: str) -> None:
        """Give a sealed file another name in the same directory, in one step where the store can."""

    @abstractmethod
    def sync_directories(self, paths: Iterable[str]) -> None:
        """Make the names in the directories of these files durable."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Delete a file; it need not exist."""


class LocalStorage(Storage):
    """The operating system's files."""

    def find(self, path: str) -> list[FoundFile]:
        root = Path(path)
        if root.is_file():
            return [FoundFile(path, root.stat().st_size)]
        if not root.is_dir():
            raise missing(path)
        files = (Path(folder) / name for folder, _, names in os.walk(root) for name in names)
        return sorted(FoundFile(str(file), size) for file in files if (size := _size(file)) is not None)

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def size(self, path: str) -> int | None:
        return _size(Path(path))

    def open_read(self, path: str) -> BinaryIO:
        try:
            # Arrow's own file: Parquet decoding then needs no Python call per read.
            stream: BinaryIO = pa.OSFile(path, "rb")
        except FileNotFoundError:
            raise missing(path) from None
        return stream

    def create(self, path: str) -> BinaryIO:
        self.make_directory(str(Path(path).parent))
        return Path(path).open("xb")

    def create_new(self, path: str, data: bytes) -> bool:
        temporary = Path(path).with_name(f".{Path(path).name}.{uuid.uuid4().hex}.tmp")
        stream = self.create(str(temporary))
        try:
            stream.write(data)
            self.seal(stream)
            Path(path).hardlink_to(temporary)
        except FileExistsError:
            return False
        finally:
            stream.close()
            temporary.unlink()
        self.sync_directories([path])
        return True

    def creates_exclusively(self, directory: str) -> bool:
        probe = join(directory, f".penstock-probe-{uuid.uuid4().hex}")
        try:
            return self.create_new(probe, b"1") and not self.create_new(probe, b"2")
        except OSError as e:
            if e.errno not in _NO_LINKS:
                raise
            return False
        finally:
            self.remove(probe)

    def make_directory(self, path: str) -> None:
        directory = Path(path)
        if directory.is_dir():
            return
        self.make_directory(str(directory.parent))
        directory.mkdir(exist_ok=True)
        sync_path(directory.parent)

    def make_own_directory(self, path: str) -> None:
        for made in make_directory(Path(path)):
            sync_path(made.parent)

    def seal(self, stream: BinaryIO) -> None:
        stream.flush()
        os.fsync(stream.fileno())
        stream.close()

    def move(self, source: str, target: str) -> None:
        sync_path(Path(source))
        Path(source).replace(target)

    def sync_files(self, paths: Iterable[str]) -> None:
        """Make files durable that others wrote, and their names."""
        files = list(paths)
        for file in files:
            sync_path(Path(file))
        self.sync_directories(files)

    def sync_directories(self, paths: Iterable[str]) -> None:
        for directory in {Path(path).parent for path in paths}:
            sync_path(directory)

    def remove(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)


class RemoteStorage(Storage):
    """Any store that fsspec knows. Stores without a rename copy and delete: see ``commit.py``.

    fsspec is imported here because that takes a tenth of a second and local paths do not need it.
    """

    def __init__(self, url: str, options: dict[str, Any] | None = None) -> None:
        import fsspec

        self._generic_move = fsspec.AbstractFileSystem.mv
        try:
            self._fs: Any = fsspec.url_to_fs(url, **(options or {}))[0]
        except (ImportError, ValueError) as e:
            raise ConnectorError(
                f"no file system for {url!r}: {e}. Install the fsspec package for it."
            ) from e

    def find(self, path: str) -> list[FoundFile]:
        self._fs.invalidate_cache()
        if not self._fs.exists(path):
            raise missing(path)
        root = self._fs._strip_protocol(path)
        found = self._fs.find(path, detail=True)
        return sorted(FoundFile(path + name.removeprefix(root), info["size"]) for name, info in found.items())

    def exists(self, path: str) -> bool:
        self._fs.invalidate_cache()
        return bool(self._fs.exists(path))

    def size(self, path: str) -> int | None:
        self._fs.invalidate_cache()
        try:
            return int(self._fs.info(path)["size"])
        except FileNotFoundError:
            return None

    def open_read(self, path: str) -> BinaryIO:
        try:
            stream: BinaryIO = self._fs.open(path, "rb")
        except FileNotFoundError:
            raise missing(path) from None
        return stream

    def create(self, path: str) -> BinaryIO:
        self.make_directory(path.rpartition("/")[0])
        stream: BinaryIO = self._fs.open(path, "wb")
        return stream

    def create_new(self, path: str, data: bytes) -> bool:
        self.make_directory(path.rpartition("/")[0])
        return create_new(self._fs, self._fs._strip_protocol(path), data)

    def creates_exclusively(self, directory: str) -> bool:
        self.make_directory(directory)
        probe = join(self._fs._strip_protocol(directory), f".penstock-probe-{uuid.uuid4().hex}")
        return is_exclusive(self._fs, probe)

    def make_directory(self, path: str) -> None:
        self._fs.makedirs(path, exist_ok=True)

    def seal(self, stream: BinaryIO) -> None:
        stream.close()

    def move(self, source: str, target: str) -> None:
        before, after = self._fs._strip_protocol(source), self._fs._strip_protocol(target)
        if renames_onto_free_names(self._fs):
            if not rename_new(self._fs, before, after):
                raise ConnectorError(f"{source!r} was not renamed, because {target!r} exists already")
        elif type(self._fs).mv is not self._generic_move:
            self._fs.mv(before, after)
        else:
            # What fsspec does for stores without a rename, but a name such as a[1] is no pattern.
            self._fs.cp_file(before, after)
            self._fs.rm_file(before)

    def sync_directories(self, paths: Iterable[str]) -> None:
        """Nothing to do: a remote name is durable when ``move`` returns."""

    def remove(self, path: str) -> None:
        if self.exists(path):
            self._fs.rm_file(path)


def normalise(path: str | os.PathLike[str]) -> str:
    """The absolute local path, or the URL as it is."""
    text = os.fspath(path)
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    elif is_url(text):
        return text if text.endswith("://") else text.rstrip("/")
    return str(Path(text).absolute())


def is_url(path: str) -> bool:
    """Whether the path names another file system than the local one."""
    return _URL.match(path) is not None


def storage_of(path: str) -> Storage:
    """The storage that a normalised path lives in."""
    return RemoteStorage(path) if is_url(path) else LocalStorage()


def join(base: str, *names: str) -> str:
    """A path below ``base``; empty names are left out."""
    return "/".join([base.rstrip("/"), *(name for name in names if name)])


class MissingFileError(ConnectorError):
    """There is nothing at a path."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"there is no file or directory {path!r}. Check the spelling, and that every machine of the "
            "cluster sees it: a path on the driver's own disk is not on the executors'."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (MissingFileError, (self.path,))


def missing(path: str) -> ConnectorError:
    """The error for a path that is not there."""
    return MissingFileError(path)


def shrunk(path: str, unit: str, position: int, size: int) -> PositionGoneError:
    """The error for a file that ends before the place where reading is to go on."""
    return PositionGoneError(
        f"{path!r} was already read up to {unit} {position} but has only {size}: it was replaced or cut off "
        "meanwhile. Put the old file back, or start without the snapshot."
    )


def _size(path: Path) -> int | None:
    """``None`` if the file was renamed or removed since it was listed."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
