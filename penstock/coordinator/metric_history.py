"""The newest metrics of every subtask, and how fast they change.  Pure.

Rates are counted by the task's own clock: what it was busy, waiting and idle is the time that went by.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from penstock.core.ids import MonoMs, Subtask

_SAMPLES = 6
SHARES = ("busyTimeMs", "backPressuredTimeMs", "idleTimeMs")

Values = Mapping[str, float]


class MetricHistory:
    """A few samples of each subtask, about a second apart."""

    def __init__(self) -> None:
        self._samples: dict[Subtask, deque[tuple[MonoMs, Values]]] = {}

    def new_attempt(self) -> None:
        """Tasks begin to count anew."""
        self._samples.clear()

    def take(self, subtask: Subtask, values: Values, now: MonoMs) -> None:
        """A subtask's metrics have come."""
        if values:
            self._samples.setdefault(subtask, deque(maxlen=_SAMPLES)).append((now, values))

    def newest(self) -> dict[Subtask, Values]:
        """The last values of each subtask."""
        return {subtask: samples[-1][1] for subtask, samples in self._samples.items()}

    def rates(self) -> dict[Subtask, dict[str, float]]:
        """How much each number of a subtask grows in a second, over the samples that are kept."""
        return {subtask: _rates(list(samples)) for subtask, samples in self._samples.items()}


def _rates(samples: list[tuple[MonoMs, Values]]) -> dict[str, float]:
    (first_ms, first), (last_ms, last) = samples[0], samples[-1]
    spent = sum(last.get(name, 0.0) - first.get(name, 0.0) for name in SHARES)
    elapsed_ms = spent if spent > 0 else float(last_ms - first_ms)
    if elapsed_ms <= 0:
        return {}
    return {name: 1000 * (value - first.get(name, 0.0)) / elapsed_ms for name, value in last.items()}
