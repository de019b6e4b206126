"""``CheckpointConfig``: PyFlink's setters over the configuration's keys."""

from __future__ import annotations

from typing import Any

from penstock.core import options
from penstock.core.config import Configuration
from penstock.core.durations import Duration, DurationLike, to_millis
from penstock.core.errors import ConfigError
from penstock.core.option import Option
from penstock.core.wanted import wanted
from penstock.datastream.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.datastream.externalized_checkpoint_retention import (
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
)

__all__ = ["CheckpointConfig", "ExternalizedCheckpointCleanup", "ExternalizedCheckpointRetention"]


class CheckpointConfig:
    """Settings of snapshots, from ``env.get_checkpoint_config()``. Each is a key of the configuration.

    >>> env = env.enable_checkpointing("10 s")
    >>> config = env.get_checkpoint_config().set_checkpoint_storage_dir("file:///data/checkpoints")
    >>> config.get_checkpoint_interval(), config.get_checkpointing_mode().name
    (10000, 'EXACTLY_ONCE')
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def _set(self, option: Option[Any], value: object) -> CheckpointConfig:
        self._configuration.set_string(option.key, str(value))
        return self

    def _get(self, option: Option[Any]) -> Any:
        return self._configuration.get(option)

    def is_checkpointing_enabled(self) -> bool:
        """Whether periodic snapshots are on."""
        return self._get(options.CHECKPOINT_INTERVAL) is not None

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The guarantee."""
        return CheckpointingMode[self._get(options.CHECKPOINT_MODE).upper()]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set the guarantee."""
        return self._set(options.CHECKPOINT_MODE, wanted(CheckpointingMode, checkpointing_mode).name)

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between snapshots; -1 if off."""
        interval: int | None = self._get(options.CHECKPOINT_INTERVAL)
        return -1 if interval is None else interval

    def set_checkpoint_interval(self, checkpoint_interval: DurationLike) -> CheckpointConfig:
        """Set the time between snapshots."""
        millis = to_millis(checkpoint_interval)
        if millis < 10:
            raise ConfigError(f"the checkpoint interval must be at least 10 ms, not {millis} ms")
        return self._set(options.CHECKPOINT_INTERVAL, f"{millis} ms")

    def get_checkpoint_timeout(self) -> int:
        """Milliseconds after which a snapshot is given up."""
        return int(self._get(options.CHECKPOINT_TIMEOUT))

    def set_checkpoint_timeout(self, checkpoint_timeout: DurationLike) -> CheckpointConfig:
        """Set the time after which a snapshot is given up."""
        millis = to_millis(checkpoint_timeout)
        if millis < 10:
            raise ConfigError(f"the checkpoint timeout must be at least 10 ms, not {millis} ms")
        return self._set(options.CHECKPOINT_TIMEOUT, f"{millis} ms")

    def get_min_pause_between_checkpoints(self) -> int:
        """Least milliseconds between the end of a snapshot and the start of the next."""
        return int(self._get(options.CHECKPOINT_MIN_PAUSE))

    def set_min_pause_between_checkpoints(
        self, min_pause_between_checkpoints: DurationLike
    ) -> CheckpointConfig:
        """Set the least pause."""
        return self._set(options.CHECKPOINT_MIN_PAUSE, f"{to_millis(min_pause_between_checkpoints)} ms")

    def get_max_concurrent_checkpoints(self) -> int:
        """How many snapshots may be under way at once."""
        return int(self._get(options.CHECKPOINT_MAX_CONCURRENT))

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set how many snapshots may be under way at once."""
        if max_concurrent_checkpoints < 1:
            raise ConfigError("max concurrent checkpoints must be at least 1")
        return self._set(options.CHECKPOINT_MAX_CONCURRENT, max_concurrent_checkpoints)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether the first failed snapshot restarts the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Restart at the first failed snapshot, or never because of one."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else 2**31 - 1)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Failed snapshots in a row that are tolerated."""
        return int(self._get(options.CHECKPOINT_TOLERABLE_FAILURES))

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Set how many failed snapshots in a row are tolerated."""
        if tolerable_checkpoint_failure_number < 0:
            raise ConfigError("the tolerable checkpoint failure number must not be negative")
        return self._set(options.CHECKPOINT_TOLERABLE_FAILURES, tolerable_checkpoint_failure_number)

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """What happens to checkpoints on cancellation."""
        return self._set(
            options.CHECKPOINT_RETENTION, wanted(ExternalizedCheckpointRetention, retention_mode).name
        )

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What happens to checkpoints on cancellation."""
        return ExternalizedCheckpointRetention[self._get(options.CHECKPOINT_RETENTION).upper()]

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether a retention was chosen."""
        chosen = self.get_externalized_checkpoint_retention()
        return chosen is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def enable_externalized_checkpoints(
        self, cleanup_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """The 1.x name of :meth:`set_externalized_checkpoint_retention`."""
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    def set_externalized_checkpoint_cleanup(
        self, cleanup_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """The 1.x name of :meth:`set_externalized_checkpoint_retention`."""
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    def get_externalized_checkpoint_cleanup(self) -> ExternalizedCheckpointRetention:
        """The 1.x name of :meth:`get_externalized_checkpoint_retention`."""
        return self.get_externalized_checkpoint_retention()

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let barriers overtake queued records, so that checkpoints are quick under backpressure."""
        return self._set(options.UNALIGNED, str(bool(enabled)).lower())

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Barriers stay behind the records before them."""
        return self.enable_unaligned_checkpoints(False)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers may overtake."""
        return bool(self._get(options.UNALIGNED))

    def set_aligned_checkpoint_timeout(self, alignment_timeout: DurationLike) -> CheckpointConfig:
        """How long an unaligned checkpoint is tried aligned first; 0 for not at all."""
        return self._set(options.ALIGNED_TIMEOUT, f"{to_millis(alignment_timeout)} ms")

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """How long an unaligned checkpoint is tried aligned first."""
        return Duration.of_millis(self._get(options.ALIGNED_TIMEOUT))

    def set_alignment_timeout(self, alignment_timeout: DurationLike) -> CheckpointConfig:
        """The 1.x name of :meth:`set_aligned_checkpoint_timeout`."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """The 1.x name of :meth:`get_aligned_checkpoint_timeout`."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Remembered, without effect: exchanges that cannot be unaligned stay aligned."""
        return self._set(options.UNALIGNED_FORCED, str(bool(force_unaligned_checkpoints)).lower())

    def is_force_unaligned_checkpoints(self) -> bool:
        """What :meth:`set_force_unaligned_checkpoints` was told."""
        return bool(self._get(options.UNALIGNED_FORCED))

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Keep snapshots in this directory (a path or a URL)."""
        return self._set(options.CHECKPOINT_DIR, checkpoint_path)

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Keep snapshots in the driver's memory or in a file system."""
        if isinstance(storage, FileSystemCheckpointStorage):
            return self.set_checkpoint_storage_dir(str(storage.get_checkpoint_path()))
        if isinstance(storage, JobManagerCheckpointStorage):
            return self._set(options.CHECKPOINT_STORAGE, "jobmanager")
        raise ConfigError(f"{type(storage).__name__} is not a known checkpoint storage")

    def get_checkpoint_storage(self) -> CheckpointStorage:
        """Where snapshots are kept."""
        directory: str | None = self._get(options.CHECKPOINT_DIR)
        if directory is None or self._get(options.CHECKPOINT_STORAGE) == "jobmanager":
            return JobManagerCheckpointStorage()
        return FileSystemCheckpointStorage(directory)
