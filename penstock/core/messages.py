"""Control messages between the coordinator (driver) and the slots.

Each direction is one ordered stream: what was sent first is handled first.  A slot's messages carry
its generation in the connection; those of an older generation never reach the coordinator's logic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.core.handles import ChannelHandle, Committable, KeyedPiece, SubtaskSnapshot
from penstock.core.ids import Epoch, EventTime, Generation, OperatorId, Subtask, VertexId, WallMs
from penstock.core.key_kinds import Kind
from penstock.core.signals import Barrier, SnapshotKind

# --- coordinator to slot ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OperatorRestore:
    """State of one operator for one new subtask, already cut to its share."""

    keyed: tuple[KeyedPiece, ...]
    lists: dict[str, tuple[str, tuple[Any, ...]]]
    """State name to (mode, items)."""
    old_hashes: bool = False
    """Whether keys of some kinds are stored in other key groups than they have today."""
    same_program: bool = False
    """Whether the driver that restores took the snapshot, too: its program has not changed in between."""
    key_kinds: tuple[Kind, ...] = ()
    """The kinds of keys that the operator's subtasks had met, if there were several."""


@dataclass(frozen=True, slots=True)
class Deploy:
    """Build the tasks of this slot, restore their state, connect to the peers, report, and run."""

    generation: Generation
    plan: bytes
    """The pickled :class:`~penstock.graph.plan.Plan`."""
    peers: bytes
    """Where each slot is reached: a document, of a dict of slot to host and port, made once for all slots."""
    restored_epoch: Epoch | None
    restore_root: str | None
    """Where the files of the restored snapshot are."""
    restore: dict[Subtask, dict[OperatorId, OperatorRestore]]
    attempt: int
    channels: tuple[ChannelHandle, ...] = ()
    """Overtaken records of the restored snapshot among which this slot's receivers find their share."""


@dataclass(frozen=True, slots=True)
class AssignSplits:
    """Splits for a source subtask; ``final`` says that no more will come."""

    subtask: Subtask
    splits: tuple[Any, ...]
    final: bool


@dataclass(frozen=True, slots=True)
class SplitsSettled:
    """A source subtask has its share of all splits that are known to come; one without any has no input."""

    subtask: Subtask


@dataclass(frozen=True, slots=True)
class TriggerSnapshot:
    """Sources start a barrier; finished tasks answer at once."""

    epoch: Epoch
    kind: SnapshotKind
    triggered_ms: WallMs
    """When the driver decided it."""
    unaligned: bool = False
    location: str | None = None
    """Root that a savepoint's files go to."""
    stop: bool = False
    """Sources read nothing more behind this barrier; if the snapshot is given up they go on."""

    def barrier(self) -> Barrier:
        """What a source sends out."""
        return Barrier(self.epoch, self.kind, self.triggered_ms, self.unaligned, self.location)


@dataclass(frozen=True, slots=True)
class EndInput:
    """Sources end here, as if nothing more would ever come: windows and timers fire behind them."""


@dataclass(frozen=True, slots=True)
class AbortSnapshot:
    """The snapshot was given up: release what is held for it."""

    epoch: Epoch
    reason: str = field(default="", compare=False)
    """For people."""


@dataclass(frozen=True, slots=True)
class SnapshotCompleted:
    """The snapshot was published."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class AlignWatermarks:
    """The slowest source of an alignment group is at ``slowest``: the others may be ahead by their drift."""

    group: str
    slowest: EventTime


@dataclass(frozen=True, slots=True)
class DriverMessageTaken:
    """The driver has dealt with one ``DriverMessage`` of the slot: credit for another."""


@dataclass(frozen=True, slots=True)
class TakeSamples:
    """Somebody wants to know what the slot spends its time with; :class:`Samples` is the answer."""


@dataclass(frozen=True, slots=True)
class TakeOutput:
    """Somebody wants to read what the slot's process has written lately; :class:`Output` is the answer."""


@dataclass(frozen=True, slots=True)
class TakeTail:
    """Somebody watches what comes to a vertex, or leaves it: the next :class:`Heartbeat` has some records."""

    vertex: VertexId
    leaving: bool
    secret: tuple[str, ...]
    """Names of fields that are not shown, see ``core/secret_fields.py``."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Close everything and return from the Spark task."""

    reason: str


ToSlot = (
    Deploy
    | AssignSplits
    | SplitsSettled
    | TriggerSnapshot
    | EndInput
    | AbortSnapshot
    | SnapshotCompleted
    | AlignWatermarks
    | DriverMessageTaken
    | TakeSamples
    | TakeOutput
    | TakeTail
    | Leave
)

