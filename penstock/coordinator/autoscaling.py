"""How many slots a job should have, by what its slots have done.  Pure: loads in, decisions out.

As Flink's autoscaler decides.  What a slot can do is what it has done in the time that it was busy (Flink:
true processing rate); what it has to do is what arrives, and in a while what waits.  The least parallelism
with which slots are busy for the wanted share of their time is the one to have.

Nothing can be cut finer than the splits of a source and the groups of keys, so what counts of a parallelism
is what its fullest subtask leaves: with 6 partitions, 4 or 5 readers are no faster than 3, and never chosen.

The load is taken over a window of one attempt, behind a time in which tasks warm up.  Growing waits for
nothing else; shrinking for a long time in which the job would have been too large throughout.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.coordinator.scaling_settings import ScalingSettings
from penstock.core.ids import MonoMs

_SATURATED = 0.95
"""Slots that are so busy may have more to do than can be seen."""
_WORTH_IT = 1.1
"""How much more a larger parallelism must be worth: 7 slots are hardly better than 6 for 6 partitions."""
_FULL = 0.9
"""Share of a window that loads must cover."""


@dataclass(frozen=True, slots=True)
class Load:
    """What all slots of an attempt have done up to a moment."""

    at: MonoMs
    taken: float
    """Records that sources have emitted since the attempt began."""
    busy_ms: float
    """Time that slots were busy since then, added up."""
    pending: float | None
    """Records that wait at the sources; ``None`` if they cannot tell."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Another parallelism, and why."""

    parallelism: int
    why: str

    @property
    def text(self) -> str:
        """For the log and the events of the job."""
        return f"the autoscaler wants parallelism {self.parallelism}: {self.why}"


@dataclass(frozen=True, slots=True)
class _Need:
    slots: float
    """As many as are to be there for the load, were they divisible."""
    share: float
    """How busy those that are there would have to be."""
    why: str


class Autoscaler:
    """Watches one job.

    ``pieces`` are the numbers of what cannot be cut, one for each step that has such: splits, key groups.
    """

    def __init__(self, settings: ScalingSettings) -> None:
        self._settings = settings
        self._loads: deque[Load] = deque()
        self._counts_from = MonoMs(0)
        self._large: deque[tuple[MonoMs, int]] = deque()
        """What would have done lately, since the job has been too large."""

    def began(self, now: MonoMs) -> None:
        """All tasks of an attempt run: what was measured before says nothing of it."""
        self._loads.clear()
        self._large.clear()
        self._counts_from = MonoMs(now + self._settings.stabilization_ms)

    def take(self, load: Load, parallelism: int, pieces: Sequence[int], room: int | None) -> Decision | None:
        """Another parallelism to have, if there is one; ``room``: how many slots there can be at most."""
        if load.at < self._counts_from:
            return None
        self._loads.append(load)
        window = self._settings.window_ms
        while len(self._loads) > 2 and load.at - self._loads[1].at >= window:
            self._loads.popleft()
        if load.at - self._loads[0].at < _FULL * window:
            return None
        need = self._need(parallelism, pieces)
        if need is None:
            return None
        most = min(self._settings.most, room or self._settings.most)
        wanted = least_for(need.slots, pieces, self._settings.least, most)
        return self._decided(wanted, parallelism, need, load.at)

    def _need(self, parallelism: int, pieces: Sequence[int]) -> _Need | None:
        first, last = self._loads[0], self._loads[-1]
        seconds, busy_s = (last.at - first.at) / 1000, (last.busy_ms - first.busy_ms) / 1000
        taken = last.taken - first.taken
        if taken <= 0 or busy_s <= 0:
            return None  # nothing arrives, or what is slow is none of ours
        settings, have = self._settings, effective(parallelism, pieces)
        per_slot = taken / busy_s
        busy = busy_s / seconds / parallelism
        if last.pending is None or first.pending is None:
            arriving, catching_up = taken / seconds, 0.0
            if busy >= _SATURATED:
                # More arrives than can be seen: grow step by step.
                arriving = max(arriving, per_slot * have)
        else:
            arriving = max(0.0, (taken + last.pending - first.pending) / seconds)
            catching_up = last.pending * 1000 / settings.catch_up_ms
        to_do = arriving + catching_up
        share = to_do / (per_slot * have)
        if arriving > taken / seconds and busy < settings.low:
            return None  # they fall behind and idle: a sink, a service or one hot key holds them
        waiting = "" if last.pending is None else f", {last.pending:,.0f} wait"
        why = (
            f"{arriving:,.0f} records arrive in a second{waiting}; a slot can do {per_slot:,.0f}, and "
            f"{parallelism} of them would have to be {share:.0%} busy"
        )
        return _Need(to_do / (per_slot * settings.target), share, why)

    def _decided(self, wanted: int, parallelism: int, need: _Need, now: MonoMs) -> Decision | None:
        settings = self._settings
        if need.share >= settings.low or wanted >= parallelism:
            self._large.clear()
        if parallelism < settings.least or (need.share > settings.high and wanted > parallelism):
            return self._made(max(wanted, settings.least), need.why)
        if parallelism > settings.most:
            return self._made(min(wanted, settings.most), need.why)
        if need.share < settings.low and wanted < parallelism:
            self._large.append((now, wanted))
            if now - self._large[0][0] >= settings.down_ms:
                return self._made(max(count for _, count in self._large), need.why)
        return None

    def _made(self, parallelism: int, why: str) -> Decision:
        self._large.clear()
        return Decision(parallelism, why)


def effective(parallelism: int, pieces: Sequence[int]) -> float:
    """How many slots' worth a parallelism is where the fullest subtask decides."""
    return min((count / math.ceil(count / parallelism) for count in pieces), default=float(parallelism))


def least_for(slots: float, pieces: Sequence[int], least: int, most: int) -> int:
    """The least parallelism that is worth so many slots; if none is, of those that are worth most."""
    best, best_worth = least, effective(least, pieces)
    for parallelism in range(least + 1, most + 1):
        if best_worth >= slots:
            break
        worth = effective(parallelism, pieces)
        if worth > _WORTH_IT * best_worth:
            best, best_worth = parallelism, worth
    return best
