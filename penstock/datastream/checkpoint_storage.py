"""Where snapshots are kept."""

from __future__ import annotations

from penstock.core.errors import ConfigError

__all__ = [
    "CheckpointStorage",
    "CustomCheckpointStorage",
    "FileSystemCheckpointStorage",
    "JobManagerCheckpointStorage",
]


class CheckpointStorage:
    """Where snapshots are kept: base of the two kinds.

    >>> isinstance(env.get_checkpoint_config().get_checkpoint_storage(), JobManagerCheckpointStorage)
    True
    """


class CustomCheckpointStorage(CheckpointStorage):
    """PyFlink's wrapper of a Java class; there is no Java here, so it cannot be made."""

    def __init__(self, *_: object) -> None:
        raise ConfigError(
            "a CustomCheckpointStorage is a Java class; use FileSystemCheckpointStorage, which takes any URL "
            "that fsspec knows, with drivers of your own if need be"
        )


class JobManagerCheckpointStorage(CheckpointStorage):
    """In the driver's memory: survives failures of slots, not of the driver. For experiments.

    >>> config = env.get_checkpoint_config().set_checkpoint_storage(JobManagerCheckpointStorage())
    """

    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        self._path = checkpoint_path
        self._max = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size

    def get_checkpoint_path(self) -> str | None:
        """Unused; kept for ported programs."""
        return self._path

    def get_max_state_size(self) -> int:
        """Largest state of one subtask in bytes."""
        return self._max

    def get_savepoint_path(self) -> str | None:
        """Default directory of savepoints, if set."""
        return None


class FileSystemCheckpointStorage(CheckpointStorage):
    """In a directory: local, or any URL that fsspec knows. Driver and slots must all reach it.

    >>> storage = FileSystemCheckpointStorage("s3://bucket/checkpoints")
    >>> config = env.get_checkpoint_config().set_checkpoint_storage(storage)
    >>> config.get_checkpoint_storage().get_checkpoint_path()
    's3://bucket/checkpoints'
    """

    MAX_FILE_STATE_THRESHOLD = 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
    ) -> None:
        if checkpoint_path is None:
            raise ConfigError("FileSystemCheckpointStorage needs a directory")
        self._path = checkpoint_path
        self._threshold = 20 * 1024 if file_state_size_threshold is None else file_state_size_threshold
        self._buffer = 4096 if write_buffer_size < 0 else write_buffer_size

    def get_checkpoint_path(self) -> str:
        """The directory."""
        return self._path

    def get_savepoint_path(self) -> str | None:
        """Default directory of savepoints, if set."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """State below this many bytes travels in the manifest."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """Kept for ported programs; buffers size themselves."""
        return self._buffer
