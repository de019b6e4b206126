"""How graphs of the simulator get state on disk and incremental checkpoints.

A seed replays the faults, not RocksDB's own threads: which files a checkpoint has may differ between two
plays of one seed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment

Env = StreamExecutionEnvironment

_MEMORY = Path("/dev/shm")
DISK = str(_MEMORY if _MEMORY.is_dir() else tempfile.gettempdir())
"""Where files are in memory, opening hundreds of databases is quick."""


def with_copies(build: Callable[[Env], None]) -> Callable[[Env], None]:
    """The graph with copies of its checkpoint files on the disk that its slots share."""

    def changed(env: Env) -> None:
        config = Configuration()
        config.set_string("execution.checkpointing.local-backup.enabled", "true")
        config.set_string("execution.checkpointing.local-backup.dirs", DISK)
        env.configure(config)
        build(env)

    return changed


def on_disk(build: Callable[[Env], None]) -> Callable[[Env], None]:
    """The graph with next to no cache, so that most state really is on disk."""

    def changed(env: Env) -> None:
        config = Configuration()
        config.set_string("state.backend.type", "rocksdb")
        config.set_string("state.backend.rocksdb.localdir", DISK)
        config.set_string("penstock.rocksdb.cache.entries", "6")
        env.configure(config)
        build(env)

    return changed
