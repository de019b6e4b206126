"""What a slot must know to open databases: where, how much memory, how snapshots are taken."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import ConfigError
from penstock.storage.work_place import WorkPlace

PREFIX = "penstock-rocksdb-"


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


def local_directory(base: str | None) -> WorkPlace:
    """A new directory below ``base``, gone with the process; what dead ones left there is removed first."""
    root = default_base() if base is None else Path(base)
    try:
        return WorkPlace.make(root, PREFIX)
    except OSError as error:
        raise ConfigError(
            f"{root} cannot hold the working files of RocksDB ({error.strerror or error}); name another "
            "directory with state.backend.rocksdb.localdir"
        ) from error


def default_base() -> Path:
    """The first of Spark's local directories if this is a Spark task, else where temporary files go."""
    spark = os.environ.get("SPARK_LOCAL_DIRS") or os.environ.get("LOCAL_DIRS") or ""
    first = spark.split(",")[0].strip()
    return Path(first) if first else Path(tempfile.gettempdir())
