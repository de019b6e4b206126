"""A type for every number.

Epoch, attempt, subtask index and key group are all small integers and all confusable, so none of
them travels as a bare ``int``.  ``NewType`` costs nothing at run time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

Epoch = NewType("Epoch", int)
"""Number of a snapshot.  Grows for ever, also across restarts; never reused."""

Generation = NewType("Generation", int)
"""Number of an attempt to run the job.  Messages of an older generation are refused."""

SlotId = NewType("SlotId", int)
"""One Spark task of the worker group: the process that hosts one subtask of every vertex."""

SubtaskIndex = NewType("SubtaskIndex", int)
"""Position of a parallel instance among its siblings, from 0."""

KeyGroup = NewType("KeyGroup", int)
"""Unit of keyed state that moves between subtasks on rescale."""

VertexId = NewType("VertexId", str)
"""A chain of operators that is deployed as one task."""

OperatorId = NewType("OperatorId", str)
"""Identity of an operator's state in snapshots: derived from ``uid``, else from its position."""

EdgeId = NewType("EdgeId", int)
"""An exchange between two vertices."""

EventTime = NewType("EventTime", int)
"""Milliseconds since 1970-01-01 UTC, 64 bits, may be negative."""

WallMs = NewType("WallMs", int)
"""Milliseconds since 1970-01-01 UTC by the calendar of one process: what is shown, stored and sent to other
processes.  It may jump."""

MonoMs = NewType("MonoMs", int)
"""Milliseconds of one process's clock that never goes backwards: what deadlines and durations are counted
with.  It means nothing to another process, nor after a restart of this one."""

MIN_TIME = EventTime(-(2**63))
"""Before all time; also "this record has no timestamp", as PyFlink shows it."""

MAX_TIME = EventTime(2**63 - 1)
"""After all time: the watermark of an input that has ended."""


@dataclass(frozen=True, slots=True, order=True)
class Subtask:
    """One parallel instance of a vertex."""

    vertex: VertexId
    index: SubtaskIndex

    def __str__(self) -> str:
        return f"{self.vertex}#{self.index}"


@dataclass(frozen=True, slots=True, order=True)
class ChannelId:
    """The ordered stream of elements from one sender subtask to one receiver subtask of an edge."""

    edge: EdgeId
    sender: SubtaskIndex
    receiver: SubtaskIndex

    def __str__(self) -> str:
        return f"e{self.edge}:{self.sender}>{self.receiver}"
