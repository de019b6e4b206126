"""When to take a snapshot: interval, pause, concurrency, timeout, tolerated failures, held commits.  Pure.

Checkpoints wait while too many of those before them wait for their commit.  Commits run one at a time and
take everything that is ready, so a commit slower than the interval gathers some epochs and no more: beyond a
few, another checkpoint brings nothing to light sooner, it only makes every manifest longer.  Design note 023.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from penstock.coordinator.commits import CommitQueue
from penstock.coordinator.events import Held, Instruction
from penstock.coordinator.settings import JobSettings
from penstock.core.clock import later
from penstock.core.handles import Committable, SubtaskSnapshot
from penstock.core.ids import Epoch, MonoMs, OperatorId, Subtask
from penstock.core.messages import SnapshotAck
from penstock.core.signals import SnapshotKind


class FailureKind(Enum):
    """Why a snapshot did not come about, and whether that counts against the tolerated number."""

    EXPIRED = ("it took longer than the checkpoint timeout", True)
    DECLINED = ("a task could not take part", True)
    NOT_PUBLISHED = ("it could not be written to the checkpoint storage", True)
    SUBSUMED = ("a newer one was completed first", False)

    def __init__(self, text: str, counts: bool) -> None:
        self.text = text
        self.counts = counts


@dataclass(slots=True)
class PendingSnapshot:
    """A snapshot that waits for acknowledgements."""

    epoch: Epoch
    kind: SnapshotKind
    triggered_at: MonoMs
    """When it was decided: its timeout counts from here."""
    final: bool
    """The job's last, because all tasks have finished or it was told to stop: when it is committed, the
    job is done."""
    enumerators: dict[OperatorId, bytes]
    """State of the split enumerators at the trigger."""
    missing: set[Subtask]
    acks: dict[Subtask, SnapshotAck] = field(default_factory=dict)
    location: str | None = None
    """Where a savepoint goes."""
    held_ms: int = 0
    """How long it waited for the commits of those before it."""

    @property
    def standalone(self) -> bool:
        """Whether it is a copy outside the history: neither published nor committed."""
        return self.kind is SnapshotKind.SAVEPOINT and not self.final

    def acknowledge(self, ack: SnapshotAck) -> bool:
        """Take an acknowledgement; true if it was the last. Repeated ones change nothing."""
        subtask = ack.snapshot.subtask
        if subtask not in self.missing:
            return False
        self.missing.discard(subtask)
        self.acks[subtask] = ack
        return not self.missing

    def snapshots(self) -> list[SubtaskSnapshot]:
        """What the subtasks contributed."""
        return [ack.snapshot for ack in self.acks.values()]

    def committables(self) -> tuple[Committable, ...]:
        """What the sinks prepared."""
        ordered = sorted(self.acks.items())
        return tuple(item for _, ack in ordered for item in ack.committables)


class SnapshotSchedule:
    """Decides when a periodic snapshot is due and when too many have failed."""

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings
        self._interval = settings.interval_ms
        if self._interval is not None:
            self._interval = max(self._interval, settings.min_pause_ms)
        self.max_concurrent = 1 if settings.min_pause_ms else settings.max_concurrent
        """Checkpoints that may be in flight. A pause between two only means something one at a time."""
        self._next_ms: MonoMs | None = None
        self._failures = 0

    def start(self, now: MonoMs) -> None:
        """All tasks run: count from here."""
        self._next_ms = None if self._interval is None else later(now, self._interval)

    def stop(self) -> None:
        """No more periodic snapshots in this attempt."""
        self._next_ms = None

    def is_due(self, now: MonoMs) -> bool:
        """Whether to trigger now, if not too many are in flight."""
        return self._next_ms is not None and now >= self._next_ms

    def hurry(self, now: MonoMs) -> None:
        """Make the next periodic snapshot due at once."""
        if self._next_ms is not None:
            self._next_ms = min(self._next_ms, now)

    def on_triggered(self, now: MonoMs) -> None:
        """A periodic snapshot was started."""
        assert self._interval is not None
        self._next_ms = later(now, self._interval)

    def on_completed(self, now: MonoMs) -> None:
        """A snapshot was published: failures are forgotten, the pause begins."""
        self._failures = 0
        if self._next_ms is not None:
            self._next_ms = max(self._next_ms, later(now, self._settings.min_pause_ms))

    def on_failed(self, kind: FailureKind) -> bool:
        """A snapshot failed; true if there were too many in a row and the job must restart."""
        if kind.counts:
            self._failures += 1
        return self._failures > self._settings.tolerable_failures

    def reset_failures(self) -> None:
        """A new attempt starts with a clean sheet."""
        self._failures = 0

    def next_wake(self) -> MonoMs | None:
        """When :meth:`is_due` may become true."""
        return self._next_ms


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
