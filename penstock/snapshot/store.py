"""Snapshots on a file system this machine can see, and the door to all stores: :func:`open_store`.

The only module of the package that asks the operating system for anything.  Durability: bytes are
synced before a name appears, and the directory after.  Creation is by hard link, which either makes
the complete file or fails because the name is taken.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

from penstock.core.errors import ConfigError, SnapshotError
from penstock.core.own_files import make_directory, open_file, sync_path, write_file
from penstock.snapshot.memory import MemoryStore
from penstock.snapshot.paths import TEMPORARY, check_path
from penstock.snapshot.remote import FsspecStore
from penstock.snapshot.storage import FileWriter, Paths, SnapshotStore, check_range, missing, too_short

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_openers: dict[str, Callable[[str], SnapshotStore]] = {}


class LocalStore(SnapshotStore):
    """Files below a local (or mounted) directory."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).absolute()
        self.url = self.root.as_uri()

    def create_if_absent(self, path: str, data: bytes) -> bool:
        target = self._file(path)
        with _translated(self.url, path):
            if target.exists():
                return False
            _make_directory(target.parent)
            temporary = _temporary_beside(target)
            try:
                _write_synced(temporary, data, "xb")
                created = _link(temporary, target, data)
            finally:
                temporary.unlink(missing_ok=True)
            sync_path(target.parent)
            return created

    def write(self, path: str) -> FileWriter:
        return _LocalWriter(path, self._file(path), self.url)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        check_range(offset, length)
        with _translated(self.url, path):
            try:
                with self._file(path).open("rb") as file:
                    size = os.fstat(file.fileno()).st_size
                    file.seek(offset)
                    data = file.read() if length is None else file.read(length)
            except _ABSENT:
                raise missing(self.url, path) from None
        if offset > size or (length is not None and len(data) != length):
            raise too_short(self.url, path, offset, length)
        return data

    def size(self, path: str) -> int | None:
        target = self._file(path)
        with _translated(self.url, path):
            try:
                return target.stat().st_size if target.is_file() else None
            except _ABSENT:
                return None

    def list(self, prefix: str = "") -> Paths:
        top = self._directory(prefix)
        found: Paths = []
        with _translated(self.url, prefix):
            for directory, inner, names in os.walk(top, onerror=_raise_unless_absent):
                inner[:] = [name for name in inner if not name.startswith(TEMPORARY)]
                relative = Path(directory).relative_to(self.root)
                found += [(relative / n).as_posix() for n in names if not n.startswith(TEMPORARY)]
        return sorted(found)

    def delete(self, path: str) -> None:
        target = self._file(path)
        with _translated(self.url, path):
            try:
                target.unlink()
                sync_path(target.parent)
            except _ABSENT:
                return

    def delete_tree(self, prefix: str = "") -> None:
        """Out of the way in one step, so that a crash never leaves half of it under its name."""
        with _translated(self.url, prefix):
            target = self._directory(prefix)
            try:
                gone = target.rename(_temporary_beside(target))
            except _ABSENT:
                return
            shutil.rmtree(gone)

    def remove_empty(self) -> None:
        for directory, _, _ in os.walk(self.root, topdown=False):
            with suppress(OSError):  # it is not empty
                Path(directory).rmdir()

    def leftovers(self, prefix: str = "") -> Paths:
        with _translated(self.url, prefix):
            found = self._directory(prefix).glob(f"{TEMPORARY}*")
            return [left.relative_to(self.root).as_posix() for left in found]

    def sub(self, path: str) -> LocalStore:
        return LocalStore(self._file(path))

    def free_check(self, needed: int) -> None:
        existing = next(place for place in (self.root, *self.root.parents) if place.exists())
        free = shutil.disk_usage(existing).free
        if free < needed:
            raise SnapshotError(
                f"{self.url} has {free} bytes free, a snapshot needs about {needed}: free some space, keep "
                f"fewer snapshots (execution.checkpointing.num-retained), or use another directory"
            )

    def _file(self, path: str) -> Path:
        return self.root / check_path(path)

    def _directory(self, prefix: str) -> Path:
        return self._file(prefix) if prefix else self.root


