"""One open database in a directory of its own: rows in, rows out, pictures of one moment.

Used on the task's thread, except that a :class:`Moment` may be read in the thread that writes a snapshot.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.core.errors import ConfigError, CorruptSnapshotError
from penstock.state.rocks.keys import TABLE
from penstock.storage.work_place import WorkPlace, default_base

PREFIX = "penstock-rocksdb-"


@dataclass(frozen=True, slots=True)
class RocksSettings:
    """Settings of the RocksDB backend, as they travel to the slots."""

    localdir: str | None = None
    """Where working files go; ``None`` for the place Spark or the system has for such files."""
    memory_bytes: int = 128 << 20
    """Block cache and write buffers of all databases of a process together."""
    cache_entries: int = 1_000_000
    """Entries of one state on one subtask that are kept as Python objects, at most."""
    cache_bytes: int = 96 << 20
    """And the memory that these may take, by estimate."""
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


Rows = Iterator[tuple[bytes, bytes]]
_FILE_BYTES = 16 << 20
"""Size that compaction aims at: small enough to be read whole when it is uploaded or checked."""
_OPEN_FILES = 512
_FLUSHES = 12
"""Flushed files before they are merged. Every checkpoint flushes, and what is merged is uploaded again, so
this is three times RocksDB's own choice; a read looks into more files for it, past Bloom filters."""

_MANIFEST_BYTES = 1 << 20
"""Size from which on RocksDB begins its list of files anew. It notes each flush and merge at its end, up to a
gigabyte if it is let, and every checkpoint stores the list whole."""
_LOG_BYTES = 1 << 20
"""Size from which on RocksDB begins its own log anew: each checkpoint is some kilobytes in it."""

_BULK = 1.2
"""So many times the bytes of the checkpoint before are a bulk load."""
_BULK_BYTES = 64 << 20
"""And at least so many: less is stored a second time in no time."""
_MERGING = ("mem-table-flush-pending", "num-running-flushes", "compaction-pending", "num-running-compactions")
_REFUSED = ("Corruption", "Invalid argument", "Not implemented")
_LOOK_S = 0.02
_MOST_LOOKS = 3000

_PROPERTIES = (
    "estimate-num-keys",
    "estimate-live-data-size",
    "live-sst-files-size",
    "total-sst-files-size",
    "cur-size-all-mem-tables",
    "size-all-mem-tables",
    "num-immutable-mem-table",
    "block-cache-usage",
    "block-cache-capacity",
    "block-cache-pinned-usage",
    "estimate-table-readers-mem",
    "estimate-pending-compaction-bytes",
    "num-running-compactions",
    "num-running-flushes",
    "is-write-stopped",
    "actual-delayed-write-rate",
    "background-errors",
)


class Database:
    """A database that is removed from disk when it is closed, or when nothing refers to it any more."""

    def __init__(self, settings: RocksSettings) -> None:
        self._place = local_directory(settings.localdir)
        self._settings = settings
        self._unlogged = _unlogged()
        self._batch_type = rocksdict().WriteBatch
        self._snapshots = 0
        self._bytes_before = 0
        """Of all files, at the last checkpoint or when they were restored."""
        self._rdict: Any = None
        self._opened: list[Any] = []
        self._finish = weakref.finalize(self, _close_and_remove, self._opened, self._place)

    @property
    def files(self) -> Path:
        """Where the database is; restored files are put there before :meth:`open`."""
        return self._place.path / "db"

    def open(self) -> None:
        """Open what is in the directory, or an empty database."""
        options = _database_options(self._settings.memory_bytes)
        with _refusals():
            self._rdict = rocksdict().Rdict(str(self.files), options)
        self._opened.append(self._rdict)
        self._bytes_before = self._file_bytes()
        self.get = self._rdict.get
        """The row of a key, or the rows of a list of keys; ``None`` for those that are not there."""

    def write(self, rows: Iterable[tuple[bytes, bytes]], gone: Iterable[bytes]) -> None:
        """Store and delete rows, all at once; they should be in order."""
        batch = self._batch_type(raw_mode=True)
        for key, row in rows:
            batch[key] = row
        for key in gone:
            batch.delete(key)
        self._rdict.write(batch, self._unlogged)

    def rows(self, table: int, start: bytes = b"") -> Rows:
        """The rows of a table in order of their keys, from ``start`` on, as they are now."""
        return table_rows(self._rdict, table, start)

    def moment(self) -> Moment:
        """What is there now, however it changes."""
        return Moment(self._rdict.iter())

    def checkpoint(self) -> Path:
        """The files of what is there now, as links in a directory beside it: nothing is copied.

        What was loaded at once is merged first (see :func:`wait_for_merges`): this waits for it, as writing
        would a little later.
        """
        self._snapshots += 1
        self._rdict.flush()
        if self._file_bytes() > max(_BULK_BYTES, _BULK * self._bytes_before):
            wait_for_merges(self._property)
        self._bytes_before = self._file_bytes()
        target = self._place.path / f"scratch-{self._snapshots}"
        rocksdict().Checkpoint(self._rdict).create_checkpoint(str(target))
        for log in target.glob("*.log"):
            log.unlink()  # empty: nothing is ever logged
        return target

    def measures(self) -> dict[str, float]:
        """What RocksDB says of itself, by Flink's names. The block cache is that of the whole process."""
        read = {name: self._property(name) for name in _PROPERTIES}
        return {f"rocksdb.{name}": float(value) for name, value in read.items() if value is not None}

    def _property(self, name: str) -> int | None:
        value: int | None = self._rdict.property_int_value(f"rocksdb.{name}")
        return value

    def _file_bytes(self) -> int:
        return self._property("live-sst-files-size") or 0

    def close(self) -> None:
        """Close and remove. A :class:`Moment` taken before can still be read."""
        self._rdict = None
        self._finish()


