"""What a task is handed from outside: time, storage, a second thread, and a way to speak.

The simulator hands in virtual ones; on Spark they are real.  Nothing else in this package touches
the outside world.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.core.clock import Clock
from penstock.core.handles import SubtaskSnapshot
from penstock.core.ids import Epoch, Generation
from penstock.core.messages import FromSlot, Opening
from penstock.state.backend import FileStorage
from penstock.state.registry import BUILT_IN, StateBackends

IN_DRIVER_MEMORY = "driver-memory:"
"""URL of storage that keeps nothing itself: all state travels to the driver."""


class StateStorage(FileStorage, Protocol):
    """Where state files go.  What was written is safe to be acknowledged."""

    url: str
    """Where that is; the same for all who write there."""
    inline_limit: int
    """State up to this many bytes travels inside the acknowledgement instead of a file."""


class Backup(Protocol):
    """Keeps copies of snapshot files at hand. Called beside the task's thread, where they are written."""

    def taken(self, epoch: Epoch, snapshot: SubtaskSnapshot) -> None:
        """A subtask has written its part of a checkpoint."""
        ...

    def completed(self, epoch: Epoch) -> None:
        """A snapshot is complete."""
        ...

    def remove(self) -> None:
        """All tasks have finished: nothing will be restored."""
        ...


class Background(Protocol):
    """Runs work beside the task's thread."""

    def submit(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        """Run ``work`` elsewhere, then ``done(result, error)`` on the task's thread."""
        ...


@dataclass(frozen=True, slots=True)
class TaskEnvironment:
    """Everything a task uses that is not its own."""

    clock: Clock
    storage: StateStorage
    background: Background
    report: Callable[[FromSlot], None]
    """Send a message to the coordinator."""
    open_storage: Callable[[str], StateStorage]
    """Storage at another root, to restore from."""
    generation: Generation
    congested: Callable[[], bool] = lambda: False
    """Whether so many messages to the driver wait to be taken that no more should be made."""
    opening: Callable[[Opening], None] = lambda opening: None
    """Told what the slot is at while it builds its tasks."""
    wake: Callable[[], None] | None = None
    """Has the slot look at its tasks again, from any thread; ``None`` if everything runs on one thread."""
    backup: Backup | None = None
    backends: StateBackends = BUILT_IN
    """What may keep keyed state."""
