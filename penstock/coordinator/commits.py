"""What is prepared but not yet visible.

Committables of epoch n may be committed once n is published; until that is confirmed they are carried
in every later manifest, so whatever snapshot a restart picks, nothing prepared is forgotten.  One
commit runs at a time, oldest epoch first.
"""

from __future__ import annotations

from penstock.connectors.sink import CommitOutcome
from penstock.coordinator.events import Commit, CommitDone
from penstock.core.clock import later
from penstock.core.error_codes import Code
from penstock.core.errors import ConnectorError
from penstock.core.handles import Committable
from penstock.core.ids import Epoch, MonoMs
from penstock.snapshot.permit import CommitPermit

MOST_WAITING = 4
"""Epochs that may wait for their commit before the next checkpoint does: one whose commit runs, and those
that gather behind it for the next."""


class CommitQueue:
    """Orders commits and counts retries. Pure."""

    def __init__(self, retries: int, backoff_ms: int) -> None:
        self._retries = retries
        self._backoff_ms = backoff_ms
        self._open: list[Committable] = []
        self._epochs: frozenset[Epoch] = frozenset()
        """Of what is open."""
        self._attempts = 0
        self._permit: CommitPermit | None = None
        self._running: tuple[Committable, ...] = ()
        self._not_before: MonoMs | None = None
        self.dropped = 0
        """Prepared outputs that can never be committed; told as a fact of the job."""

    def restart(self, committables: tuple[Committable, ...], permit: CommitPermit | None) -> None:
        """Begin anew with what a restored snapshot holds."""
        self._keep(sorted(committables, key=_order))
        self._permit = permit
        self._attempts = 0
        self._running = ()
        self._not_before = None

    def _keep(self, committables: list[Committable]) -> None:
        self._open, self._epochs = committables, frozenset(item.epoch for item in committables)

    @property
    def is_empty(self) -> bool:
        """Whether everything published is committed."""
        return not self._open

    @property
    def is_full(self) -> bool:
        """Whether so many epochs wait that no other should join them."""
        return len(self._epochs) >= MOST_WAITING

    def span(self) -> tuple[Epoch, Epoch]:
        """The oldest and the newest epoch that wait; there must be one."""
        return min(self._epochs), max(self._epochs)

    def unconfirmed(self) -> tuple[Committable, ...]:
        """To be carried in the next manifest."""
        return tuple(self._open)

    def published(self, committables: tuple[Committable, ...], permit: CommitPermit) -> None:
        """A snapshot with these committables is published; tasks may repeat those of the one before."""
        known = set(self._open)
        self._keep([*self._open, *(item for item in committables if item not in known)])
        self._permit = permit

    def next(self, now: MonoMs) -> Commit | None:
        """The next commit to run, if one may run now."""
        if self._running or not self._open or self._permit is None:
            return None
        if self._not_before is not None and now < self._not_before:
            return None
        ready = tuple(item for item in self._open if item.epoch <= self._permit.epoch)
        self._running = ready
        return Commit(self._permit, ready) if ready else None

    def done(self, event: CommitDone, now: MonoMs) -> None:
        """Outcomes are there. Raises when retrying is no use any more.

        Those of a commit that an earlier attempt had started say nothing about the one that runs now.
        """
        if event.committables != self._running:
            return
        self._running = ()
        retry = []
        for item, outcome in zip(event.committables, event.outcomes, strict=True):
            if outcome is CommitOutcome.RETRY:
                retry.append(item)
            elif outcome is CommitOutcome.DROPPED:
                self.dropped += 1
        handled = set(event.committables) - set(retry)
        self._keep([item for item in self._open if item not in handled])
        self._attempts = self._attempts + 1 if retry else 0
        if self._attempts > self._retries:
            raise ConnectorError(
                f"{len(retry)} prepared outputs could not be committed in {self._retries} tries; they "
                "stay in the newest snapshot and are committed when the job is started again",
                code=Code.NOT_COMMITTED,
            )
        self._not_before = later(now, self._backoff_ms * self._attempts) if retry else None

    def failed(self) -> None:
        """The committer raised: everything stays open."""
        self._running = ()

    def next_wake(self) -> MonoMs | None:
        """When a retry is due."""
        return self._not_before if self._open and not self._running else None


def _order(item: Committable) -> tuple[int, str, int]:
    return (item.epoch, item.operator_id, item.subtask_index)
