"""Choosing where state lives, as PyFlink programs do and by settings."""

from __future__ import annotations

import pytest

from penstock.common import Configuration
from penstock.coordinator.assemble import rocksdb_settings
from penstock.core import options
from penstock.core.errors import ConfigError
from penstock.datastream import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    PredefinedOptions,
    StreamExecutionEnvironment,
)
from penstock.state.rocks.database import RocksSettings


def plan_settings(env: StreamExecutionEnvironment) -> RocksSettings | None:
    found = rocksdb_settings(env.configuration())
    return None if found is None else RocksSettings(**found)


def test_the_heap_is_the_default() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    assert isinstance(env.get_state_backend(), HashMapStateBackend)
    assert plan_settings(env) is None
    env.set_state_backend(EmbeddedRocksDBStateBackend()).set_state_backend(HashMapStateBackend())
    assert plan_settings(env) is None


def test_rocksdb_by_its_class() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    backend = EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=False)
    backend.set_db_storage_paths("/fast/disk", "/other")
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    backend.set_number_of_transfer_threads(4)
    env.set_state_backend(backend)
    found = plan_settings(env)
    assert found is not None and found.localdir == "/fast/disk" and not found.native
    chosen = env.get_state_backend()
    assert isinstance(chosen, EmbeddedRocksDBStateBackend) and not chosen.is_incremental_checkpoints_enabled()
    assert backend.get_db_storage_paths() == ["/fast/disk", "/other"]
    assert backend.get_predefined_options() is PredefinedOptions.FLASH_SSD_OPTIMIZED
    assert backend.get_number_of_transfer_threads() == 4 and backend.get_options() is None
    with pytest.raises(ConfigError, match="Java"):
        backend.set_options("org.example.Factory")
    with pytest.raises(ConfigError, match="empty"):
        backend.set_db_storage_paths("")


def test_rocksdb_by_settings() -> None:
    config = Configuration()
    config.set_string("state.backend", "rocksdb")
    config.set_string("state.backend.rocksdb.memory.fixed-per-slot", "32 mb")
    config.set_string("penstock.rocksdb.cache.entries", "7")
    found = plan_settings(StreamExecutionEnvironment.get_execution_environment(config))
    assert found == RocksSettings(memory_bytes=32 << 20, cache_entries=7)
    assert RocksSettings() == RocksSettings(
        memory_bytes=int(options.ROCKSDB_MEMORY.default_value()),
        cache_entries=int(options.ROCKSDB_CACHE_ENTRIES.default_value()),
        cache_bytes=int(options.ROCKSDB_CACHE_BYTES.default_value()),
        native=options.CHECKPOINT_INCREMENTAL.default_value(),
    )
