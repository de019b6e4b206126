"""PyFlink 1.x's ``common.execution_mode``."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExecutionMode"]


class ExecutionMode(Enum):
    """How the tasks of a batch job once handed data on; has no effect here."""

    PIPELINED = 0
    PIPELINED_FORCED = 1
    BATCH = 2
    BATCH_FORCED = 3
