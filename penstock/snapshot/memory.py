"""Snapshots in the driver's memory: for experiments, used when no checkpoint directory is configured.

They survive a failed attempt, not the driver.  State travels to the driver inside acknowledgements, so
its size is limited.
"""

from __future__ import annotations

import threading

from penstock.core.errors import SnapshotError
from penstock.snapshot.paths import check_path
from penstock.snapshot.storage import FileWriter, Paths, SnapshotStore, check_range, part_of

MAX_STATE_BYTES = 5 * 1024 * 1024
"""Default limit for the state of one subtask."""


class MemoryStore(SnapshotStore):
    """Files in a dictionary.  ``sub`` stores share it."""

    def __init__(self, max_state_bytes: int = MAX_STATE_BYTES) -> None:
        self.url = "driver-memory:"
        self.max_state_bytes = max_state_bytes
        self.inline_limit = max_state_bytes
        self._prefix = ""
        self._files: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def create_if_absent(self, path: str, data: bytes) -> bool:
        name = self._name(path)
        with self._lock:
            if name in self._files:
                return False
            self._files[name] = bytes(data)
            return True

    def write(self, path: str) -> FileWriter:
        return _MemoryWriter(check_path(path), self)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        check_range(offset, length)
        return part_of(self._files.get(self._name(path)), self.url, path, offset, length)

    def size(self, path: str) -> int | None:
        data = self._files.get(self._name(path))
        return None if data is None else len(data)

    def list(self, prefix: str = "") -> Paths:
        directory = self._directory(prefix)
        with self._lock:
            return sorted(name[len(self._prefix) :] for name in self._files if name.startswith(directory))

    def delete(self, path: str) -> None:
        with self._lock:
            self._files.pop(self._name(path), None)

    def delete_tree(self, prefix: str = "") -> None:
        directory = self._directory(prefix)
        with self._lock:
            for name in [name for name in self._files if name.startswith(directory)]:
                del self._files[name]

    def sub(self, path: str) -> MemoryStore:
        inner = MemoryStore(self.max_state_bytes or MAX_STATE_BYTES)
        inner.url = f"{self.url}/{check_path(path)}"
        inner._prefix = self._directory(path)
        inner._files = self._files
        inner._lock = self._lock
        return inner

    def put(self, path: str, data: bytes) -> None:
        """Set a file's bytes, replacing others."""
        with self._lock:
            self._files[self._name(path)] = data

    def check_size(self, path: str, size: int) -> None:
        """Refuse state above the limit."""
        if self.max_state_bytes is not None and size > self.max_state_bytes:
            raise SnapshotError(
                f"{path} is larger than {self.max_state_bytes} bytes, the limit for snapshots kept in the "
                f"driver's memory; set a checkpoint directory (execution.checkpointing.dir)"
            )

    def _name(self, path: str) -> str:
        return self._prefix + check_path(path)

    def _directory(self, prefix: str) -> str:
        return self._prefix + (f"{check_path(prefix)}/" if prefix else "")


class _MemoryWriter(FileWriter):
    def __init__(self, path: str, store: MemoryStore) -> None:
        super().__init__(path)
        self._store = store
        self._parts: list[bytes] = []

    def _append(self, data: bytes) -> None:
        self._store.check_size(self._path, self._length + len(data))
        self._parts.append(bytes(data))

    def _commit(self) -> None:
        self._store.put(self._path, b"".join(self._parts))

    def _discard(self) -> None:
        self._parts.clear()
