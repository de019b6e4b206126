"""How fast each vertex was over the last ten minutes, at moments that lie five seconds apart.  Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.coordinator.metric_history import MetricHistory, Values
from penstock.core.clock import Now
from penstock.core.ids import MonoMs, Subtask, VertexId, WallMs

EVERY_MS = 5000
KEPT = 120
_AGAIN_MS = 500
"""How soon it is looked again while nothing can be said: two heartbeats make a rate."""


@dataclass(frozen=True, slots=True)
class VertexRates:
    """Records in a second over all subtasks; shares of the time, from 0 to 1, of the worst of them."""

    received: float
    sent: float
    busy: float
    backpressured: float
    idle: float


@dataclass(frozen=True, slots=True)
class RatesAt:
    """All vertices at one moment."""

    at_ms: WallMs
    vertices: Mapping[VertexId, VertexRates]


class RateHistory:
    """Takes what the newest metrics say, when it is time; the oldest is forgotten."""

    def __init__(self) -> None:
        self._moments: deque[RatesAt] = deque(maxlen=KEPT)
        self._due = MonoMs(0)

    def take(self, metrics: MetricHistory, now: Now) -> None:
        """A heartbeat has come."""
        if now.mono < self._due:
            return
        found = metrics.rates()
        has_any = any(found.values())
        self._due = MonoMs(now.mono + (EVERY_MS if has_any else _AGAIN_MS))
        if has_any:
            self._moments.append(RatesAt(now.wall, _by_vertex(found)))

    def moments(self) -> tuple[RatesAt, ...]:
        """All that is kept, oldest first."""
        return tuple(self._moments)


def _by_vertex(rates: Mapping[Subtask, Values]) -> dict[VertexId, VertexRates]:
    grouped: dict[VertexId, list[Values]] = {}
    for subtask, values in rates.items():
        if values:
            grouped.setdefault(subtask.vertex, []).append(values)
    return {vertex: _rates(of_each) for vertex, of_each in grouped.items()}


def _rates(of_each: list[Values]) -> VertexRates:
    def total(name: str) -> float:
        return sum(max(0.0, values.get(name, 0.0)) for values in of_each)

    def shares(name: str) -> list[float]:
        return [min(1.0, max(0.0, values.get(name, 0.0) / 1000)) for values in of_each]

    return VertexRates(
        total("numRecordsIn"),
        total("numRecordsOut"),
        max(shares("busyTimeMs")),
        max(shares("backPressuredTimeMs")),
        min(shares("idleTimeMs")),
    )
