"""What only people ask for: since when watermarks stand, hot key groups, records, what was written.  Pure.

All of it is of the newest attempt, and as much as there are sources and slots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.core.ids import EventTime, OperatorId, SlotId, VertexId, WallMs
from penstock.core.messages import FromSlot, Heartbeat, HotGroups, Output, WatermarkReport

_OUTPUTS = 16
"""Slots of which the output is kept: as many as people read at a time."""
_TAILS = 8
"""Vertices of which records are kept."""

Place = tuple[OperatorId, int]
"""A subtask of a step that makes watermarks."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen, at one moment."""

    since: Mapping[Place, WallMs] = field(default_factory=dict)
    """When the watermark of each place came to where it is."""
    hot_groups: Mapping[VertexId, HotGroups] = field(default_factory=dict)
    outputs: Mapping[SlotId, tuple[WallMs, Output]] = field(default_factory=dict)
    tails: Mapping[VertexId, Mapping[SlotId, tuple[WallMs, tuple[str, ...]]]] = field(default_factory=dict)
    """Some records of vertices that somebody watches."""


class Sightings:
    """Gathers it."""

    def __init__(self) -> None:
        self.new_attempt()

    def new_attempt(self) -> None:
        """Everything begins anew."""
        self._reached: dict[Place, tuple[EventTime, WallMs]] = {}
        self._hot: dict[SlotId, Mapping[VertexId, HotGroups]] = {}
        self._outputs: dict[SlotId, tuple[WallMs, Output]] = {}
        self._tails: dict[VertexId, dict[SlotId, tuple[WallMs, tuple[str, ...]]]] = {}

    def heard(self, slot: SlotId, message: FromSlot, now: WallMs) -> None:
        """A slot has said something."""
        match message:
            case Heartbeat():
                if message.hot_groups:
                    self._hot[slot] = message.hot_groups
                for vertex, texts in message.tails.items():
                    self._watched(vertex)[slot] = now, texts
            case WatermarkReport():
                place = message.operator_id, message.subtask
                if self._reached.get(place, (None, now))[0] != message.watermark:
                    self._reached[place] = message.watermark, now
            case Output():
                self._outputs.pop(slot, None)
                self._outputs[slot] = now, message
                if len(self._outputs) > _OUTPUTS:
                    del self._outputs[next(iter(self._outputs))]

    def _watched(self, vertex: VertexId) -> dict[SlotId, tuple[WallMs, tuple[str, ...]]]:
        """The records of a vertex, which is the newest of the few that are kept."""
        found = self._tails.pop(vertex, {})
        self._tails[vertex] = found
        if len(self._tails) > _TAILS:
            del self._tails[next(iter(self._tails))]
        return found

    def output(self, slot: SlotId) -> tuple[WallMs, Output] | None:
        """What its process has written, as of when it was last asked."""
        return self._outputs.get(slot)

    def view(self) -> Seen:
        """All of it, as it is now."""
        hot: dict[VertexId, HotGroups] = {}
        for of_slot in self._hot.values():
            for vertex, found in of_slot.items():
                hot[vertex] = found.joined(hot.get(vertex))
        since = {place: at for place, (_, at) in self._reached.items()}
        tails = {vertex: dict(found) for vertex, found in self._tails.items()}
        return Seen(since, hot, dict(self._outputs), tails)
