"""What happens to a job, and what the coordinator wants done about it."""

# long because one list of all events, and one of all instructions, says more than pieces of them
from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.connectors.sink import CommitOutcome
from penstock.coordinator.layout import Layout
from penstock.coordinator.restored import Restored
from penstock.core.handles import Committable
from penstock.core.ids import Epoch, Generation, OperatorId, SlotId
from penstock.core.job import JobStatus
from penstock.core.messages import FromSlot, ToSlot
from penstock.graph.plan import Plan
from penstock.snapshot.manifest import Manifest
from penstock.snapshot.permit import CommitPermit

# --- what clients ask for -----------------------------------------------------------------------


class RequestKind(Enum):
    """What a client wants of a running job."""

    CHECKPOINT = "checkpoint"
    """A checkpoint now, out of turn."""
    SAVEPOINT = "savepoint"
    """A copy of the state, while the job goes on."""
    STOP = "stop"
    """A savepoint, and the end of the job behind it: nothing is read any more, no timer fires."""
    DRAIN = "drain"
    """The end of input now: windows and timers fire, then a savepoint, then the end of the job."""
    RESCALE = "rescale"
    """A checkpoint, and from it the job goes on at another parallelism."""

    @property
    def ends_job(self) -> bool:
        """Whether the job is over when the request is fulfilled."""
        return self in (RequestKind.STOP, RequestKind.DRAIN)

    @property
    def ends_attempt(self) -> bool:
        """Whether the worker group is over when the request is fulfilled."""
        return self.ends_job or self is RequestKind.RESCALE

    @property
    def noun(self) -> str:
        """What is made."""
        return "savepoint" if self.ends_job else self.value


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """One client's request; ``location`` is the URL of the directory a savepoint goes to."""

    id: str
    kind: RequestKind
    location: str | None = None
    layout: Layout | None = None
    """What a rescale goes on with."""
    regains: bool = False
    """Whether a rescale gives the job back what it lacks, and nobody has asked for it."""


# --- events -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """Begin."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """The job is ours under this generation; the newest usable snapshot, if there is one."""

    generation: Generation
    last_epoch: Epoch
    """The highest epoch ever used; new ones start above it."""
    restored: Restored | None


@dataclass(frozen=True, slots=True)
class ClaimFailed:
    """The job could not be claimed or restored: a matter for the user."""

    error: Exception


@dataclass(frozen=True, slots=True)
class SplitsDiscovered:
    """A source's enumerator answered."""

    generation: Generation
    operator_id: OperatorId
    splits: tuple[Any, ...]
    state: bytes
    final: bool
    expecting: bool = False
    """Whether more splits are sure to come."""


@dataclass(frozen=True, slots=True)
class DiscoveryFailed:
    """A source's enumerator raised."""

    generation: Generation
    operator_id: OperatorId
    error: Exception


@dataclass(frozen=True, slots=True)
class SlotRegistered:
    """A slot of the worker group is there; other slots reach it at ``address``."""

    generation: Generation
    slot: SlotId
    address: tuple[str, int]


@dataclass(frozen=True, slots=True)
class SlotLost:
    """The connection to a slot broke, or it stopped sending heartbeats."""

    generation: Generation
    slot: SlotId
    reason: str


@dataclass(frozen=True, slots=True)
class SlotSaid:
    """A message from a slot."""

    generation: Generation
    slot: SlotId
    message: FromSlot


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """The Spark job of the worker group is over; its slots are free again."""

    generation: Generation
    error: Exception | None


@dataclass(frozen=True, slots=True)
class PublishDone:
    """A snapshot is published."""

    epoch: Epoch
    permit: CommitPermit


