"""What the pictures of barriers show: the engine's own channels, gate and aligners at work, step by step.

Nothing here decides anything.  Records and barriers are put into real channels, the real gate says what comes
out, and each step is written down.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.ids import ChannelId, EdgeId, Epoch, SubtaskIndex
from penstock.core.signals import Barrier
from penstock.exchange.barrier_alignment import Aligner, Alignment, AtLeastOnce, ExactlyOnce
from penstock.exchange.channel import SIGNAL_BYTES, InputChannel
from penstock.exchange.channel_state import Overtaken
from penstock.exchange.events import BarrierReady, Data, OvertakenComplete
from penstock.exchange.gate import NEVER, InputGate, Overtaking

NAMES = "AB"
BARRIER = "|"
SCRIPT = [
    ("A", "a1"),
    ("B", "b1"),
    ("B", "b2"),
    1,  # so many events are served
    ("A", BARRIER),
    ("A", "a2"),
    9,
    ("B", "b3"),
    ("B", BARRIER),
    ("B", "b4"),
    ("A", "a3"),
    9,
]
"""What arrives on which channel, and when the task gets to work. The barrier of B comes late."""


@dataclass(frozen=True)
class Step:
    """How things stand behind a step."""

    said: str
    queues: tuple[tuple[str, ...], ...]
    """By channel, the next to be served first."""
    held: frozenset[int]
    counted: tuple[str, ...]
    """The task's state: the records that it has counted."""
    snapshot: tuple[str, ...] | None = None
    """The state in the snapshot."""
    recorded: tuple[str, ...] = ()
    """Records on their way that are in the snapshot beside it."""


@dataclass(frozen=True)
class Watched:
    """A run, and what a crash behind it would lead to."""

    steps: list[Step]
    again: tuple[str, ...]
    """What the sources send again: all behind the barriers."""
    twice: tuple[str, ...]
    """Of it what the restored state has counted already."""
    lost: tuple[str, ...]


class _Told:
    """Between the gate and an aligner: which channels it holds."""

    def __init__(self, aligner: Aligner) -> None:
        self._aligner = aligner
        self.held: set[int] = set()

    def __getattr__(self, name: str) -> object:
        return getattr(self._aligner, name)

    def on_barrier(self, channel: int, barrier: Barrier) -> Alignment:
        found = self._aligner.on_barrier(channel, barrier)
        self.held = set() if found.release else self.held | ({channel} if found.block is not None else set())
        return found


class _Run:
    def __init__(self, aligner: Aligner, overtaking: Overtaking) -> None:
        self._channels = [
            InputChannel(ChannelId(EdgeId(0), SubtaskIndex(number), SubtaskIndex(0))) for number in (0, 1)
        ]
        self._told = _Told(aligner)
        inputs = [(channel, 0) for channel in self._channels]
        self._gate = InputGate(inputs, self._told, ManualClock(), overtaking)  # type: ignore[arg-type]
        self._barrier = Barrier(Epoch(1), unaligned=overtaking.allowed)
        self._counted: list[str] = []
        self._snapshot: tuple[str, ...] | None = None
        self._overtaken: Overtaken | None = None
        self.steps: list[Step] = []

    def arrive(self, things: list[tuple[str, str]]) -> None:
        for channel, thing in things:
            queue = self._channels[NAMES.index(channel)]
            if thing == BARRIER:
                queue.put(self._barrier, SIGNAL_BYTES)
            else:
                queue.put(Batch.of_rows([thing]), 1)
        self.steps.append(self._step([f"{_list(_named(things))} arrive", *self._snapshots()]))

    def serve(self, most: int) -> None:
        """Up to so many events; records that change nothing else are one step."""
        plain: list[str] = []
        waiting: Step | None = None
        for _ in range(most):
            held = set(self._told.held)
            event = self._gate.poll()
            said = self._happened(event, held)
            if isinstance(event, Data):
                self._count(event)
            if isinstance(event, Data) and not said:
                plain += event.batch.rows or []
                waiting = self._step([_counted(plain)])
                continue
            self.steps += [waiting] if waiting is not None else []
            plain, waiting = [], None
            if event is None:
                return
            if isinstance(event, Data):
                said.append(_counted(event.batch.rows or []))
            self.steps.append(self._step(said))
        self.steps += [waiting] if waiting is not None else []

    def _count(self, event: Data) -> None:
        self._counted += event.batch.rows or []

    def _happened(self, event: object, before: set[int]) -> list[str]:
        new = sorted(self._told.held - before)
        said = [f"{NAMES[number]}'s barrier is at the gate: {NAMES[number]} is held" for number in new]
        return said + self._snapshot_of(event)

    def _snapshots(self) -> list[str]:
        said: list[str] = []
        while (event := self._gate.poll_snapshot()) is not None:
            said += self._snapshot_of(event)
        return said

    def _snapshot_of(self, event: object) -> list[str]:
        if isinstance(event, BarrierReady):
            self._snapshot, self._overtaken = tuple(self._counted), event.overtaken
            if event.overtaken is not None:
                return ["the barrier overtakes what is queued, which is kept with the state"]
            return ["both barriers are there: the state is kept"]
        if isinstance(event, OvertakenComplete):
            return ["both barriers are there: the snapshot is whole"]
        return []

    def _step(self, said: list[str]) -> Step:
        queues = tuple(
            tuple(row for element in channel for row in _shown(element)) for channel in self._channels
        )
        kept = (self._snapshot, self.recorded())
        return Step("; ".join(said), queues, frozenset(self._told.held), tuple(self._counted), *kept)

    def recorded(self) -> tuple[str, ...]:
        """What the barrier has overtaken so far."""
        found: list[str] = []
        for _, entries in self._overtaken.channels() if self._overtaken is not None else []:
            found += [row for entry in entries if isinstance(entry, Batch) for row in entry.rows or []]
        return tuple(found)


def barriers(kind: str) -> Watched:
    """The script with ``aligned``, ``unaligned`` or ``at_least_once`` checkpoints."""
    aligner = AtLeastOnce(2) if kind == "at_least_once" else ExactlyOnce(2)
    run = _Run(aligner, Overtaking(allowed=True) if kind == "unaligned" else NEVER)
    arriving: list[tuple[str, str]] = []
    for part in SCRIPT:
        if isinstance(part, tuple):
            arriving.append(part)
            continue
        run.arrive(arriving)
        arriving = []
        run.serve(part)
    last = run.steps[-1]
    assert last.snapshot is not None, "the snapshot was not taken"
    again = _behind_barriers()
    total = Counter([*last.snapshot, *last.recorded, *again])
    everything = [
        thing for part in SCRIPT if isinstance(part, tuple) for thing in part[1:] if thing != BARRIER
    ]
    twice = tuple(record for record in everything if total[record] > 1)
    return Watched(run.steps, again, twice, tuple(record for record in everything if not total[record]))


def _behind_barriers() -> tuple[str, ...]:
    behind: list[str] = []
    passed: set[str] = set()
    for part in SCRIPT:
        if isinstance(part, tuple) and part[1] == BARRIER:
            passed.add(part[0])
        elif isinstance(part, tuple) and part[0] in passed:
            behind.append(part[1])
    return tuple(sorted(behind))


def _shown(element: object) -> list[str]:
    return list(element.rows or []) if isinstance(element, Batch) else [BARRIER]


def _named(things: list[tuple[str, str]]) -> list[str]:
    return [f"{channel}'s barrier" if thing == BARRIER else thing for channel, thing in things]


def _counted(records: list[str]) -> str:
    return f"{_list(records)} {'is' if len(records) == 1 else 'are'} counted"


def _list(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
