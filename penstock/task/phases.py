"""What a task is doing."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """Each ends in the next."""

    RUNNING = "reading input"
    FINISHED = "input has ended and all is flushed; answering snapshots until told to leave"
    CLOSED = "resources are released"
