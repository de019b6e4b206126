"""Checkpoints wait while too many of those before them wait for their commit.  Pure.

Commits run one at a time and take everything that is ready, so a commit slower than the interval gathers
some epochs and no more: beyond a few, another checkpoint brings nothing to light sooner, it only makes every
manifest longer.  Design note 023.
"""

from __future__ import annotations

from penstock.coordinator.commits import CommitQueue
from penstock.coordinator.events import Held, Instruction
from penstock.core.ids import MonoMs


class CommitHold:
    """Knows whether a snapshot that is wanted has to wait, since when, and what it waits for."""

    def __init__(self, commits: CommitQueue) -> None:
        self.why: str | None = None
        """What users are told while something waits."""
        self._commits = commits
        self._since = MonoMs(0)
        self._late_ms = 0

    @property
    def is_full(self) -> bool:
        """Whether no further snapshot may begin, except one that nothing follows."""
        return self._commits.is_full

    def look(self, wanted: bool, now: MonoMs) -> list[Instruction]:
        """Tell users when a wanted snapshot begins to wait, and when it need not any more."""
        held = wanted and self.is_full
        if held is (self.why is not None):
            return []
        if held:
            first, last = self._commits.span()
            self.why = f"checkpoints are held: the commits of snapshots {first} to {last} wait"
            self._since = now
        else:
            self.why = None
            self._late_ms = now - self._since
        return [Held(self.why)]

    def late_ms(self) -> int:
        """How long the checkpoint that begins now was held."""
        late, self._late_ms = self._late_ms, 0
        return late

    def forget(self) -> None:
        """Whatever waited is gone with its worker group."""
        self.why = None
        self._late_ms = 0
