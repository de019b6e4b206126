"""What an input gate tells its task."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.batch import Batch
from penstock.core.ids import Epoch, EventTime
from penstock.core.signals import Barrier
from penstock.exchange.channel_state import Overtaken


@dataclass(frozen=True, slots=True)
class Data:
    """Records for one of the task's inputs."""

    batch: Batch
    input_index: int


@dataclass(frozen=True, slots=True)
class TimeAdvanced:
    """The merged watermark grew, and/or the task's input as a whole went idle or active."""

    watermark: EventTime | None
    idle: bool | None


@dataclass(frozen=True, slots=True)
class BarrierReady:
    """The task takes its snapshot now: all barriers are there, or the first one has overtaken."""

    barrier: Barrier
    alignment_ms: float
    overtaken: Overtaken | None = None
    """What an unaligned barrier overtook; the snapshot is whole once this is complete."""


@dataclass(frozen=True, slots=True)
class OvertakenComplete:
    """The last barrier of an unaligned snapshot is there: nothing more is recorded for it."""

    epoch: Epoch
    alignment_ms: float


@dataclass(frozen=True, slots=True)
class SnapshotsCancelled:
    """These snapshots will not be completed."""

    epochs: tuple[Epoch, ...]


@dataclass(frozen=True, slots=True)
class InputEnded:
    """One input index has ended; ``all_ended`` when it was the last."""

    input_index: int
    all_ended: bool


SnapshotEvent = BarrierReady | OvertakenComplete | SnapshotsCancelled
GateEvent = Data | TimeAdvanced | InputEnded | SnapshotEvent
