"""How a program is run."""

from __future__ import annotations

from enum import Enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """Streaming, batch, or batch when all sources are bounded.

    >>> env = env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    >>> counted = env.from_collection([1, 2, 3]).key_by(lambda n: "all").reduce(lambda a, b: a + b)
    >>> list(counted.execute_and_collect())  # a batch job gives final results only
    [6]
    """

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
