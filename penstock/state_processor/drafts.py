"""What one operator of a savepoint in the making shall hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.core.errors import ConfigError
from penstock.core.ids import OperatorId, VertexId
from penstock.graph.identity import of_uid
from penstock.snapshot.manifest import OperatorEntry, SubtaskEntry
from penstock.state.schema import StateSchema
from penstock.state_processor.editing import Change, Edits

MOST_GROUPS = 32768


@dataclass(slots=True)
class Draft:
    """An operator being written: what is taken over, what changes, what is new."""

    operator_id: OperatorId
    uid: str | None
    name: str
    parallelism: int
    max_parallelism: int
    base: OperatorEntry | None = None
    rows: dict[str, Any] = field(default_factory=dict)
    """New state by name."""
    schemas: dict[str, StateSchema] = field(default_factory=dict)
    """What is declared for new state, where that is known."""
    dropped: set[str] = field(default_factory=set)
    changes: list[tuple[str, Change]] = field(default_factory=list)
    deleted: set[Any] = field(default_factory=set)

    @staticmethod
    def identity(uid: str) -> OperatorId:
        """The id that the operator has in a job."""
        return of_uid(uid)

    @classmethod
    def of(cls, entry: OperatorEntry) -> Draft:
        """An operator of an existing snapshot, unchanged."""
        return cls(entry.operator_id, entry.uid, entry.name, entry.parallelism, entry.max_parallelism, entry)

    @classmethod
    def new(cls, uid: str, max_parallelism: int, parallelism: int) -> Draft:
        """An operator without a past."""
        if not 1 <= max_parallelism <= MOST_GROUPS:
            raise ConfigError(f"max parallelism is from 1 to {MOST_GROUPS}, not {max_parallelism}")
        if not 1 <= parallelism <= max_parallelism:
            raise ConfigError(
                f"operator {uid!r}: parallelism {parallelism} is not between 1 and {max_parallelism}, its "
                f"max parallelism"
            )
        return cls(of_uid(uid), uid, uid, parallelism, max_parallelism)

    def edits(self) -> Edits:
        """What happens to the keyed state that is taken over."""
        return Edits(frozenset(self.dropped), tuple(self.changes), frozenset(self.deleted))

    def entry(self, subtasks: tuple[SubtaskEntry, ...]) -> OperatorEntry:
        """The finished operator."""
        vertex = VertexId(self.name) if self.base is None else self.base.vertex
        return OperatorEntry(
            self.operator_id, self.uid, self.name, vertex, self.parallelism, self.max_parallelism, subtasks
        )
