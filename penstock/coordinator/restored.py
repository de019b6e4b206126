"""What an attempt goes on from: a snapshot, dealt to the subtasks of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.core.handles import ChannelHandle, Committable
from penstock.core.ids import Epoch, OperatorId, SlotId, Subtask
from penstock.core.messages import OperatorRestore
from penstock.snapshot.manifest import Origin
from penstock.snapshot.permit import CommitPermit


@dataclass(frozen=True, slots=True)
class Restored:
    """What a claimed job goes on from."""

    epoch: Epoch
    root: str | None
    """Where the snapshot's files are; ``None`` if all its state is inline."""
    committables: tuple[Committable, ...]
    enumerators: dict[OperatorId, bytes]
    subtasks: dict[Subtask, dict[OperatorId, OperatorRestore]]
    permit: CommitPermit
    origin: Origin | None = None
    """The snapshot from outside that the job's line began with."""
    channels: dict[SlotId, tuple[ChannelHandle, ...]] = field(default_factory=dict)
    """Records that were in flight: what each slot must look at to find its share."""
