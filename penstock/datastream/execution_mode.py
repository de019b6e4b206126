"""How a program is run."""

from __future__ import annotations

from enum import Enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """Streaming, batch, or batch when all sources are bounded."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
