"""Which subtask owns which key groups: contiguous ranges, as even as possible."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import numpy.typing as npt

from penstock.core.ids import KeyGroup, SubtaskIndex


def key_group_range(
    subtask: SubtaskIndex, parallelism: int, max_parallelism: int
) -> tuple[KeyGroup, KeyGroup]:
    """First and last key group (inclusive) of a subtask."""
    first = -(-subtask * max_parallelism // parallelism)
    last = ((subtask + 1) * max_parallelism - 1) // parallelism
    return KeyGroup(first), KeyGroup(last)


@overload
def owner(group: KeyGroup, parallelism: int, max_parallelism: int) -> SubtaskIndex: ...


@overload
def owner(group: npt.NDArray[np.int64], parallelism: int, max_parallelism: int) -> npt.NDArray[np.int64]: ...


def owner(group: Any, parallelism: int, max_parallelism: int) -> Any:
    """The subtask that owns a key group, or each of many: the inverse of :func:`key_group_range`."""
    return group * parallelism // max_parallelism
