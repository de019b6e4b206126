"""Every snapshot that was begun: how it went, and what each subtask took for it.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from penstock.core.ids import Epoch, Subtask, WallMs
from penstock.core.messages import SnapshotAck, TriggerSnapshot
from penstock.core.signals import SnapshotKind

_KEPT = 40
"""Snapshots that are remembered with all their parts."""


class CheckpointState(Enum):
    """How a snapshot stands."""

    IN_PROGRESS = "waits for subtasks or for storage"
    COMPLETED = "durable"
    FAILED = "given up"


@dataclass(frozen=True, slots=True)
class CheckpointPart:
    """What one subtask contributed. Times in milliseconds."""

    acked_ms: WallMs
    sync_ms: float
    async_ms: float
    alignment_ms: float
    start_delay_ms: float
    state_bytes: int
    written_bytes: int
    persisted_bytes: int
    """Of records in flight that the barrier overtook."""


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """One snapshot."""

    epoch: Epoch
    kind: SnapshotKind
    unaligned: bool
    stop: bool
    """Whether the job ends behind it."""
    location: str | None
    """Where a savepoint goes."""
    triggered_ms: WallMs
    subtasks: int
    parts: Mapping[Subtask, CheckpointPart] = field(default_factory=dict)
    state: CheckpointState = CheckpointState.IN_PROGRESS
    ended_ms: WallMs | None = None
    failure: str | None = None

    @property
    def is_savepoint(self) -> bool:
        """Whether a person asked for it and owns it."""
        return self.kind is SnapshotKind.SAVEPOINT

    @property
    def latest_ack_ms(self) -> WallMs | None:
        """When the last subtask so far was done."""
        return max((part.acked_ms for part in self.parts.values()), default=None)

    @property
    def duration_ms(self) -> int | None:
        """From the trigger to the last acknowledgement, or to the end of one that failed."""
        last = self.ended_ms if self.state is CheckpointState.FAILED else self.latest_ack_ms
        return None if last is None else max(0, last - self.triggered_ms)


@dataclass(frozen=True, slots=True)
class RestoreRecord:
    """A snapshot that an attempt went on from."""

    epoch: Epoch
    restored_ms: WallMs
    root: str | None
    from_outside: bool
    """Whether the user named it; else it is one of the job's own."""


class CheckpointHistory:
    """The newest snapshots, oldest first, and counts of all."""

    def __init__(self) -> None:
        self._records: dict[Epoch, CheckpointRecord] = {}
        self._doubts: dict[Epoch, str] = {}
        self.counts: Counter[CheckpointState] = Counter()
        """How many were ever completed or failed."""
        self.begun = 0
        self.restores = 0
        self.restored: RestoreRecord | None = None
        self.latest: dict[str, CheckpointRecord] = {}
        """The newest ``completed`` checkpoint, ``savepoint`` and ``failed`` one, however long ago."""

    def records(self) -> list[CheckpointRecord]:
        """Those remembered, oldest first; none of them changes any more."""
        return [
            replace(one, parts=dict(one.parts)) if one.state is CheckpointState.IN_PROGRESS else one
            for one in self._records.values()
        ]

    def begin(self, message: TriggerSnapshot, subtasks: int) -> None:
        """A snapshot was triggered."""
        self.begun += 1
        self._records[message.epoch] = CheckpointRecord(
            message.epoch,
            message.kind,
            message.unaligned,
            message.stop,
            message.location,
            message.triggered_ms,
            subtasks,
            {},
        )
        while len(self._records) > _KEPT:
            del self._records[next(iter(self._records))]

    def ack(self, ack: SnapshotAck, now: WallMs) -> None:
        """A subtask's part is durable."""
        record = self._records.get(ack.epoch)
        if record is None or record.state is not CheckpointState.IN_PROGRESS:
            return
        assert isinstance(record.parts, dict)
        times = (ack.sync_ms, ack.async_ms, ack.alignment_ms, ack.start_delay_ms)
        sizes = (ack.state_bytes, ack.snapshot.written, ack.snapshot.persisted)
        record.parts[ack.snapshot.subtask] = CheckpointPart(now, *times, *sizes)

    def doubt(self, epoch: Epoch, why: str) -> None:
        """Something speaks against a snapshot: what is said if it is given up."""
        self._doubts.setdefault(epoch, why)

    def completed(self, epoch: Epoch, now: WallMs) -> CheckpointRecord | None:
        """It is durable; the record, if it is remembered and was not over before."""
        return self._end(epoch, CheckpointState.COMPLETED, now, None)

    def failed(self, epoch: Epoch, why: str, now: WallMs) -> CheckpointRecord | None:
        """It was given up; the record, if it was not over before."""
        return self._end(epoch, CheckpointState.FAILED, now, self._doubts.pop(epoch, why))

    def give_up_incomplete(self, why: str, now: WallMs) -> None:
        """The slots go away: what waits for them never comes; what only waits for storage may."""
        for record in list(self._records.values()):
            if record.state is CheckpointState.IN_PROGRESS and len(record.parts) < record.subtasks:
                self.failed(record.epoch, why, now)

    def restore(self, record: RestoreRecord) -> None:
        """An attempt goes on from a snapshot."""
        self.restores += 1
        self.restored = record

    def _end(
        self, epoch: Epoch, state: CheckpointState, now: WallMs, why: str | None
    ) -> CheckpointRecord | None:
        record = self._records.get(epoch)
        if record is None or record.state is not CheckpointState.IN_PROGRESS:
            return None
        ended = replace(record, state=state, ended_ms=now, failure=why)
        self._records[epoch] = ended
        self.counts[state] += 1
        if state is CheckpointState.FAILED:
            self.latest["failed"] = ended
        else:
            self.latest["savepoint" if record.is_savepoint else "completed"] = ended
        return ended
