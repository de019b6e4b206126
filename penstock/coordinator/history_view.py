"""What a job's history shows: a copy of it at one moment, which does not change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.coordinator.attempt_history import AttemptRecord, SlotRecord, TaskRecord
from penstock.coordinator.checkpoint_history import CheckpointRecord, RestoreRecord
from penstock.coordinator.failure_history import FailureRecord
from penstock.coordinator.metric_history import Values
from penstock.coordinator.rate_history import RatesAt
from penstock.coordinator.sightings import Seen
from penstock.core.ids import OperatorId, SlotId, Subtask, WallMs
from penstock.core.job import JobStatus
from penstock.core.messages import Samples, WatermarkReport
from penstock.graph.plan import Plan


@dataclass(frozen=True, slots=True)
class Happening:
    """A line of the job's own log of events."""

    at_ms: WallMs
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class HistoryView:
    """The history at one moment."""

    plan: Plan
    started_ms: WallMs
    ended_ms: WallMs | None
    statuses: tuple[tuple[JobStatus, WallMs], ...]
    """Changes, oldest first."""
    since: Mapping[JobStatus, WallMs]
    """When the job last came into each status."""
    attempt: int
    """Number of the newest attempt, from 0; -1 if none has begun."""
    attempts: tuple[AttemptRecord, ...]
    tasks: Mapping[Subtask, TaskRecord]
    slots: Mapping[SlotId, SlotRecord]
    checkpoints: tuple[CheckpointRecord, ...]
    checkpoint_counts: Mapping[str, int]
    """``total``, ``in_progress``, ``completed``, ``failed``, ``restored``."""
    latest: Mapping[str, CheckpointRecord]
    restored: RestoreRecord | None
    failures: tuple[FailureRecord, ...]
    failure_count: int
    events: tuple[Happening, ...]
    metrics: Mapping[Subtask, Values]
    rates: Mapping[Subtask, Values]
    watermarks: Mapping[tuple[OperatorId, int], WatermarkReport]
    """What each maker of watermarks said last."""
    stalled: str | None
    held: str | None
    samples: Mapping[SlotId, tuple[WallMs, Samples]] = field(default_factory=dict)
    """What slots were seen at last, if anybody asked."""
    minutes: tuple[RatesAt, ...] = ()
    """How fast the vertices were lately, oldest first."""
    seen: Seen = field(default_factory=Seen)
