"""What the autoscaler is told, from heartbeats as they come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from coord_rig import plan_of

from penstock.coordinator.autoscaling import Decision
from penstock.coordinator.scaling_settings import ScalingSettings, scaling_settings
from penstock.coordinator.scaling_watch import ScalingWatch
from penstock.core.config import Configuration
from penstock.core.errors import ConfigError
from penstock.core.ids import MonoMs, Subtask

EARLY = ScalingSettings(window_ms=60_000, stabilization_ms=0)


def told(second: int, splits: int = 6, pending: bool = True, finished: int = 0) -> dict[Subtask, Any]:
    """Two slots that are fully busy; half as much again arrives."""
    plan = plan_of(2)
    source, sink = plan.vertices
    made: dict[Subtask, Any] = {}
    for subtask in source.subtasks():
        made[subtask] = {
            "source.numRecordsIn": 1000.0 * second,
            "source.numSplits": splits / 2,
            "source.numSplitsFinished": finished / 2,
            "busyTimeMs": 600.0 * second,
        }
        if pending:
            made[subtask]["source.pendingRecords"] = 500.0 * second
    return made | {subtask: {"busyTimeMs": 400.0 * second} for subtask in sink.subtasks()}


def watched(
    room: int | None = None, until: int = 120, most: int | None = None, **load: Any
) -> list[Decision]:
    """``most``: the max parallelism that the program has set."""
    watch = ScalingWatch(EARLY)
    watch.room = room
    plan = plan_of(2)
    if most is not None:
        limited = [replace(vertex, max_parallelism=most) for vertex in plan.vertices]
        fixed = replace(plan.settings, max_parallelism_set=True)
        plan = replace(plan, vertices=tuple(limited), settings=fixed)
    watch.changed(plan, MonoMs(0))
    found = [watch.heard(told(second, **load), MonoMs(1000 * second)) for second in range(until)]
    return [decision for decision in found if decision is not None]


def test_the_busy_time_of_all_tasks_of_a_slot_counts_and_what_waits() -> None:
    (decision,) = watched(until=70)
    assert decision.parallelism == 6  # 3,000 a second arrive, 60,000 wait; a slot can do 1,000
    assert "3,000 records arrive" in decision.why and "a slot can do 1,000" in decision.why


def test_splits_that_were_read_do_not_count_and_room_is_kept() -> None:
    assert [it.parallelism for it in watched(until=70, splits=8, finished=4)] == [4]
    assert [it.parallelism for it in watched(until=70, room=3)] == [3]


def test_no_more_is_wanted_than_the_job_may_have() -> None:
    """It would be refused each time, and the job would stay too small."""
    assert [it.parallelism for it in watched(until=70, most=5)] == [3]


def test_behind_a_decision_the_load_is_watched_from_anew() -> None:
    assert len(watched(until=130)) == 2


def test_sources_that_cannot_tell_what_waits() -> None:
    (decision,) = watched(until=70, pending=False)
    assert decision.parallelism == 3 and "wait" not in decision.why


def test_between_attempts_nothing_is_decided() -> None:
    watch = ScalingWatch(EARLY)
    assert watch.heard(told(0), MonoMs(0)) is None
    watch.changed(plan_of(2), MonoMs(0))
    watch.changed(None, MonoMs(0))
    assert [watch.heard(told(second), MonoMs(1000 * second)) for second in range(0, 120, 5)] == [None] * 24


def test_settings_that_contradict_each_other_are_refused() -> None:
    def read(**settings: str) -> ScalingSettings | None:
        config = Configuration()
        for key, value in {"enabled": "true", **settings}.items():
            config.set_string(f"job.autoscaler.{key.replace('__', '.').replace('_', '-')}", value)
        return scaling_settings(config)

    assert read() == ScalingSettings() and read(enabled="false") is None
    with pytest.raises(ConfigError, match="more than"):
        read(vertex__min_parallelism="5", vertex__max_parallelism="4")
    with pytest.raises(ConfigError, match="must grow in this order"):
        read(utilization__target="0.3")
