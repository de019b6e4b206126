"""Snapshots on anything fsspec can reach: object stores, HDFS, SFTP, ...

Creation is exclusive by ``core/exclusive.py``, on S3 and its likes by a conditional write (``If-None-Match:
*``), of which the server lets exactly one succeed.  Not every server knows it, and one that does not just
overwrites.  So opening a store for writing creates a probe twice, and a file system that lets the second
creation pass, or has no such mode, is refused: without it two drivers of one job could both publish.

Files are written under their final name.  Nobody looks at a file before a manifest names it, and
renaming would copy the bytes once more on an object store.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from penstock.core.errors import ConfigError, PenstockError, SnapshotError
from penstock.core.exclusive import create_new, is_exclusive, is_object_store
from penstock.snapshot.paths import TEMPORARY, check_path
from penstock.snapshot.storage import FileWriter, Paths, SnapshotStore, check_range, missing, too_short

_creating = threading.Lock()
"""The memory file system checks and writes; its only users are threads of this process."""
_proven: set[tuple[str, str]] = set()
"""File systems and roots where exclusive creation was seen to work, in this process."""


class FsspecStore(SnapshotStore):
    """Files below an fsspec URL; ``options`` go to the file system (credentials, endpoint)."""

    def __init__(self, url: str, **options: Any) -> None:
        self.url = url.rstrip("/") if not url.endswith("://") else url
        self._options = options
        self._fs, root = _filesystem(url, options)
        self._root = root.rstrip("/")

    @classmethod
    def opened(cls, url: str, create: bool) -> FsspecStore:
        """The store, its directory made and looked at if ``create``."""
        store = cls(url)
        if not create:
            return store
        try:
            if store._fs.isfile(store._root):
                raise ConfigError(
                    f"{url} cannot hold snapshots because it is a file; choose another directory"
                )
            _make_directory(store._fs, store._root)
            store._prove_exclusive()
        except PenstockError:
            raise
        except Exception as error:
            raise ConfigError(
                f"{url} cannot be used for snapshots ({_first_line(error)}); check the address, the "
                f"credentials and that the bucket or parent directory exists"
            ) from error
        return store

    def create_if_absent(self, path: str, data: bytes) -> bool:
        full = self._full(path)
        with _creating, _translated(self.url, path):
            self._fs.invalidate_cache()
            if self._fs.exists(full):
                return False
            _make_directory(self._fs, full.rpartition("/")[0])
            return self._create(full, data)

    def _create(self, full: str, data: bytes) -> bool:
        """Create without looking first: what is there already must make it fail."""
        return create_new(self._fs, full, data)

    def _prove_exclusive(self) -> None:
        """Refuse a file system on which a name can be created twice."""
        known = (str(self._fs._fs_token), self._root.split("/", 1)[0])
        if known in _proven:
            return
        probe = self._full(f"{TEMPORARY}{uuid.uuid4().hex}")
        if not is_exclusive(self._fs, probe):
            raise ConfigError(
                f"{self.url} cannot hold snapshots: it has no exclusive creation of files (on S3: "
                f"conditional writes with If-None-Match; on HDFS: webhdfs: instead of hdfs:), so two drivers "
                f"of one job could not be kept apart. Use a server and client that support it, or a "
                f"directory all machines share"
            )
        _proven.add(known)

    def write(self, path: str) -> FileWriter:
        return _FsspecWriter(path, self._full(path), self.url, self._fs)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        check_range(offset, length)
        size = self.size(path)
        if size is None:
            raise missing(self.url, path)
        end = size if length is None else offset + length
        if offset > size or end > size:
            raise too_short(self.url, path, offset, length)
        if end == offset:
            return b""
        with _translated(self.url, path):
            return bytes(self._fs.cat_file(self._full(path), start=offset, end=end))

    def size(self, path: str) -> int | None:
        with _translated(self.url, path):
            self._fs.invalidate_cache()
            try:
                info = self._fs.info(self._full(path))
            except (FileNotFoundError, NotADirectoryError):
                return None
            except PermissionError as error:
                if "is not a directory" in str(error):  # how HDFS says that a parent is a file
                    return None
                raise
        return int(info["size"]) if info["type"] == "file" else None

    def list(self, prefix: str = "") -> Paths:
        with _translated(self.url, prefix):
            self._fs.invalidate_cache()
            found = self._fs.find(self._directory(prefix))
        names = (name.removeprefix(self._root).lstrip("/") for name in found)
        return sorted(name for name in names if not name.rpartition("/")[2].startswith(TEMPORARY))

    def delete(self, path: str) -> None:
        with _translated(self.url, path), suppress(FileNotFoundError):
            self._fs.rm_file(self._full(path))

    def delete_tree(self, prefix: str = "") -> None:
        with _translated(self.url, prefix), suppress(FileNotFoundError):
            self._fs.invalidate_cache()
            self._fs.rm(self._directory(prefix), recursive=True)

    def sub(self, path: str) -> FsspecStore:
        separator = "" if self.url.endswith("/") else "/"
        return FsspecStore(f"{self.url}{separator}{check_path(path)}", **self._options)

    def _full(self, path: str) -> str:
        return f"{self._root}/{check_path(path)}"

    def _directory(self, prefix: str) -> str:
        return self._full(prefix) if prefix else self._root or "/"


class _FsspecWriter(FileWriter):
    def __init__(self, path: str, full: str, url: str, fs: Any) -> None:
        super().__init__(path)
        self._full = full
        self._url = url
        self._fs = fs
        with _translated(url, path):
            _make_directory(fs, full.rpartition("/")[0])
            self._file = fs.open(full, "wb")

    def _append(self, data: bytes) -> None:
        with _translated(self._url, self._path):
            self._file.write(data)

    def _commit(self) -> None:
        with _translated(self._url, self._path):
            self._file.close()

    def _discard(self) -> None:
        with suppress(Exception):
            self._file.close()
        with suppress(Exception):
            self._fs.rm_file(self._full)


def _make_directory(fs: Any, path: str) -> None:
    if not is_object_store(fs):
        fs.makedirs(path or "/", exist_ok=True)


def _filesystem(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    from fsspec.core import url_to_fs  # keeps fsspec out of every slot that has local storage

    try:
        fs, root = url_to_fs(url, **options)
    except ImportError as error:
        raise ConfigError(
            f"{url} needs a package that is not installed: {_first_line(error)}. Install it on the driver "
            f"and on every worker"
        ) from error
    except ValueError as error:
        scheme = url.split(":", 1)[0]
        raise ConfigError(
            f"{url} cannot be opened: {scheme!r} is no known file system ({_first_line(error)}). Use a "
            f"path, file:, s3:, gs:, abfs:, webhdfs: or another fsspec URL"
        ) from error
    return fs, root


@contextmanager
def _translated(url: str, path: str) -> Iterator[None]:
    """Turn whatever a client library raises into a :class:`SnapshotError` that names the file."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        raise SnapshotError(f"{url}/{path} cannot be used: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    shown = str(error).strip() or type(error).__name__
    return shown.splitlines()[0][:200]
