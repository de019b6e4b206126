"""Files in a dictionary: in the driver's memory, or in the simulator's world."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import BinaryIO

from penstock.storage.contract import FoundFile, MissingFileError, Storage, end_of, is_temporary
from penstock.storage.places import join


class MemoryStorage(Storage):
    """``files`` is by names without a scheme.  A file gets all its bytes at once, when it is complete."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files: dict[str, bytes] = {} if files is None else files
        self._lock = threading.Lock()

    def find(self, path: str) -> list[FoundFile]:
        whole = self.files.get(name_of(path))
        if whole is not None:
            return [FoundFile(path, len(whole))]
        below = self._below(path)
        if not below:
            raise MissingFileError(path)
        found = {inner: len(data) for inner, data in below.items() if not is_temporary(inner)}
        return sorted(FoundFile(join(path, inner), size) for inner, size in found.items())

    def exists(self, path: str) -> bool:
        return name_of(path) in self.files or bool(self._below(path))

    def size(self, path: str) -> int | None:
        data = self.files.get(name_of(path))
        return None if data is None else len(data)

    def open_read(self, path: str) -> BinaryIO:
        return BytesIO(self.read(path))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        data = self.files.get(name_of(path))
        end = end_of(path, None if data is None else len(data), offset, length)
        return (data or b"")[offset:end]

    def create_new(self, path: str, data: bytes) -> bool:
        with self._lock:
            if name_of(path) in self.files:
                return False
            self.files[name_of(path)] = bytes(data)
            return True

    def creates_exclusively(self, directory: str) -> bool:
        return True

    @contextmanager
    def writing(self, path: str) -> Iterator[BinaryIO]:
        stream = self.create(path)
        yield stream
        self.seal(stream)

    def create(self, path: str) -> BinaryIO:
        return _Growing(path)

    def seal(self, stream: BinaryIO) -> None:
        assert isinstance(stream, _Growing)
        self.put(stream.path, stream.getvalue())
        stream.close()

    def put(self, path: str, data: bytes) -> None:
        """Set a file's bytes, replacing others."""
        with self._lock:
            self.files[name_of(path)] = data

    def move(self, source: str, target: str) -> None:
        with self._lock:
            self.files[name_of(target)] = self.files.pop(name_of(source))

    def make_directory(self, path: str) -> None:
        """There are none: names are all there is."""

    def remove(self, path: str) -> bool:
        with self._lock:
            return self.files.pop(name_of(path), None) is not None

    def remove_tree(self, path: str) -> None:
        for inner in sorted(self._below(path)):
            self.remove(join(path, inner))

    def _below(self, path: str) -> dict[str, bytes]:
        """The files in a directory, by their names in it."""
        directory = f"{name_of(path)}/".lstrip("/")
        with self._lock:
            every = self.files.items()
            return {name[len(directory) :]: data for name, data in every if name.startswith(directory)}


class _Growing(BytesIO):
    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path


def name_of(path: str) -> str:
    """A path without its scheme."""
    return path.partition(":")[2].lstrip("/")
