"""The splits of one source subtask: what is stored of them, and who takes which after a restore.

The state is a union list: after a restore every subtask sees the splits of all, and each must take
its own without asking the others.  :func:`claim` is that rule.

A split that has been read is forgotten: its enumerator remembers that it was dealt, and a snapshot holds
the enumerator as it was when all that it had found was dealt.  Only the names of those whose end the
enumerator waits for are kept.  Splits that wait to be read do not change; they are packed by the lot, once,
so that a hundred thousand of them do not make every snapshot slow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.connectors.source import Split, SplitReader
from penstock.core.packed import Names, pack, unpack

StoredSplit = tuple[Any, ...]
"""Split, position, whether it is done, owner's subtask index, parallelism: plain data.

Behind these, if there is anything, what the split's watermark generator has learned.  ``None`` in the
place of the split stands for many: the position is a packed lot of such tuples, or, of those that are done,
of their names.
"""

LOT = 256


@dataclass(slots=True, eq=False)
class AssignedSplit:
    """A split of this subtask; it has a reader while it is being read."""

    split: Split
    start: Any = None
    """Where reading starts; ``None`` is the beginning."""
    done: bool = False
    reader: SplitReader | None = None
    learned: Any = None
    """What its watermark generator wants to keep, as of the last snapshot."""
    paused: bool = False
    """Whether alignment holds it back."""
    asked: bool = False
    """Whether it was asked for records since its watermark was last looked at."""
    number: int = 0
    """Which split of this subtask it is, counted as they are opened."""

    @property
    def position(self) -> Any:
        """Where the next record starts."""
        return self.start if self.reader is None else self.reader.position()

    def stored(self, subtask: int, parallelism: int) -> StoredSplit:
        """What goes into a snapshot."""
        stored = (self.split, self.position, self.done, subtask, parallelism)
        return stored if self.learned is None else (*stored, self.learned)

    def release(self) -> None:
        """Close the reader, if there is one."""
        if self.reader is not None:
            reader, self.reader = self.reader, None
            reader.close()


class _Lot:
    """Splits that came one after the other."""

    __slots__ = ("packed", "splits")

    def __init__(self) -> None:
        self.splits: deque[AssignedSplit] = deque()
        self.packed: bytes | None = None


class WaitingSplits:
    """Splits that nobody reads yet, in order."""

    def __init__(self) -> None:
        self._lots: deque[_Lot] = deque()

    def append(self, assigned: AssignedSplit) -> None:
        """Take a split."""
        if not self._lots or len(self._lots[-1].splits) >= LOT:
            self._lots.append(_Lot())
        self._lots[-1].splits.append(assigned)
        self._lots[-1].packed = None

    def first(self) -> AssignedSplit:
        """The one whose turn is next; there must be one."""
        return self._lots[0].splits[0]

    def popleft(self) -> AssignedSplit:
        """Take that one out."""
        lot = self._lots[0]
        assigned = lot.splits.popleft()
        lot.packed = None
        if not lot.splits:
            self._lots.popleft()
        return assigned

    def __bool__(self) -> bool:
        return bool(self._lots)

    def __len__(self) -> int:
        return sum(len(lot.splits) for lot in self._lots)

    def stored(self, subtask: int, parallelism: int) -> Iterator[StoredSplit]:
        """What goes into a snapshot: whole lots packed, what is left of others as it is."""
        for lot in self._lots:
            if len(lot.splits) < LOT:
                yield from (assigned.stored(subtask, parallelism) for assigned in lot.splits)
                continue
            if lot.packed is None:
                lot.packed = pack(assigned.stored(subtask, parallelism) for assigned in lot.splits)
            yield (None, lot.packed, False, subtask, parallelism)


def stored_names(done: Names, subtask: int, parallelism: int) -> Iterator[StoredSplit]:
    """What goes into a snapshot of splits that are done."""
    for packed in done.packed().lots:
        yield (None, packed, True, subtask, parallelism)


def claim(stored: Iterable[StoredSplit], subtask: int, parallelism: int) -> list[AssignedSplit]:
    """The splits that ``subtask`` takes out of those of all subtasks.

    At unchanged parallelism each keeps its own, in its order.  Otherwise unfinished splits are dealt
    out in the order of their ids, and finished ones go where their owner's number falls.  Every
    split goes to exactly one subtask.
    """
    items = list(_unpacked(stored))
    unfinished = sorted(split.id for split, _, done, *_ in items if not done)
    rank = {split_id: i for i, split_id in enumerate(unfinished)}
    mine = []
    for split, position, done, owner, recorded, *learned in items:
        if recorded != parallelism:
            owner = (owner if done else rank[split.id]) % parallelism
        if owner == subtask:
            mine.append(AssignedSplit(split, position, done, learned=learned[0] if learned else None))
    return mine


def _unpacked(stored: Iterable[StoredSplit]) -> Iterator[StoredSplit]:
    for item in stored:
        split, packed, done, owner, recorded, *_ = item
        if split is not None:
            yield item
        elif done:
            yield from ((Split(name), None, True, owner, recorded) for name in unpack(packed))
        else:
            yield from unpack(packed)
