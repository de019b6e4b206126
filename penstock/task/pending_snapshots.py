"""The snapshots that a task has heard of: asked for, taken, given up."""

from __future__ import annotations

from penstock.core.ids import Epoch
from penstock.core.messages import TriggerSnapshot


class AskedSnapshots:
    """Each is taken once at most, in the order of their epochs."""

    def __init__(self) -> None:
        self._last = Epoch(0)
        self._asked: dict[Epoch, TriggerSnapshot] = {}
        self._given_up: set[Epoch] = set()

    def add(self, trigger: TriggerSnapshot) -> None:
        """One is asked for."""
        self._asked = {epoch: kept for epoch, kept in self._asked.items() if epoch >= self._last}
        self._asked[trigger.epoch] = trigger

    def waiting(self) -> list[TriggerSnapshot]:
        """Those that are not taken yet, oldest first."""
        return [trigger for epoch, trigger in sorted(self._asked.items()) if epoch > self._last]

    def begin(self, epoch: Epoch) -> bool:
        """Whether it is to be taken now; if so, it counts as taken."""
        if epoch <= self._last or epoch in self._given_up:
            return False
        self._last = epoch
        return True

    def give_up(self, epoch: Epoch) -> None:
        """Nobody wants it any more."""
        self._asked.pop(epoch, None)
        self._given_up = {known for known in (*self._given_up, epoch) if known > self._last}

    @property
    def end_the_job(self) -> bool:
        """Whether the job stops with the one that was taken last: nothing comes behind it."""
        taken = self._asked.get(self._last)
        return taken is not None and taken.stop
