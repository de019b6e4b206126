"""Checkpoint storage in a dictionary, as one process sees it: with faults, and with an auditor watching."""

from __future__ import annotations

from collections.abc import Callable

from penstock.core.errors import SnapshotError
from penstock.snapshot.storage import SnapshotStore
from penstock.storage.contract import TEMPORARY, FoundFile
from penstock.storage.memory import MemoryStorage, name_of
from penstock.storage.places import register_scheme
from penstock.testing.sim.audit import Auditor
from penstock.testing.sim.environment import SimulatedEnvironment, current
from penstock.testing.sim.faults import SIMULATED

SCHEME = "sim"
ROOT = f"{SCHEME}:/"


class SimStorage(MemoryStorage):
    """Files of a world.  Each process has a storage of its own; the files are shared."""

    def __init__(
        self,
        world: SimulatedEnvironment,
        auditor: Auditor,
        on_use: Callable[[str], None] = lambda operation: None,
        vanish: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(world.files)
        self.world = world
        self._auditor = auditor
        self._on_use = on_use
        """Called before every operation; the owner may vanish there."""
        self._vanish = vanish
        """Called to let the owner vanish in the middle of creating a file, if that can happen to it."""

    def create_new(self, path: str, data: bytes) -> bool:
        name = self._begin("create", path)
        created = name not in self.files
        if created:
            self._maybe_tear(name, data)
            self._auditor.touching(name)
            self.files[name] = bytes(data)
            self._auditor.created(name)
        self._end("create", name)
        return created

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self._begin("read", path)
        return super().read(path, offset, length)

    def size(self, path: str) -> int | None:
        self._begin("size", path)
        return super().size(path)

    def find(self, path: str) -> list[FoundFile]:
        self._begin("list", path)
        return super().find(path)

    def remove(self, path: str) -> bool:
        name = self._begin("delete", path)
        there = name in self.files
        if there:
            self._auditor.touching(name)
            self._auditor.deleting(name)
            del self.files[name]
        self._end("delete", name)
        return there

    def put(self, path: str, data: bytes) -> None:
        """The end of a writer: all bytes appear at once, unless a fault says otherwise."""
        name = self._begin("write", path)
        self._auditor.touching(name)
        if self.world.faults.hit("partial_file", name):
            self.files[name] = data[: len(data) // 2]
            raise SnapshotError(f"{SIMULATED}{name} was cut off")
        self.files[name] = data
        self._end("write", name)

    def _maybe_tear(self, name: str, data: bytes) -> None:
        """A store that creates files at once leaves a temporary one; another leaves half under the name."""
        if self._vanish is None or self._auditor.dropping or not self.world.faults.hit("torn_file", name):
            return
        if self.world.rng.random() < 0.5:
            name = f"{name.rpartition('/')[0]}/{TEMPORARY}{len(self.files)}"
        self.files[name] = data[: len(data) // 2]
        self._vanish()

    def _begin(self, operation: str, path: str) -> str:
        self._on_use(operation)
        name = name_of(path)
        if self.world.faults.hit("storage_error", f"{operation} {name}"):
            raise SnapshotError(f"{SIMULATED}{operation} {name} failed")
        return name

    def _end(self, operation: str, name: str) -> None:
        if self.world.faults.hit("storage_error_after", f"{operation} {name}"):
            raise SnapshotError(f"{SIMULATED}{operation} {name} was done, but the answer got lost")


class SimStore(SnapshotStore):
    """Snapshots in such a storage."""

    def __init__(
        self,
        world: SimulatedEnvironment,
        auditor: Auditor,
        inline_limit: int,
        on_use: Callable[[str], None] = lambda operation: None,
        vanish: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(f"{ROOT}/", SimStorage(world, auditor, on_use, vanish))
        self.inline_limit = inline_limit


def _open() -> SimStorage:
    """Where a job starts from: a savepoint, or a directory of its own."""
    world = current()
    return SimStorage(world, world.auditors[0])


register_scheme(SCHEME, _open)
