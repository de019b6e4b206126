"""Which step holds the others back, from how steps spend their time and who reads from whom.  Pure.

A step that waits for room in its outputs is backpressured: somebody behind it is too slow.  Following the
waiting downstream leads to the first step that does not wait itself and that others wait for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WAITS = 0.1
"""More than this share of its time, and a step counts as backpressured."""
WORKS = 0.5
"""At least this share of its time, and a step counts as busy."""


@dataclass(frozen=True, slots=True)
class Load:
    """Shares of its time, from 0 to 1; of a step, the largest of its subtasks, and the smallest idle one."""

    busy: float
    backpressured: float
    idle: float

    @property
    def waits(self) -> bool:
        """Whether somebody behind it is too slow."""
        return self.backpressured > WAITS


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The step that holds others back, or would first."""

    step: str
    waiting: tuple[str, ...]
    """Steps that wait for it; none if no step waits for another, and this one is only the busiest."""


def bottleneck(loads: Mapping[str, Load], inputs: Mapping[str, Sequence[str]]) -> Bottleneck | None:
    """Of steps in the order of the graph; ``inputs`` are those that each reads from.

    Among steps that others wait for, the first that is busy and does not wait itself; if none is busy (it
    waits for a disk or a lock in its own time), the busiest of them.  Where all of them wait, the one
    furthest down: the numbers are of different moments.  Where nobody waits, the busiest, if it is busy.
    """
    waiters = {
        step: tuple(source for source in inputs.get(step, ()) if source in loads and loads[source].waits)
        for step in loads
    }
    awaited = [step for step in loads if waiters[step]]
    free = [step for step in awaited if not loads[step].waits]
    found = next((step for step in free if loads[step].busy >= WORKS), None)
    if found is None and free:
        found = _busiest(free, loads)
    if found is None and awaited:
        found = awaited[-1]
    if found is None:
        found = _busiest(list(loads), loads)
        if found is None or loads[found].busy < WORKS:
            return None
    return Bottleneck(found, waiters[found])


def _busiest(steps: Sequence[str], loads: Mapping[str, Load]) -> str | None:
    return max(steps, key=lambda step: loads[step].busy, default=None)
