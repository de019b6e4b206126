"""Which state backend a job uses, and what the slots must know of it."""

from __future__ import annotations

import importlib.util

from penstock.core import options
from penstock.core.config import Configuration
from penstock.core.errors import ConfigError

ROCKSDB = "rocksdb"


def rocksdb_settings(config: Configuration) -> dict[str, object] | None:
    """What a plan's settings say of RocksDB; ``None`` if keyed state lives on the heap."""
    if config.get(options.STATE_BACKEND) != ROCKSDB:
        return None
    return {
        "localdir": config.get(options.ROCKSDB_LOCALDIR),
        "memory_bytes": config.get(options.ROCKSDB_MEMORY),
        "cache_entries": config.get(options.ROCKSDB_CACHE_ENTRIES),
        "cache_bytes": config.get(options.ROCKSDB_CACHE_BYTES),
        "native": config.get(options.CHECKPOINT_INCREMENTAL),
    }


def check_backend(config: Configuration) -> None:
    """Refuse a backend that cannot work before anything is started."""
    if config.get(options.STATE_BACKEND) == ROCKSDB and importlib.util.find_spec("rocksdict") is None:
        raise ConfigError(
            "state.backend.type rocksdb needs the package rocksdict, which is not installed here; install it "
            "(pip install rocksdict) on the driver and on every worker, or use the backend hashmap"
        )
