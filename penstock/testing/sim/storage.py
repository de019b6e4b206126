"""Checkpoint storage in a dictionary, as one process sees it: with faults, and with an auditor watching."""

from __future__ import annotations

from collections.abc import Callable

from penstock.core.errors import SnapshotError
from penstock.snapshot.paths import TEMPORARY, check_path
from penstock.snapshot.storage import FileWriter, Paths, SnapshotStore, check_range, part_of
from penstock.snapshot.store import register_scheme
from penstock.testing.sim.audit import Auditor, is_temporary
from penstock.testing.sim.environment import World, current
from penstock.testing.sim.faults import SIMULATED

SCHEME = "sim"
ROOT = f"{SCHEME}:/"


class SimStore(SnapshotStore):
    """Files of a world below a prefix.  Each process has a store of its own; the files are shared."""

    def __init__(
        self,
        world: World,
        auditor: Auditor,
        inline_limit: int,
        on_use: Callable[[str], None],
        vanish: Callable[[], None] | None = None,
        prefix: str = "",
    ) -> None:
        self.url = f"{ROOT}/{prefix}".rstrip("/")
        self.inline_limit = inline_limit
        self._world = world
        self._auditor = auditor
        self._on_use = on_use
        """Called before every operation; the owner may vanish there."""
        self._vanish = vanish
        """Called to let the owner vanish in the middle of creating a file, if that can happen to it."""
        self._prefix = prefix

    def create_if_absent(self, path: str, data: bytes) -> bool:
        name = self._begin("create", path)
        created = name not in self._world.files
        if created:
            self._maybe_tear(name, path, data)
            self._auditor.touching(name)
            self._world.files[name] = bytes(data)
            self._auditor.created(name)
        self._end("create", path)
        return created

    def write(self, path: str) -> FileWriter:
        return _SimWriter(check_path(path), self)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        check_range(offset, length)
        data = self._world.files.get(self._begin("read", path))
        return part_of(data, self.url, path, offset, length)

    def size(self, path: str) -> int | None:
        data = self._world.files.get(self._begin("size", path))
        return None if data is None else len(data)

    def list(self, prefix: str = "") -> Paths:
        directory = self._directory(prefix)
        self._begin("list", prefix or "all")
        return sorted(
            name[len(self._prefix) :]
            for name in self._world.files
            if name.startswith(directory) and not is_temporary(name)
        )

    def delete(self, path: str) -> None:
        name = self._begin("delete", path)
        if name in self._world.files:
            self._auditor.touching(name)
            self._auditor.deleting(name)
            del self._world.files[name]
        self._end("delete", path)

    def delete_tree(self, prefix: str = "") -> None:
        directory = self._directory(prefix)
        for name in sorted(self._world.files):
            if name.startswith(directory):
                self.delete(name[len(self._prefix) :])

    def sub(self, path: str) -> SimStore:
        prefix = self._directory(check_path(path))
        return SimStore(self._world, self._auditor, self.inline_limit, self._on_use, self._vanish, prefix)

    def at(self, url: str) -> SimStore:
        """The files at another URL, for the same process."""
        prefix = f"{url.removeprefix(f'{ROOT}/')}/"
        return SimStore(self._world, self._auditor, self.inline_limit, self._on_use, self._vanish, prefix)

    def _maybe_tear(self, name: str, path: str, data: bytes) -> None:
        """A store that creates files at once leaves a temporary one; another leaves half under the name."""
        if self._vanish is None or self._auditor.dropping or not self._world.faults.hit("torn_file", path):
            return
        if self._world.rng.random() < 0.5:
            name = f"{name.rpartition('/')[0]}/{TEMPORARY}{len(self._world.files)}"
        self._world.files[name] = data[: len(data) // 2]
        self._vanish()

    def put(self, path: str, data: bytes) -> None:
        """The end of a writer: all bytes appear at once, unless a fault says otherwise."""
        name = self._begin("write", path)
        self._auditor.touching(name)
        if self._world.faults.hit("partial_file", path):
            self._world.files[name] = data[: len(data) // 2]
            raise SnapshotError(f"{SIMULATED}{path} was cut off")
        self._world.files[name] = data
        self._end("write", path)

    def _directory(self, prefix: str) -> str:
        return self._prefix + (f"{check_path(prefix)}/" if prefix else "")

    def _begin(self, operation: str, path: str) -> str:
        self._on_use(operation)
        if self._world.faults.hit("storage_error", f"{operation} {path}"):
            raise SnapshotError(f"{SIMULATED}{operation} {path} failed")
        return self._prefix + check_path(path)

    def _end(self, operation: str, path: str) -> None:
        if self._world.faults.hit("storage_error_after", f"{operation} {path}"):
            raise SnapshotError(f"{SIMULATED}{operation} {path} was done, but the answer got lost")


def _open(url: str) -> SimStore:
    """What a job starts from: a savepoint, or a directory of its own."""
    world = current()
    return SimStore(world, world.auditors[0], 0, lambda operation: None).at(url)


register_scheme(SCHEME, _open)


class _SimWriter(FileWriter):
    def __init__(self, path: str, store: SimStore) -> None:
        super().__init__(path)
        self._store = store
        self._parts: list[bytes] = []

    def _append(self, data: bytes) -> None:
        self._parts.append(bytes(data))

    def _commit(self) -> None:
        self._store.put(self._path, b"".join(self._parts))

    def _discard(self) -> None:
        self._parts.clear()