class _LocalWriter(FileWriter):
    def __init__(self, path: str, target: Path, url: str) -> None:
        super().__init__(path)
        self._target = target
        self._url = url
        self._temporary = _temporary_beside(target)
        with _translated(url, path):
            _make_directory(target.parent)
            self._file = open_file(self._temporary, "xb")

    def _append(self, data: bytes) -> None:
        with _translated(self._url, self._path):
            self._file.write(data)

    def _commit(self) -> None:
        with _translated(self._url, self._path):
            try:
                with self._file as file:
                    file.flush()
                    os.fsync(file.fileno())
                self._temporary.replace(self._target)
            except OSError:
                self._temporary.unlink(missing_ok=True)
                raise
            sync_path(self._target.parent)

    def _discard(self) -> None:
        self._file.close()
        self._temporary.unlink(missing_ok=True)


def open_store(url: str, create: bool = True) -> SnapshotStore:
    """The store at a path or URL.  ``create`` makes the directory and tries that it can be written.

    Paths and ``file:`` URLs are local; every other scheme is looked up in fsspec, unless
    :func:`register_scheme` was told of it.
    """
    local = local_path(url)
    if local is None:
        opener = _openers.get(url.partition(":")[0])
        if opener is not None:
            return opener(url)
        return FsspecStore.opened(url, create)
    if create:
        _check_directory(local)
    return LocalStore(local)


def register_scheme(scheme: str, opener: Callable[[str], SnapshotStore]) -> None:
    """Have ``opener`` open the URLs of a scheme, as the simulator does with its own."""
    _openers[scheme] = opener


def parent_and_name(url: str) -> tuple[str, str]:
    """A directory's URL split into the URL of its parent and its own name."""
    local = local_path(url)
    if local is not None:
        place = local.absolute()
        return place.parent.as_uri(), place.name
    parent, _, name = url.rstrip("/").rpartition("/")
    return parent, name


def local_path(url: str) -> Path | None:
    """The path of a local directory; ``None`` if it is elsewhere."""
    if not url:
        raise ConfigError("the snapshot directory is empty: give a path or a URL such as file:///data/ckp")
    if url.startswith("file:"):
        path = unquote(url.removeprefix("file:"))
        return Path("/" + path.lstrip("/") if path.startswith("//") else path)
    return None if "://" in url or "::" in url else Path(url)


def _check_directory(place: Path) -> None:
    """Make the directory and prove that files can be created in it."""
    hint = "choose another snapshot directory (execution.checkpointing.dir) or change its permissions"
    if place.exists() and not place.is_dir():
        raise ConfigError(f"{place} cannot hold snapshots because it is a file; {hint}")
    try:
        make_directory(place)
    except OSError as error:
        raise ConfigError(f"{place} cannot be created ({error.strerror}); {hint}") from error
    probe = place / f"{TEMPORARY}{uuid.uuid4().hex}"
    try:
        write_file(probe, b"")
        probe.unlink()
    except OSError as error:
        raise ConfigError(f"{place} cannot be written ({error.strerror}); {hint}") from error


@contextmanager
def _translated(url: str, path: str) -> Iterator[None]:
    """Turn trouble of the operating system into a :class:`SnapshotError` that names the file."""
    try:
        yield
    except OSError as error:
        raise SnapshotError(f"{url}/{path} cannot be used: {error.strerror or error}") from error


def _raise_unless_absent(error: OSError) -> None:
    if not isinstance(error, _ABSENT):
        raise error


def _temporary_beside(target: Path) -> Path:
    return target.with_name(f"{TEMPORARY}{uuid.uuid4().hex}")


def _make_directory(directory: Path) -> None:
    """Make a directory and those above it; each new name is synced into its parent."""
    for made in make_directory(directory):
        sync_path(made.parent)


def _write_synced(place: Path, data: bytes, mode: str) -> None:
    with open_file(place, mode) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _link(temporary: Path, target: Path, data: bytes) -> bool:
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _create_without_links(target, data)
    return True


def _create_without_links(target: Path, data: bytes) -> bool:
    """Exclusive creation where there are no hard links; a crash may leave the file incomplete."""
    try:
        _write_synced(target, data, "xb")
    except FileExistsError:
        return False
    return True


__all__ = [
    "FsspecStore",
    "LocalStore",
    "MemoryStore",
    "SnapshotStore",
    "open_store",
    "parent_and_name",
    "register_scheme",
]