@dataclass(frozen=True, slots=True)
class SavepointWritten:
    """A standalone savepoint is complete; nothing is committed for it."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class PublishFailed:
    """A snapshot could not be published, or a savepoint not be completed."""

    epoch: Epoch
    error: Exception


@dataclass(frozen=True, slots=True)
class CommitDone:
    """Outcomes, one for each committable that was to be committed."""

    committables: tuple[Committable, ...]
    outcomes: tuple[CommitOutcome, ...]


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """A committer raised."""

    error: Exception


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """A client wants the job to end now."""

    keep: bool = False
    """Whether its checkpoints stay, whatever the retention: the user may want to go on."""


@dataclass(frozen=True, slots=True)
class SnapshotRequested:
    """A client wants a snapshot. An :class:`Answer` follows, always."""

    request: SnapshotRequest


@dataclass(frozen=True, slots=True)
class SamplesWanted:
    """Somebody wants to see what the slots spend their time with. The driver passes it on."""


@dataclass(frozen=True, slots=True)
class SlotsAsked:
    """Somebody wants to know something of a slot, or of all. The driver passes the question on."""

    message: ToSlot
    slot: SlotId | None = None


@dataclass(frozen=True, slots=True)
class SlotsFound:
    """How many slots there is room for, those of the worker group included; ``None``: that is not known."""

    generation: Generation
    room: int | None


@dataclass(frozen=True, slots=True)
class LaidOut:
    """The job laid out so that it fits; ``why`` is for the user."""

    generation: Generation
    layout: Layout
    why: str


@dataclass(frozen=True, slots=True)
class LayoutRefused:
    """The job cannot have this parallelism."""

    generation: Generation
    parallelism: int
    error: Exception


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = (
    Start
    | Claimed
    | ClaimFailed
    | SplitsDiscovered
    | DiscoveryFailed
    | SlotRegistered
    | SlotLost
    | SlotSaid
    | AttemptEnded
    | PublishDone
    | SavepointWritten
    | PublishFailed
    | CommitDone
    | CommitFailed
    | CancelRequested
    | SnapshotRequested
    | SamplesWanted
    | SlotsAsked
    | SlotsFound
    | LaidOut
    | LayoutRefused
    | Tick
)

# --- instructions -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Claim:
    """Take the job over in the journal and find what to restore."""

    checksums: bool = False
    """Whether to read all state of a snapshot before trusting it: after damage was found."""


@dataclass(frozen=True, slots=True)
class Discover:
    """Ask a source's enumerator for splits; ``state`` is restored into it first if given."""

    generation: Generation
    operator_id: OperatorId
    state: bytes | None
    restore: bool
    from_end: bool = False
    """Whether the splits are to be read from their current ends: the job has no checkpoints and failed."""


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Start the worker group."""

    generation: Generation
    slots: int


@dataclass(frozen=True, slots=True)
class StopAttempt:
    """End the worker group; an ``AttemptEnded`` must follow, also if it never started."""

    generation: Generation
    reason: str


@dataclass(frozen=True, slots=True)
class Send:
    """Give a message to a slot."""

    slot: SlotId
    message: ToSlot


@dataclass(frozen=True, slots=True)
class SendAll:
    """Give a message to every slot."""

    message: ToSlot


@dataclass(frozen=True, slots=True)
class Publish:
    """Write the manifest and publish it."""

    manifest: Manifest
    location: str | None = None
    """Where a savepoint goes."""
    standalone: bool = False
    """Whether the savepoint is a copy outside the history: ``SavepointWritten`` follows, without a permit."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request: an error, or where the snapshot is."""

    request: SnapshotRequest
    error: Exception | None
    where: str | None = None
    discard: bool = False
    """Whether what was written at the request's location is of no use."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit, in this order."""

    permit: CommitPermit
    committables: tuple[Committable, ...]


@dataclass(frozen=True, slots=True)
class ReportFailure:
    """Tell the user about a failure that the job recovers from."""

    error: Exception
    restart_in_ms: int


@dataclass(frozen=True, slots=True)
class Stalled:
    """Tell the user that event time stands still, and why; ``None``: it moves again."""

    why: str | None


@dataclass(frozen=True, slots=True)
class Held:
    """Tell the user that checkpoints wait for commits, and which; ``None``: they go on."""

    why: str | None


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """The job's status as users see it."""

    status: JobStatus
    planned: bool = False
    """Whether it is so because somebody wanted it: a restart that is none of a failure."""


@dataclass(frozen=True, slots=True)
class PlanChanged:
    """From here to the next one all attempts have this plan: no worker group runs."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Rescaled:
    """Tell the user how a rescale goes; ``error`` is why it came to nothing."""

    text: str
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class LookForSlots:
    """Ask how many slots there is room for: ``SlotsFound`` follows."""

    generation: Generation


@dataclass(frozen=True, slots=True)
class LayOut:
    """Lay the job out for a worker group that fits: ``LaidOut`` or ``LayoutRefused`` follows."""

    generation: Generation
    parallelism: int
    room: int
    why: str


@dataclass(frozen=True, slots=True)
class Regain:
    """Rescale the job towards what it wants: as if a client had asked, or ``LayoutRefused`` follows."""

    generation: Generation
    parallelism: int


@dataclass(frozen=True, slots=True)
class EndJob:
    """Terminal. ``delete_snapshots`` says what happens to the checkpoints."""

    status: JobStatus
    error: Exception | None
    delete_snapshots: bool
    answers: tuple[Answer, ...] = ()
    """To requests that the end of the job fulfils or makes impossible."""
    abandoned: Generation | None = None
    """What attempts up to this one prepared, and is not committed by now, never will be."""


Instruction = (
    Claim
    | Discover
    | StartAttempt
    | StopAttempt
    | Send
    | SendAll
    | Publish
    | Answer
    | Commit
    | ReportFailure
    | Stalled
    | Held
    | StatusChanged
    | PlanChanged
    | Rescaled
    | LookForSlots
    | LayOut
    | Regain
    | EndJob
)