def wait_for_merges(asked: Callable[[str], int | None]) -> None:
    """Wait until RocksDB has merged all that it wants to merge, a minute at most.

    Files that are merged a moment after a checkpoint were stored for nothing, and the next checkpoint stores
    what came of them: behind a bulk load that is nearly everything.  ``asked`` are RocksDB's properties.
    """
    pause = threading.Event()
    for _ in range(_MOST_LOOKS):
        if not any(asked(name) for name in _MERGING):
            return
        pause.wait(_LOOK_S)


def _close_and_remove(opened: list[Any], place: WorkPlace) -> None:
    """In this order: without its files a database takes a second to close.

    Closing writes what is in memory, which is not read again: if it fails, because the disk is full or
    the directory was removed, nothing is lost.
    """
    for rdict in opened:
        with contextlib.suppress(Exception):
            rdict.close()
    opened.clear()
    place.remove()


class Moment:
    """A picture of a database, to be read by one thread at a time.

    It is an iterator, which sees what was there when it was made; iterators made from a snapshot object of
    ``rocksdict`` do not.
    """

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def rows(self, table: int, start: bytes = b"") -> Rows:
        """The rows of a table in order of their keys, from ``start`` on. One iteration at a time."""
        prefix = TABLE.pack(table)
        cursor = self._cursor
        cursor.seek(start or prefix)
        while cursor.valid():
            key = cursor.key()
            if not key.startswith(prefix):
                return
            yield key, cursor.value()
            cursor.next()
        cursor.status()


def open_files(directory: Path) -> Any:
    """The files of a snapshot, to read only; an object for :func:`table_rows` with a ``close``."""
    library = rocksdict()
    access = library.AccessType.read_only(False)
    with _refusals():
        return library.Rdict(str(directory), _plain_options(), access_type=access)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """RocksDB's exceptions have no classes: their first words tell what they are."""
    try:
        yield
    except Exception as error:
        if not str(error).startswith(_REFUSED):
            raise
        raise CorruptSnapshotError(
            f"RocksDB cannot open the files of a snapshot, though they are those that were stored: {error}. "
            "If another version of rocksdict wrote them, install it here, or restore a savepoint, which "
            "every version reads; else restore an older snapshot"
        ) from error


def table_rows(source: Any, table: int, start: bytes) -> Rows:
    """The rows of ``table`` in an open database, from ``start`` on.

    An upper bound in the read options would be the obvious way, but ``rocksdict`` frees its bytes too early.
    """
    prefix = TABLE.pack(table)
    for item in source.items(from_key=start or prefix):
        if not item[0].startswith(prefix):
            return
        yield item


# --- the package -------------------------------------------------------------------------------------


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


def _database_options(memory_bytes: int) -> Any:
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
    options.set_max_manifest_file_size(_MANIFEST_BYTES)
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
    """Options to look into the files of a snapshot; a working database has more."""
    options = rocksdict().Options(raw_mode=True)
    options.set_max_open_files(_OPEN_FILES)
    options.set_keep_log_file_num(1)
    options.set_max_log_file_size(_LOG_BYTES)
    options.set_stats_dump_period_sec(0)
    return options


def _unlogged() -> Any:
    """How rows are written: without a log, because a lost database is restored from a snapshot."""
    options = rocksdict().WriteOptions()
    options.disable_wal = True
    return options
