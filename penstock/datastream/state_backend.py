"""Where working state lives while the job runs: in memory, or on disk.

A backend is only a set of settings; ``state.backend.type`` and its relatives say the same.  The last three
are those of PyFlink 1.x, each a backend and a checkpoint storage in one.
"""

from __future__ import annotations

from enum import Enum

from penstock.core import options
from penstock.core.errors import ConfigError

__all__ = [
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "FsStateBackend",
    "HashMapStateBackend",
    "MemoryStateBackend",
    "PredefinedOptions",
    "RocksDBStateBackend",
    "StateBackend",
]


class StateBackend:
    """Where keyed state lives while a job runs: base of the kinds.

    >>> type(env.get_state_backend()).__name__
    'HashMapStateBackend'
    """

    def settings(self) -> dict[str, str]:
        """What choosing this backend sets."""
        raise NotImplementedError


class HashMapStateBackend(StateBackend):
    """In the memory of the slots: fast, and no larger than that. The default.

    >>> env = env.set_state_backend(HashMapStateBackend())
    """

    def settings(self) -> dict[str, str]:
        """What choosing this backend sets."""
        return {options.STATE_BACKEND.key: "hashmap"}


class CustomStateBackend(StateBackend):
    """PyFlink's wrapper of a Java class; there is no Java here, so it cannot be made."""

    def __init__(self, *_: object) -> None:
        raise ConfigError(
            "a CustomStateBackend is a Java class; use HashMapStateBackend or EmbeddedRocksDBStateBackend"
        )


class PredefinedOptions(Enum):
    """Accepted for ported programs; memory is bounded per slot whatever the disks are.

    >>> EmbeddedRocksDBStateBackend().get_predefined_options()
    <PredefinedOptions.DEFAULT: 0>
    """

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class EmbeddedRocksDBStateBackend(StateBackend):
    """On the local disks of the slots, in RocksDB: as large as these are, with a cache in memory.

    Checkpoints are incremental unless ``enable_incremental_checkpointing`` is false.

    >>> type(env.set_state_backend(EmbeddedRocksDBStateBackend(True)).get_state_backend()).__name__
    'EmbeddedRocksDBStateBackend'
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        self._incremental = enable_incremental_checkpointing
        self._paths: list[str] = []
        self._predefined = PredefinedOptions.DEFAULT
        self._threads = 4

    def settings(self) -> dict[str, str]:
        """What choosing this backend sets."""
        found = {options.STATE_BACKEND.key: "rocksdb"}
        if self._incremental is not None:
            found[options.CHECKPOINT_INCREMENTAL.key] = str(self._incremental).lower()
        if self._paths:
            found[options.ROCKSDB_LOCALDIR.key] = self._paths[0]
        return found

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Whether checkpoints store only new files."""
        return self._incremental is not False

    def set_db_storage_paths(self, *paths: str) -> None:
        """Where slots keep their files; the first path is used."""
        if any(not path for path in paths):
            raise ConfigError("a path for the files of RocksDB is empty; name a directory on a local disk")
        self._paths = list(paths)

    def get_db_storage_paths(self) -> list[str] | None:
        """What was set."""
        return self._paths or None

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Kept, without effect."""
        self._predefined = options

    def get_predefined_options(self) -> PredefinedOptions:
        """What was set."""
        return self._predefined

    def set_options(self, options_factory_class_name: str) -> None:
        """Refused: a factory is a Java class."""
        raise ConfigError(
            f"{options_factory_class_name} is a Java class and cannot configure RocksDB here; the settings "
            "state.backend.rocksdb.* say what can be set"
        )

    def get_options(self) -> str | None:
        """Nothing."""
        return None

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Kept, without effect: files are stored by one thread of the slot."""
        self._threads = number_of_transfering_threads

    def get_number_of_transfer_threads(self) -> int:
        """What was set; else Flink's default."""
        return self._threads


class MemoryStateBackend(HashMapStateBackend):
    """State in the memory of the slots, checkpoints in the driver's: of PyFlink 1.x.

    >>> env = env.set_state_backend(MemoryStateBackend())
    """

    def __init__(
        self,
        checkpoint_path: str | None = None,
        savepoint_path: str | None = None,
        max_state_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
    ) -> None:
        self._savepoints = savepoint_path

    def settings(self) -> dict[str, str]:
        """What choosing this backend sets."""
        storage = {options.CHECKPOINT_STORAGE.key: "jobmanager"}
        return super().settings() | storage | _savepoints(self._savepoints)


class FsStateBackend(HashMapStateBackend):
    """State in the memory of the slots, checkpoints in a directory: of PyFlink 1.x.

    >>> FsStateBackend("file:///data/checkpoints").get_checkpoint_path()
    'file:///data/checkpoints'
    """

    def __init__(
        self,
        checkpoint_directory_uri: str | None = None,
        default_savepoint_directory_uri: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
    ) -> None:
        self._directory = checkpoint_directory_uri
        self._savepoints = default_savepoint_directory_uri

    def get_checkpoint_path(self) -> str | None:
        """The directory."""
        return self._directory

    def settings(self) -> dict[str, str]:
        """What choosing this backend sets."""
        return super().settings() | _checkpoints(self._directory) | _savepoints(self._savepoints)


class RocksDBStateBackend(EmbeddedRocksDBStateBackend):
    """State in RocksDB on the disks of the slots, checkpoints in a directory: of PyFlink 1.x.

    >>> env = env.set_state_backend(RocksDBStateBackend("file:///data/checkpoints"))
    """

    def __init__(
        self,
        checkpoint_data_uri: str | None = None,
        enable_incremental_checkpointing: bool | None = None,
        checkpoint_stream_backend: FsStateBackend | None = None,
    ) -> None:
        super().__init__(enable_incremental_checkpointing)
        inner = None if checkpoint_stream_backend is None else checkpoint_stream_backend.get_checkpoint_path()
        self._directory = checkpoint_data_uri or inner

    def settings(self) -> dict[str, str]:
        """What choosing this backend sets."""
        return super().settings() | _checkpoints(self._directory)


def _checkpoints(directory: str | None) -> dict[str, str]:
    return {} if directory is None else {options.CHECKPOINT_DIR.key: directory}


def _savepoints(directory: str | None) -> dict[str, str]:
    return {} if directory is None else {options.SAVEPOINT_DIR.key: directory}
