"""Which subtask owns which key groups: contiguous ranges, as even as possible."""

from __future__ import annotations

from penstock.core.ids import KeyGroup, SubtaskIndex


def key_group_range(
    subtask: SubtaskIndex, parallelism: int, max_parallelism: int
) -> tuple[KeyGroup, KeyGroup]:
    """First and last key group (inclusive) of a subtask."""
    first = -(-subtask * max_parallelism // parallelism)
    last = ((subtask + 1) * max_parallelism - 1) // parallelism
    return KeyGroup(first), KeyGroup(last)


def owner(group: KeyGroup, parallelism: int, max_parallelism: int) -> SubtaskIndex:
    """The subtask that owns a key group."""
    return SubtaskIndex(group * parallelism // max_parallelism)
