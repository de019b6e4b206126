"""What a slot must know to open databases: where, how much memory, how snapshots are taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RocksSettings:
    """Settings of the RocksDB backend, as they travel to the slots."""

    localdir: str | None = None
    """Where working files go; ``None`` for the place Spark or the system has for such files."""
    memory_bytes: int = 128 << 20
    """Block cache and write buffers of all databases of a process together."""
    cache_entries: int = 20_000
    """Entries of one state on one subtask that are kept as Python objects, at most."""
    cache_bytes: int = 16 << 20
    """And the bytes that these may have as rows."""
    native: bool = True
    """Whether checkpoints keep RocksDB's own files, of which only new ones are written."""

    @classmethod
    def from_plan(cls, found: Mapping[str, Any] | None) -> RocksSettings | None:
        """From ``PlanSettings.rocksdb``; ``None`` if the job keeps its state on the heap."""
        return None if found is None else cls(**found)
