"""Finding splits and assigning them to the subtasks of their sources.  Pure.

A split goes to the subtask that has fewest, in order of discovery.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from typing import Any

from penstock.coordinator.events import Discover, Instruction, Send, SplitsDiscovered
from penstock.core.clock import later
from penstock.core.ids import Generation, MonoMs, OperatorId, Subtask
from penstock.core.messages import AssignSplits, SplitsSettled
from penstock.graph.plan import Plan

_DEFAULT_INTERVAL_MS = 1000


@dataclass(slots=True)
class SourceSplits:
    """What is known of one source in the current attempt."""

    operator_id: OperatorId
    subtasks: list[Subtask]
    enumerator: bytes = b""
    """State of the enumerator after the splits below were found."""
    final: bool = False
    """No more splits will be found."""
    expecting: bool = True
    """More splits are sure to be found."""
    _counts: dict[Subtask, int] = field(default_factory=dict)
    _waiting: list[Any] = field(default_factory=list)
    _announced: bool = False
    _settled: bool = False

    def found(self, splits: tuple[Any, ...], state: bytes, final: bool, expecting: bool = False) -> None:
        """The enumerator answered."""
        self.expecting = expecting
        self._waiting.extend(splits)
        self.enumerator = state
        self.final = final

    def assign(self) -> dict[Subtask, tuple[tuple[Any, ...], bool]]:
        """Splits to send now, by subtask, each with whether these were the last."""
        shares: dict[Subtask, list[Any]] = {}
        by_load = [(self._counts.get(subtask, 0), subtask) for subtask in self.subtasks]
        heapify(by_load)
        for split in self._waiting:
            count, target = by_load[0]
            heapreplace(by_load, (count + 1, target))
            self._counts[target] = count + 1
            shares.setdefault(target, []).append(split)
        self._waiting = []
        if self.final and not self._announced:
            self._announced = True
            return {subtask: (tuple(shares.get(subtask, ())), True) for subtask in self.subtasks}
        return {subtask: (tuple(share), self.final) for subtask, share in shares.items()}

    def settle(self) -> list[Subtask]:
        """Subtasks to be told that they have what is known to come; the last splits say so themselves."""
        if self._settled or self.expecting:
            return []
        self._settled = True
        return [] if self._announced else self.subtasks


class SplitAssigner:
    """What is known about all sources of a job in the current attempt."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._intervals: dict[OperatorId, int] = {}
        self._sources: dict[OperatorId, SourceSplits] = {}
        self._undiscovered: set[OperatorId] = set()
        self._due: dict[OperatorId, MonoMs] = {}

    def change_plan(self, plan: Plan) -> None:
        """The attempts to come have another plan."""
        self._plan = plan

    def restart(
        self, generation: Generation, restored: dict[OperatorId, bytes] | None, from_end: bool = False
    ) -> list[Instruction]:
        """A new attempt: ask every source, from where its enumerator was, or for splits from their ends."""
        self._sources, self._due = {}, {}
        out: list[Instruction] = []
        for vertex, planned in self._plan.operators():
            source, operator_id = planned.node.source, planned.operator_id
            if source is not None:
                self._intervals[operator_id] = source.discovery_interval_ms or _DEFAULT_INTERVAL_MS
                self._sources[operator_id] = SourceSplits(operator_id, vertex.subtasks())
                state = restored.get(operator_id) if restored is not None else None
                out.append(Discover(generation, operator_id, state, restore=True, from_end=from_end))
        self._undiscovered = set(self._sources)
        return out

    @property
    def is_ready(self) -> bool:
        """Whether every source has answered once."""
        return not self._undiscovered

    def found(self, event: SplitsDiscovered, now: MonoMs) -> None:
        """A source answered."""
        self._sources[event.operator_id].found(event.splits, event.state, event.final, event.expecting)
        self._undiscovered.discard(event.operator_id)
        if not event.final:
            self._due[event.operator_id] = later(now, self._intervals[event.operator_id])

    def look_again(self, generation: Generation, now: MonoMs) -> list[Instruction]:
        """Sources that are due to be asked for new splits."""
        ready = [operator_id for operator_id, due in self._due.items() if now >= due]
        for operator_id in ready:
            del self._due[operator_id]
        return [Discover(generation, operator_id, None, restore=False) for operator_id in ready]

    def assign(self) -> list[Instruction]:
        """Send what was found to the subtasks."""
        out: list[Instruction] = []
        for source in self._sources.values():
            for subtask, (splits, final) in source.assign().items():
                out.append(Send(Plan.slot_of(subtask), AssignSplits(subtask, splits, final)))
            out += (Send(Plan.slot_of(subtask), SplitsSettled(subtask)) for subtask in source.settle())
        return out

    def enumerators(self) -> dict[OperatorId, bytes]:
        """State of all enumerators, for a snapshot."""
        return {source.operator_id: source.enumerator for source in self._sources.values()}

    def next_wake(self) -> MonoMs | None:
        """When a source is due to be asked again."""
        return min(self._due.values(), default=None)
