"""What the autoscaler is fed with: the loads that heartbeats tell of, and how finely the job can be cut."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.coordinator.autoscaling import Autoscaler, Decision, Load
from penstock.coordinator.layout import parallelism_limit
from penstock.coordinator.progress_history import counted_steps
from penstock.coordinator.scaling_settings import ScalingSettings
from penstock.core.ids import MonoMs, Subtask
from penstock.core.metrics import (
    BUSY_COUNTER,
    PENDING_GAUGE,
    RECORDS_COUNTER,
    SPLITS_COUNTER,
    SPLITS_DONE_COUNTER,
)
from penstock.graph.plan import Plan, Vertex

_EVERY_MS = 5000

Metrics = Mapping[Subtask, Mapping[str, float]]


class ScalingWatch:
    """Watches the attempts of one job, if the settings want it. On the event loop's thread."""

    def __init__(self, settings: ScalingSettings | None) -> None:
        self.room: int | None = None
        """How many slots Spark was last found to have room for; set by any thread."""
        self._scaler = None if settings is None else Autoscaler(settings)
        self._plan: Plan | None = None
        """Of the attempt whose tasks run."""
        self._due = MonoMs(0)

    def changed(self, plan: Plan | None, now: MonoMs) -> None:
        """All tasks of an attempt with this plan run now; or none do."""
        self._plan, self._due = plan, now
        if self._scaler is not None:
            self._scaler.began(now)

    def is_due(self, now: MonoMs) -> bool:
        """Whether the load is to be looked at."""
        return self._scaler is not None and self._plan is not None and now >= self._due

    def heard(self, metrics: Metrics, now: MonoMs) -> Decision | None:
        """The newest metrics of all subtasks.

        Behind a decision the load is watched from anew: the rescale may be refused.
        """
        plan, scaler = self._plan, self._scaler
        if scaler is None or plan is None or not self.is_due(now):
            return None
        self._due = MonoMs(now + _EVERY_MS)
        load, pieces = _load(plan, metrics, now), _pieces(plan, metrics)
        decision = scaler.take(load, plan.parallelism, pieces, self._most(plan))
        if decision is not None:
            scaler.began(now)
        return decision

    def _most(self, plan: Plan) -> int | None:
        """More than this would be refused."""
        limit, _ = parallelism_limit(plan) or (None, "")
        return min((most for most in (self.room, limit) if most is not None), default=None)


def _pieces(plan: Plan, metrics: Metrics) -> list[int]:
    """What cannot be cut: splits that are being read, and groups of keys."""
    groups = [vertex.max_parallelism for vertex, it in plan.operators() if it.node.keyed]
    splits = [
        _total(metrics, vertex, f"{key}.{SPLITS_COUNTER}")
        - _total(metrics, vertex, f"{key}.{SPLITS_DONE_COUNTER}")
        for vertex, node, key in counted_steps(plan)
        if node.source is not None
    ]
    return [int(count) for count in (*splits, *groups) if count > 0]


def _load(plan: Plan, metrics: Metrics, now: MonoMs) -> Load:
    """Over all subtasks; those of a slot take turns, so what each is busy adds up."""
    sources = [(vertex, key) for vertex, node, key in counted_steps(plan) if node.source is not None]
    taken = sum(_total(metrics, vertex, f"{key}.{RECORDS_COUNTER}") for vertex, key in sources)
    waiting = [_waiting(metrics, vertex, f"{key}.{PENDING_GAUGE}") for vertex, key in sources]
    known = [count for count in waiting if count is not None]
    busy = sum(values.get(BUSY_COUNTER, 0.0) for values in metrics.values())
    return Load(now, taken, busy, sum(known) if known and len(known) == len(waiting) else None)


def _total(metrics: Metrics, vertex: Vertex, name: str) -> float:
    return sum(metrics.get(subtask, {}).get(name, 0.0) for subtask in vertex.subtasks())


def _waiting(metrics: Metrics, vertex: Vertex, name: str) -> float | None:
    """Subtasks without a split say nothing; if none says anything, it is not known."""
    values = [metrics.get(subtask, {}) for subtask in vertex.subtasks()]
    found = [of_one[name] for of_one in values if name in of_one]
    return sum(found) if found else None
