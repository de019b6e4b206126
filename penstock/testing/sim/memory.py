"""What waits between the tasks of a simulated slot, weighed by the simulator's own scales.

A channel may hold the bytes of its bound and some rows more, whatever the engine believes its rows to
weigh: see :class:`~penstock.testing.sim.limits.Limits`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.core.batch import Batch
from penstock.graph.plan import Plan
from penstock.task.task import Task
from penstock.testing.sim.environment import World
from penstock.testing.sim.limits import Limits

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

    def most(self, heaviest_row: int) -> int:
        """Bytes that may wait in one channel, or in front of it, in a job with rows of that weight."""
        return self.bytes + self.rows * heaviest_row


class MemoryWatch:
    """Weighs the channels of one slot after each of its steps."""

    def __init__(self, world: World, bound: ChannelBound) -> None:
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
        most = self._bound.most(self._world.heaviest_row)
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
            return int(batch.columns.nbytes)
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
