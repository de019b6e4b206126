"""The door to ``rocksdict``: loaded when first needed, with memory shared by all databases of a process."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

from penstock.core.errors import ConfigError

_FILE_BYTES = 16 << 20
"""Size that compaction aims at: small enough to be read whole when it is uploaded or checked."""
_OPEN_FILES = 512
_FLUSHES = 12
"""Flushed files before they are merged. Every checkpoint flushes, and what is merged is uploaded again, so
this is three times RocksDB's own choice; a read looks into more files for it, past Bloom filters."""


@cache
def rocksdict() -> ModuleType:
    """The package, or one sentence about how to get it."""
    try:
        import rocksdict
    except ImportError as error:
        raise ConfigError(
            f"state.backend.type rocksdb needs the package rocksdict, which cannot be loaded here ({error}); "
            "install it (pip install rocksdict) on the driver and on every worker, or use the backend hashmap"
        ) from error
    return rocksdict


@cache
def _memory(total: int) -> tuple[Any, Any]:
    """One block cache for all databases of this process; what their write buffers use is taken from it."""
    library = rocksdict()
    blocks = library.Cache(total)
    buffers = library.WriteBufferManager.new_write_buffer_manager_with_cache(total // 2, False, blocks)
    return blocks, buffers


def database_options(memory_bytes: int) -> Any:
    """Options of a working database."""
    library = rocksdict()
    blocks, buffers = _memory(memory_bytes)
    table = library.BlockBasedOptions()
    table.set_block_cache(blocks)
    table.set_bloom_filter(10, False)
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options = _plain_options()
    options.create_if_missing(True)
    options.set_write_buffer_manager(buffers)
    options.set_write_buffer_size(max(1 << 20, min(32 << 20, memory_bytes // 4)))
    options.set_target_file_size_base(_FILE_BYTES)
    options.set_max_bytes_for_level_base(8 * _FILE_BYTES)
    options.set_level_zero_file_num_compaction_trigger(_FLUSHES)
    options.set_level_zero_slowdown_writes_trigger(3 * _FLUSHES)
    options.set_level_zero_stop_writes_trigger(5 * _FLUSHES)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_compression_type(library.DBCompressionType.lz4())
    options.set_block_based_table_factory(table)
    return options


def _plain_options() -> Any:
    options = rocksdict().Options(raw_mode=True)
    options.set_max_open_files(_OPEN_FILES)
    options.set_keep_log_file_num(1)
    options.set_stats_dump_period_sec(0)
    return options


def reading_options() -> Any:
    """Options to look into the files of a snapshot."""
    return _plain_options()


def unlogged() -> Any:
    """How rows are written: without a log, because a lost database is restored from a snapshot."""
    options = rocksdict().WriteOptions()
    options.disable_wal = True
    return options
