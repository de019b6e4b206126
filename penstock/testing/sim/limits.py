"""What a job may hold, however long it runs: checked at every step of a simulated one.

How much a simulated driver remembers must not depend on how long the job has run.  What waits between the
tasks of a slot is weighed by the simulator's own scales: a channel may hold the bytes of its bound and some
rows more, whatever the engine believes its rows to weigh, or one batch of columns, whose weight it knows.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from penstock.coordinator.coordinator import Coordinator
from penstock.core.batch import Batch
from penstock.graph.plan import Plan
from penstock.task.task import Task
from penstock.testing.sim.environment import SimulatedEnvironment


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that hold for every job; one that carries less can ask for tighter ones."""

    rows: int = 320
    """What may wait in a channel beside its bytes (``penstock.channel.bytes``): so many rows as large as the
    largest that was seen.  Steps learn how large their results are by the first few hundred."""
    epochs_waiting: int = 5
    """Published snapshots whose output is not committed, beside those in flight, however slow commits are."""
    journal: int = 24
    """Entries of the journal beside those of retained checkpoints, unless a damaged one has to be kept, and
    until the first fence behind it."""
    state_bytes: int | None = None
    """State of one checkpoint, in files and in the manifest, if those before it were published as well."""
    remembered: int = 2_000
    """Things that a driver remembers, in all its lists and tables."""


_CONTAINERS = (list, tuple, set, frozenset, deque)
_LEAVES = frozenset({int, float, str, bytes, bool, type(None)})
_OURS = ("penstock.coordinator.", "penstock.core.messages", "penstock.core.handles")


def remembered(coordinator: Coordinator) -> int:
    """The number of things in all lists and tables that the coordinator holds on to."""
    return _count(coordinator, set())


def _count(value: Any, seen: set[int]) -> int:
    if id(value) in seen or isinstance(value, Plan):
        return 0
    if isinstance(value, dict):
        seen.add(id(value))
        return len(value) + _count_all(value.values(), seen)
    if isinstance(value, _CONTAINERS):
        seen.add(id(value))
        return len(value) + _count_all(value, seen)
    if type(value).__module__.startswith(_OURS):
        seen.add(id(value))
        return _count_all(_fields(value), seen)
    return 0


def _count_all(values: Iterable[Any], seen: set[int]) -> int:
    return sum(_count(value, seen) for value in values if type(value) not in _LEAVES)


def _fields(value: Any) -> list[Any]:
    kind: Any = type(value)
    slots = (getattr(value, name, None) for name in _slots(kind))
    return [*getattr(value, "__dict__", {}).values(), *slots]


@cache
def _slots(kind: type) -> list[str]:
    return [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]


_FLAT = (int, float, bool, type(None))


def weight(value: Any) -> int:
    """Bytes of a value with all that it holds; what is shared counts each time."""
    if isinstance(value, _FLAT):
        return 28
    size = sys.getsizeof(value)
    if isinstance(value, str | bytes | bytearray):
        return size
    if isinstance(value, dict):
        return size + sum(weight(key) + weight(item) for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return size + sum(map(weight, value))
    held = getattr(value, "__dict__", None)
    return size + (weight(held) if held else 0)


@dataclass(frozen=True, slots=True)
class ChannelBound:
    """What a job's channels are bounded by."""

    bytes: int
    rows: int

    @classmethod
    def of(cls, plan: Plan, limits: Limits) -> ChannelBound:
        """As the plan's settings say."""
        return cls(plan.settings.channel_bytes, limits.rows)

    def most(self, heaviest_row: int, heaviest_columns: int) -> int:
        """Bytes that may wait in one channel, or in front of it, in a job with such rows and columns.

        Who finds a channel below its bound may send: so one batch may lie above it.
        """
        return self.bytes + max(self.rows * heaviest_row, heaviest_columns)


class MemoryWatch:
    """Weighs the channels of one slot after each of its steps."""

    def __init__(self, world: SimulatedEnvironment, bound: ChannelBound) -> None:
        self._world = world
        self._bound = bound
        self._weighed: dict[int, tuple[Batch, int]] = {}

    def look(self, slot: str, tasks: Iterable[Task]) -> None:
        """Raise if too much waits somewhere."""
        before, self._weighed = self._weighed, {}
        for task in tasks:
            for place, batches in _queues(task):
                held = sum(self._weight(batch, before) for batch in batches)
                if held > self._world.peak_bytes:
                    self._world.peak_bytes = held
                    self._check(slot, place, held)

    def _check(self, slot: str, place: str, held: int) -> None:
        most = self._bound.most(self._world.heaviest_row, self._world.heaviest_columns)
        if held > most:
            raise self._world.broken(
                f"{held:,} bytes wait in {place} of {slot}, where {most:,} are allowed: "
                f"{self._bound.bytes:,} and {self._bound.rows} rows"
            )

    def _weight(self, batch: Batch, before: dict[int, tuple[Batch, int]]) -> int:
        known = before.get(id(batch))
        if known is None:
            known = (batch, self._weigh(batch))
        self._weighed[id(batch)] = known
        return known[1]

    def _weigh(self, batch: Batch) -> int:
        if batch.rows is None:
            size = int(batch.columns.nbytes)
            self._world.heaviest_columns = max(self._world.heaviest_columns, size)
            return size
        weights = list(map(weight, batch.rows))
        self._world.heaviest_row = max(self._world.heaviest_row, *weights)
        return sum(weights)


def _queues(task: Task) -> Iterator[tuple[str, list[Batch]]]:
    """Everything that waits at the task: its input channels, and what it gathers for the next ones."""
    gate = task._gate
    for channel in gate._channels if gate is not None else ():
        if len(channel):
            yield f"channel {channel.id}", [element for element in channel if isinstance(element, Batch)]
    for edge in task._outputs._edges:
        for target, buffer in edge._buffers.items():
            if buffer.parts:
                yield f"the buffer of {task.subtask} for {target}", buffer.parts
