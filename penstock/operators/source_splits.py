"""The splits of one source subtask: what is stored of them, and who takes which after a restore.

The state is a union list: after a restore every subtask sees the splits of all, and each must take
its own without asking the others.  :func:`claim` is that rule.  Finished splits are stored too, so
that nobody reads them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.connectors.source import Split, SplitReader

StoredSplit = tuple[Any, ...]
"""Split, position, whether it is done, owner's subtask index, parallelism: plain, for pickling.

Behind these, if there is anything, what the split's watermark generator has learned.
"""


@dataclass(slots=True, eq=False)
class AssignedSplit:
    """A split of this subtask; it has a reader while it is being read."""

    split: Split
    start: Any = None
    """Where reading starts, or where it ended; ``None`` is the beginning."""
    done: bool = False
    reader: SplitReader | None = None
    learned: Any = None
    """What its watermark generator wants to keep, as of the last snapshot."""
    paused: bool = False
    """Whether alignment holds it back."""
    asked: bool = False
    """Whether it was asked for records since its watermark was last looked at."""

    @property
    def position(self) -> Any:
        """Where the next record starts."""
        return self.start if self.reader is None else self.reader.position()

    def stored(self, subtask: int, parallelism: int) -> StoredSplit:
        """What goes into a snapshot."""
        stored = (self.split, self.position, self.done, subtask, parallelism)
        return stored if self.learned is None else (*stored, self.learned)

    def end(self) -> None:
        """The split has no more records."""
        self.start, self.done, self.learned = self.position, True, None
        self.release()
        # All that is needed from now on is that it was read; what it held may be large.
        self.split = Split(self.split.id)

    def release(self) -> None:
        """Close the reader, if there is one."""
        if self.reader is not None:
            reader, self.reader = self.reader, None
            reader.close()


def claim(stored: Iterable[StoredSplit], subtask: int, parallelism: int) -> list[AssignedSplit]:
    """The splits that ``subtask`` takes out of those of all subtasks.

    At unchanged parallelism each keeps its own, in its order.  Otherwise unfinished splits are dealt
    out in the order of their ids, and finished ones go where their owner's number falls.  Every
    split goes to exactly one subtask.
    """
    items = list(stored)
    unfinished = sorted(split.id for split, _, done, *_ in items if not done)
    rank = {split_id: i for i, split_id in enumerate(unfinished)}
    mine = []
    for split, position, done, owner, recorded, *learned in items:
        if recorded != parallelism:
            owner = (owner if done else rank[split.id]) % parallelism
        if owner == subtask:
            mine.append(AssignedSplit(split, position, done, learned=learned[0] if learned else None))
    return mine
