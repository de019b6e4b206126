"""What flows through channels beside data, in order with it.

A barrier never overtakes a record, except in unaligned mode, where it overtakes all queued data and
the overtaken data becomes part of the snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.core.batch import Batch
from penstock.core.ids import Epoch, EventTime, WallMs

_LONG_AGO = WallMs(0)


class SnapshotKind(Enum):
    """Why a snapshot is taken."""

    CHECKPOINT = "checkpoint"
    """Periodic, owned by the engine."""
    SAVEPOINT = "savepoint"
    """Asked for by a person, kept until a person deletes it."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """No more records with a timestamp at or before ``time`` are expected on this channel."""

    time: EventTime


@dataclass(frozen=True, slots=True)
class Idle:
    """The channel leaves the watermark's minimum until further notice."""


@dataclass(frozen=True, slots=True)
class Active:
    """The channel counts again."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """Separates the records of snapshot ``epoch`` from those after it."""

    epoch: Epoch
    kind: SnapshotKind = SnapshotKind.CHECKPOINT
    triggered_ms: WallMs = _LONG_AGO
    """When the driver decided it."""
    unaligned: bool = False
    """Whether it overtakes what is queued where the exchange allows it."""
    location: str | None = None
    """Root that a savepoint's files go to; checkpoints go to the job's own."""


@dataclass(frozen=True, slots=True)
class CancelBarrier:
    """Snapshot ``epoch`` was given up: whoever aligns for it goes on."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class EndOfInput:
    """The channel is closed for good; counts as a barrier of every later snapshot."""


Element = Batch | Watermark | Idle | Active | Barrier | CancelBarrier | EndOfInput

IDLE = Idle()
ACTIVE = Active()
END_OF_INPUT = EndOfInput()
