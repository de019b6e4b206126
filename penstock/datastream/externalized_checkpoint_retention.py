"""What happens to checkpoints when a job is cancelled."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExternalizedCheckpointCleanup", "ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(Enum):
    """Whether checkpoints are kept when a job is cancelled. On failure they are kept, on success deleted.

    >>> config = env.get_checkpoint_config()
    >>> config = config.set_externalized_checkpoint_retention(
    ...     ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    ... )
    >>> config.is_externalized_checkpoints_enabled()
    True
    """

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


ExternalizedCheckpointCleanup = ExternalizedCheckpointRetention
"""The 1.x name."""
