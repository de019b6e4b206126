"""Deals a source's splits to its subtasks: to whoever has fewest, in order of discovery.  Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.core.ids import OperatorId, Subtask


@dataclass(slots=True)
class SourceSplits:
    """What is known of one source in the current attempt."""

    operator_id: OperatorId
    subtasks: list[Subtask]
    enumerator: bytes = b""
    """State of the enumerator after the splits below were found."""
    final: bool = False
    """No more splits will be found."""
    _counts: dict[Subtask, int] = field(default_factory=dict)
    _waiting: list[Any] = field(default_factory=list)
    _announced: bool = False

    def found(self, splits: tuple[Any, ...], state: bytes, final: bool) -> None:
        """The enumerator answered."""
        self._waiting.extend(splits)
        self.enumerator = state
        self.final = final

    def deal(self) -> dict[Subtask, tuple[tuple[Any, ...], bool]]:
        """Splits to send now, by subtask, each with whether these were the last."""
        shares: dict[Subtask, list[Any]] = {}
        for split in self._waiting:
            target = min(self.subtasks, key=lambda subtask: (self._counts.get(subtask, 0), subtask))
            self._counts[target] = self._counts.get(target, 0) + 1
            shares.setdefault(target, []).append(split)
        self._waiting = []
        if self.final and not self._announced:
            self._announced = True
            return {subtask: (tuple(shares.get(subtask, ())), True) for subtask in self.subtasks}
        return {subtask: (tuple(share), self.final) for subtask, share in shares.items()}