# --- slot to coordinator ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opening:
    """The step that the slot restores and opens: told with its heartbeats while it builds its tasks."""

    subtask: Subtask
    step: str


@dataclass(frozen=True, slots=True)
class Deployed:
    """All tasks of the slot are open and connected."""


@dataclass(frozen=True, slots=True)
class SnapshotAck:
    """A subtask's part of a snapshot is durable."""

    epoch: Epoch
    snapshot: SubtaskSnapshot
    committables: tuple[Committable, ...]
    sync_ms: float
    async_ms: float
    alignment_ms: float
    state_bytes: int
    start_delay_ms: float = 0.0
    """From the trigger to the first barrier at this subtask, by the clocks of two processes."""
    counts: dict[str, float] = field(default_factory=dict)
    """What the subtask had counted when the barrier passed, by the names of its metrics."""


@dataclass(frozen=True, slots=True)
class SnapshotDeclined:
    """A subtask cannot take part in a snapshot."""

    epoch: Epoch
    subtask: Subtask
    reason: str
    overtaken: bool = False
    """A newer snapshot came first: nothing went wrong."""


@dataclass(frozen=True, slots=True)
class TaskFinished:
    """The subtask has reached the end of its input and flushed; it now only answers snapshots."""

    subtask: Subtask
    metrics: dict[str, float] = field(default_factory=dict)
    """Its last ones: a short job ends before the next heartbeat."""


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """The subtask raised; the slot leaves."""

    subtask: Subtask
    error: Exception


@dataclass(frozen=True, slots=True)
class WatermarkReport:
    """Where event time is at one place that makes watermarks: a subtask of a source, or of an assigner.

    Sent about once a second, and a last time when the subtask ends.
    """

    operator_id: OperatorId
    step: str
    subtask: int
    watermark: EventTime
    counts: bool
    """Whether the job waits for it: it is neither idle nor at its end."""
    reading: bool
    """Whether it has anything to read; one without splits holds no alignment group back."""
    holder: str
    """What holds this subtask's watermark where it is, in words."""
    group: str | None = None
    """The alignment group; an :class:`AlignWatermarks` is the answer."""
    split: str | None = None
    """The split that holds it, where one does."""
    given: int | None = None
    """Records that came since the watermark last grew, where somebody counts them."""
    blocked: bool = False
    """Whether it is backpressured, which is then what holds it."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something in its records that a step finds odd, sent once by each subtask that does.

    People hear of it once a step and ``kind``; more of the same is counted.
    """

    step: str
    kind: str
    text: str
    """What was found and what to do, in one paragraph."""


@dataclass(frozen=True, slots=True)
class DriverMessage:
    """Something a sink writer sends to its driver side (printed lines, collected rows)."""

    operator_id: OperatorId
    payload: Any


@dataclass(frozen=True, slots=True)
class HotGroups:
    """A sample of the records that went to a keyed step: how many, and how many of the hottest key groups."""

    records: int
    counts: dict[int, int]

    def joined(self, other: HotGroups | None) -> HotGroups:
        """Both together."""
        if other is None:
            return self
        groups = dict.fromkeys((*self.counts, *other.counts))
        counts = {group: self.counts.get(group, 0) + other.counts.get(group, 0) for group in groups}
        return HotGroups(self.records + other.records, counts)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The slot lives. Carries metrics of its tasks now and then."""

    metrics: dict[Subtask, dict[str, float]] = field(default_factory=dict)
    used_bytes: int = 0
    """Memory of the slot's process; 0 if it does not know."""
    process: dict[str, float] = field(default_factory=dict)
    """What else it says of its process now and then, see ``core/process_facts.py``."""
    hot_groups: dict[VertexId, HotGroups] = field(default_factory=dict)
    """Of the keyed vertices that its tasks send to, see ``exchange/hot_groups.py``."""
    tails: dict[VertexId, tuple[str, ...]] = field(default_factory=dict)
    """Some records of the vertices that somebody watches, as text, see ``exchange/tail.py``."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Where the slot's threads were, see ``task/sampling.py``."""

    rounds: int
    """How often they were looked at."""
    stacks: dict[str, dict[str, int]]
    """Of each vertex: frames from the outermost on, with semicolons, and how often they were seen."""
    threads: dict[str, str]
    """Name and stack of every thread, the last time."""


@dataclass(frozen=True, slots=True)
class Output:
    """The end of what a process has written, secrets included, see ``core/written.py``."""

    log: str
    stdout: str


FromSlot = (
    Opening
    | Deployed
    | SnapshotAck
    | SnapshotDeclined
    | TaskFinished
    | TaskFailed
    | WatermarkReport
    | Remark
    | DriverMessage
    | Heartbeat
    | Samples
    | Output
)
