"""The guarantee that snapshots give."""

from __future__ import annotations

from enum import Enum

__all__ = ["CheckpointingMode"]


class CheckpointingMode(Enum):
    """Exactly once aligns barriers; at least once does not wait and may count records twice."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
