"""The backends that a slot may open, by name: a value that is handed to it, with its clock and its storage.

Another backend is one more entry: ``StateBackends({**BUILT_IN.openers, "mine": MyBackend.open}, "mine")``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.core.errors import SnapshotError
from penstock.core.handles import NativeHandle
from penstock.state.backend import FileBackend, StateBackend
from penstock.state.heap.backend import HeapBackend
from penstock.state.rocks.backend import RocksBackend

OpenBackend = Callable[[Mapping[str, Any], int, bool], StateBackend]
"""Makes a backend from its options in the plan, the number of key groups, and whether checkpoints are kept
where files can be shared among them."""


@dataclass(frozen=True, slots=True)
class StateBackends:
    """Which backends there are."""

    openers: Mapping[str, OpenBackend]
    default: str
    """The name of the one that jobs use that name none."""

    def open(
        self, name: str, options: Mapping[str, Any], max_parallelism: int, shares_files: bool
    ) -> StateBackend:
        """The backend of that name, empty."""
        return self.openers[name](options, max_parallelism, shares_files)

    def reader(self, handle: NativeHandle, max_parallelism: int) -> FileBackend:
        """A backend to read files with that another one cannot take over. It is empty and needs no close."""
        if handle.backend in self.openers:
            opened = self.open(handle.backend, {}, max_parallelism, False)
            if isinstance(opened, FileBackend):
                return opened
        raise SnapshotError(
            f"the snapshot holds state in files of the backend {handle.backend!r}, which is not among those "
            f"here: {', '.join(self.openers)}. Start from a savepoint, which every backend reads"
        )


BUILT_IN = StateBackends(
    {"hashmap": lambda options, max_parallelism, shares_files: HeapBackend(), "rocksdb": RocksBackend.open},
    "hashmap",
)
