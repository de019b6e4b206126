"""The operating system's files.  Durability is fsync: of a file's bytes before its name appears, then of its
directory."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from penstock.storage.contract import TEMPORARY, FoundFile, MissingFileError, Storage, temporary_name
from penstock.storage.exclusive import create_local, is_exclusive, link_new
from penstock.storage.own_files import DIRECTORY, make_directory, open_file, sync_path, writing

_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_FOR_ALL = 0o777
"""But for what the umask says."""


class LocalStorage(Storage):
    """Files of this machine, or mounted.

    With ``own``, what is made is for its owner only, and a directory that cannot be listed is an error;
    without, it is passed over, as ``lost+found`` in somebody's input.
    """

    def __init__(self, own: bool = False) -> None:
        self._own = own

    def find(self, path: str) -> list[FoundFile]:
        size = self.size(path)
        if size is not None:
            return [FoundFile(path, size)]
        if not Path(path).is_dir():
            raise MissingFileError(path)
        found = []
        for folder, inner, names in os.walk(path, onerror=_raise_unless_absent if self._own else None):
            inner[:] = [name for name in inner if not name.startswith(TEMPORARY)]
            files = (f"{folder.rstrip('/')}/{name}" for name in names if not name.startswith(TEMPORARY))
            # None if it was renamed or removed since it was listed.
            found += [FoundFile(file, size) for file in files if (size := self.size(file)) is not None]
        return sorted(found)

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def size(self, path: str) -> int | None:
        try:
            found = Path(path).stat()
        except _ABSENT:
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def open_read(self, path: str) -> BinaryIO:
        try:
            # Arrow's own file: Parquet decoding then needs no Python call per read.
            stream: BinaryIO = pa.OSFile(path, "rb")
        except OSError as error:
            # Arrow has no class of its own for a directory.
            if isinstance(error, _ABSENT) or Path(path).is_dir():
                raise MissingFileError(path) from None
            raise
        return stream

    def create_new(self, path: str, data: bytes) -> bool:
        if self.exists(path):
            return False
        self.make_directory(str(Path(path).parent))
        return create_local(Path(path), data, self._open)

    def creates_exclusively(self, directory: str) -> bool:
        """In the way that leaves no file incomplete, that is by hard links."""
        self.make_directory(directory)
        probe = Path(directory, temporary_name())
        return is_exclusive(
            lambda data: link_new(probe, data, self._open), lambda: probe.unlink(missing_ok=True)
        )

    def writing(self, path: str) -> AbstractContextManager[BinaryIO]:
        self.make_directory(str(Path(path).parent))
        return writing(Path(path), self._open)

    def create(self, path: str) -> BinaryIO:
        self.make_directory(str(Path(path).parent))
        return self._open(Path(path), "xb")

    def seal(self, stream: BinaryIO) -> None:
        stream.flush()
        os.fsync(stream.fileno())
        stream.close()

    def move(self, source: str, target: str) -> None:
        sync_path(Path(source))
        Path(source).replace(target)

    def make_directory(self, path: str) -> None:
        for made in make_directory(Path(path), DIRECTORY if self._own else _FOR_ALL):
            sync_path(made.parent)

    def make_own_directory(self, path: str) -> None:
        LocalStorage(own=True).make_directory(path)

    def sync_files(self, paths: Iterable[str]) -> None:
        """Make files durable that others wrote, and their names."""
        files = list(paths)
        for file in files:
            sync_path(Path(file))
        self.sync_directories(files)

    def sync_directories(self, paths: Iterable[str]) -> None:
        for directory in {Path(path).parent for path in paths}:
            sync_path(directory)

    def remove(self, path: str) -> bool:
        try:
            Path(path).unlink()
        except _ABSENT:
            return False
        return True

    def remove_tree(self, path: str) -> None:
        """Out of the way in one step, so that a crash never leaves half of it under its name."""
        try:
            gone = Path(path).rename(Path(path).with_name(temporary_name()))
        except _ABSENT:
            return
        shutil.rmtree(gone)

    def remove_empty(self, path: str) -> None:
        for directory, _, _ in os.walk(path, topdown=False):
            with suppress(OSError):  # it is not empty
                Path(directory).rmdir()

    def leftovers(self, path: str) -> list[str]:
        return [str(left) for left in Path(path).glob(f"{TEMPORARY}*")]

    def _open(self, path: Path, mode: str) -> BinaryIO:
        return open_file(path, mode) if self._own else path.open(mode)  # type: ignore[return-value]


def _raise_unless_absent(error: OSError) -> None:
    if not isinstance(error, _ABSENT):
        raise error
