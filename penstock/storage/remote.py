"""Anything fsspec can reach: object stores, HDFS, SFTP, ...  A file is durable when it is closed or moved.

Files of :meth:`RemoteStorage.writing` have their final name from the beginning: renaming would copy the bytes
once more on an object store.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from penstock.core.errors import ConnectorError
from penstock.storage.contract import (
    FoundFile,
    MissingFileError,
    NoFileSystemError,
    Storage,
    end_of,
    first_line,
    is_temporary,
    temporary_name,
)
from penstock.storage.exclusive import (
    create_remote,
    is_exclusive,
    is_object_store,
    rename_new,
    renames_onto_free_names,
)

_creating = threading.Lock()
"""The memory file system checks and writes; its only users are threads of this process."""
_proven: set[tuple[str, str]] = set()
"""File systems and roots where exclusive creation was seen to work, in this process."""


class RemoteStorage(Storage):
    """The file system of a URL; ``options`` go to fsspec (credentials, endpoint).

    Stores without a rename copy and delete: see ``connectors/files/writer.py``.  fsspec is imported here
    because that takes a tenth of a second and local paths do not need it.
    """

    def __init__(self, url: str, options: dict[str, Any] | None = None) -> None:
        import fsspec

        self._generic_move = fsspec.AbstractFileSystem.mv
        try:
            self._fs: Any = fsspec.url_to_fs(url, **(options or {}))[0]
        except ImportError as error:
            raise NoFileSystemError(
                f"{url} needs a package that is not installed: {first_line(error)}. Install it on the driver "
                f"and on every worker"
            ) from error
        except ValueError as error:
            raise NoFileSystemError(
                f"{url} cannot be opened: {url.split(':', 1)[0]!r} is no known file system "
                f"({first_line(error)}). Use a path, file:, s3:, gs:, abfs:, webhdfs: or another fsspec URL"
            ) from error

    def find(self, path: str) -> list[FoundFile]:
        self._fs.invalidate_cache()
        root = self._inner(path)
        found = self._fs.find(root or "/", detail=True)
        if not found and not self._fs.exists(root or "/"):
            raise MissingFileError(path)
        names = ((name.removeprefix(root), info["size"]) for name, info in found.items())
        return sorted(FoundFile(path + name, size) for name, size in names if not is_temporary(name))

    def exists(self, path: str) -> bool:
        self._fs.invalidate_cache()
        return bool(self._fs.exists(self._inner(path)))

    def size(self, path: str) -> int | None:
        self._fs.invalidate_cache()
        try:
            info = self._fs.info(self._inner(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as error:
            if "is not a directory" in str(error):  # how HDFS says that a parent is a file
                return None
            raise
        return int(info["size"]) if info["type"] == "file" else None

    def open_read(self, path: str) -> BinaryIO:
        try:
            stream: BinaryIO = self._fs.open(self._inner(path), "rb")
        except FileNotFoundError:
            raise MissingFileError(path) from None
        return stream

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        end = end_of(path, self.size(path), offset, length)
        return bytes(self._fs.cat_file(self._inner(path), start=offset, end=end)) if end > offset else b""

    def create_new(self, path: str, data: bytes) -> bool:
        with _creating:
            if self.exists(path):
                return False
            self._make_parent(path)
            return create_remote(self._fs, self._inner(path), data)

    def creates_exclusively(self, directory: str) -> bool:
        self.make_directory(directory)
        inner = self._inner(directory)
        known = (str(self._fs._fs_token), inner.split("/", 1)[0])
        if known not in _proven:
            probe = f"{inner}/{temporary_name()}"
            if not is_exclusive(
                lambda data: create_remote(self._fs, probe, data), lambda: self._remove(probe)
            ):
                return False
            _proven.add(known)
        return True

    @contextmanager
    def writing(self, path: str) -> Iterator[BinaryIO]:
        stream = self.create(path)
        try:
            yield stream
            self.seal(stream)
        except BaseException:
            with suppress(Exception):
                stream.close()
            with suppress(Exception):
                self.remove(path)
            raise

    def create(self, path: str) -> BinaryIO:
        self._make_parent(path)
        stream: BinaryIO = self._fs.open(self._inner(path), "wb")
        return stream

    def seal(self, stream: BinaryIO) -> None:
        stream.close()

    def move(self, source: str, target: str) -> None:
        before, after = self._inner(source), self._inner(target)
        if renames_onto_free_names(self._fs):
            if not rename_new(self._fs, before, after):
                raise ConnectorError(f"{source!r} was not renamed, because {target!r} exists already")
        elif type(self._fs).mv is not self._generic_move:
            self._fs.mv(before, after)
        else:
            # What fsspec does for stores without a rename, but a name such as a[1] is no pattern.
            self._fs.cp_file(before, after)
            self._fs.rm_file(before)

    def make_directory(self, path: str) -> None:
        if not is_object_store(self._fs):
            self._fs.makedirs(self._inner(path) or "/", exist_ok=True)

    def remove(self, path: str) -> bool:
        return self._remove(self._inner(path))

    def remove_tree(self, path: str) -> None:
        self._fs.invalidate_cache()
        with suppress(FileNotFoundError):
            self._fs.rm(self._inner(path) or "/", recursive=True)

    def _make_parent(self, path: str) -> None:
        self.make_directory(path.rpartition("/")[0])

    def _remove(self, inner: str) -> bool:
        try:
            self._fs.rm_file(inner)
        except FileNotFoundError:
            return False
        return True

    def _inner(self, path: str) -> str:
        """The path without the protocol."""
        return str(self._fs._strip_protocol(path))
