"""The guarantee that snapshots give."""

from __future__ import annotations

from enum import Enum

__all__ = ["CheckpointingMode"]


class CheckpointingMode(Enum):
    """Exactly once aligns barriers; at least once does not wait and may count records twice.

    >>> env.enable_checkpointing(1000, CheckpointingMode.AT_LEAST_ONCE).get_checkpointing_mode().name
    'AT_LEAST_ONCE'
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
