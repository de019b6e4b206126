"""The autoscaler beside a plant whose work takes no time: loads are numbers, and so is the clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from penstock.coordinator.autoscaling import Autoscaler, Load, ScalingSettings, effective, least_for
from penstock.core.ids import MonoMs

RATE = 1000.0
"""Records that one slot can do in a second."""


@dataclass
class Plant:
    """A job whose slots each do ``RATE`` records a second; a rescale takes some seconds."""

    arriving: Callable[[int], float]
    """Records that come in each second."""
    parallelism: int = 2
    pieces: tuple[int, ...] = (128,)
    settings: ScalingSettings = field(default_factory=ScalingSettings)
    room: int | None = None
    tells_lag: bool = True
    gap_s: int = 5
    pending: float = 0.0
    rescales: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def run(self, seconds: int) -> None:
        scaler = Autoscaler(self.settings)
        scaler.began(MonoMs(0))
        taken, busy_ms, down = 0.0, 0.0, 0
        for second in range(seconds):
            self.pending += self.arriving(second)
            if down:
                down -= 1
                if not down:
                    scaler.began(MonoMs(second * 1000))
                    taken, busy_ms = 0.0, 0.0
                continue
            done = min(self.pending, RATE * effective(self.parallelism, self.pieces))
            self.pending -= done
            taken += done
            busy_ms += done / RATE * 1000
            if second % 5:
                continue
            pending = self.pending if self.tells_lag else None
            load = Load(MonoMs(second * 1000), taken, busy_ms, pending)
            decision = scaler.take(load, self.parallelism, self.pieces, self.room)
            if decision is not None:
                assert decision.parallelism != self.parallelism
                self.parallelism = decision.parallelism
                self.rescales.append(decision.parallelism)
                self.reasons.append(decision.why)
                down = self.gap_s


@pytest.mark.parametrize("at", [200, 203, 231, 257])
def test_a_step_of_four_times_the_load_is_caught_up_in_at_most_two_rescales(at: int) -> None:
    plant = Plant(lambda second: 1400.0 * (4 if second >= at else 1))
    plant.run(at + 1800)
    assert 1 <= len(plant.rescales) <= 2
    assert plant.pending <= 4 * 1400.0  # what has come within this second
    assert RATE * plant.parallelism > 4 * 1400.0
    assert "records arrive" in plant.reasons[0] and "wait" in plant.reasons[0]


@pytest.mark.parametrize("seed", range(20))
def test_noise_of_a_fifth_for_an_hour_changes_nothing(seed: int) -> None:
    rng = random.Random(seed)
    slow = [rng.uniform(0.8, 1.2) for _ in range(3600)]
    plant = Plant(lambda second: 1400.0 * slow[second // (1 + 60 * (seed % 3))])
    plant.run(3600)
    assert plant.rescales == []


@pytest.mark.parametrize("load", [500.0 * n for n in range(1, 13)])
def test_six_partitions_never_get_four_or_five_readers(load: float) -> None:
    up = Plant(lambda _: load, parallelism=1, pieces=(6, 128))
    up.run(3600)
    down = Plant(lambda _: load, parallelism=6, pieces=(6, 128), settings=ScalingSettings(down_ms=300_000))
    down.run(3600)
    for plant in (up, down):
        assert set(plant.rescales) <= {1, 2, 3, 6}
        assert RATE * effective(plant.parallelism, (6, 128)) >= min(load, 5800.0)


def test_a_job_that_is_too_large_shrinks_once_and_only_after_the_whole_interval() -> None:
    quiet = Plant(lambda _: 700.0, parallelism=8)
    quiet.run(3600)
    assert quiet.rescales == []
    quiet.run(2 * 3600)
    assert quiet.rescales == [1]


def test_a_busy_minute_in_every_hour_keeps_the_job_large() -> None:
    plant = Plant(lambda second: 5000.0 if second % 3000 < 90 else 700.0, parallelism=8)
    plant.run(4 * 3600)
    assert plant.rescales == []


def test_without_a_known_lag_a_saturated_job_grows_step_by_step() -> None:
    plant = Plant(lambda _: 5600.0, tells_lag=False)
    plant.run(3600)
    assert plant.rescales == sorted(plant.rescales) and RATE * plant.parallelism > 5600.0


def test_bounds_and_room_hold() -> None:
    plant = Plant(lambda _: 50_000.0, room=5, settings=ScalingSettings(most=7))
    plant.run(1200)
    assert plant.rescales == [5]
    capped = Plant(lambda _: 50_000.0, settings=ScalingSettings(most=7))
    capped.run(1200)
    assert capped.rescales == [7]
    raised = Plant(lambda _: 100.0, parallelism=1, settings=ScalingSettings(least=3))
    raised.run(1200)
    assert raised.rescales == [3]


def test_idle_slots_that_fall_behind_are_not_multiplied() -> None:
    """A slow service or sink holds the job: more slots would wait for it, too."""
    scaler = Autoscaler(ScalingSettings())
    scaler.began(MonoMs(0))
    found = [
        scaler.take(Load(MonoMs(s * 1000), s * 10.0, s * 100.0, s * 1000.0), 2, (128,), None)
        for s in range(0, 1200, 5)
    ]
    assert found == [None] * len(found)


def test_nothing_is_decided_of_nothing() -> None:
    scaler = Autoscaler(ScalingSettings())
    scaler.began(MonoMs(0))
    idle = [scaler.take(Load(MonoMs(s * 1000), 0.0, 0.0, 0.0), 2, (), None) for s in range(0, 1200, 5)]
    assert idle == [None] * len(idle)


def test_what_counts_of_a_parallelism_is_its_fullest_subtask() -> None:
    assert [effective(p, (6,)) for p in range(1, 8)] == [1, 2, 3, 3, 3, 6, 6]
    assert effective(5, (128,)) == pytest.approx(128 / 26)
    assert [least_for(need, (6,), 1, 200) for need in (0.2, 1.1, 2.5, 3.1, 6.0, 9.9)] == [1, 2, 3, 6, 6, 6]
    assert least_for(3.0, (), 1, 2) == 2
