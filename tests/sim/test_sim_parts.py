"""The parts of the simulator, one by one."""

from __future__ import annotations

import pytest

from penstock.core.errors import SnapshotError
from penstock.testing import Faults
from penstock.testing.conformance.store_suite import StoreSuite
from penstock.testing.sim.audit import Auditor
from penstock.testing.sim.environment import SimulatedEnvironment
from penstock.testing.sim.faults import Injector
from penstock.testing.sim.scheduler import START_MS, Scheduler, VirtualClock
from penstock.testing.sim.storage import SimStore


def store_with(faults: Faults, seed: int = 1) -> SimStore:
    world = SimulatedEnvironment(seed, faults)
    return SimStore(world, Auditor(world, "job", 1), 0)


class TestSimStore(StoreSuite):
    def new_store(self) -> SimStore:
        return store_with(Faults())

    test_of_many_creators_one_wins = None  # the simulation has one thread


def test_time_passes_only_between_actions() -> None:
    scheduler = Scheduler(1)
    seen: list[tuple[float, str]] = []
    scheduler.after(5, lambda: seen.append((scheduler.now, "late")))
    scheduler.after(2, lambda: scheduler.after(1, lambda: seen.append((scheduler.now, "early"))))
    assert not scheduler.run(lambda: False, 100, 100), "nothing is left to do"
    assert seen == [(3.0, "early"), (5.0, "late")]


def test_one_stands_still_while_others_go_on() -> None:
    scheduler = Scheduler(1)
    seen: list[tuple[float, str]] = []

    def slow() -> None:
        scheduler.stand_still(20.0)
        seen.append((scheduler.now, "slow"))

    scheduler.at(1.0, slow)
    scheduler.at(7.0, lambda: seen.append((scheduler.now, "other")))
    scheduler.at(20.0, lambda: seen.append((scheduler.now, "after")))
    scheduler.run(lambda: False, 100, 100)
    assert seen == [(7.0, "other"), (20.0, "slow"), (20.0, "after")]


def test_ties_are_broken_by_the_seed() -> None:
    def order(seed: int) -> str:
        scheduler = Scheduler(seed)
        seen: list[str] = []
        for name in "abcdef":
            scheduler.at(1.0, lambda name=name: seen.append(name))
        scheduler.run(lambda: False, 100, 100)
        return "".join(seen)

    assert order(1) == order(1)
    assert len({order(seed) for seed in range(20)}) > 10


def test_limits_stop_a_run() -> None:
    scheduler = Scheduler(1)

    def again() -> None:
        scheduler.after(1, again)

    again()
    assert not scheduler.run(lambda: False, 50, 10**6) and 50 <= scheduler.now < 53
    assert not scheduler.run(lambda: False, 10**6, scheduler.steps + 10)


def test_calendars_jump_and_durations_do_not() -> None:
    scheduler = Scheduler(1)
    clock = VirtualClock(scheduler)
    scheduler.after(10, lambda: setattr(clock, "offset", -200.0))
    scheduler.run(lambda: False, 100, 100)
    assert clock.now_ms() == START_MS - 190
    assert clock.monotonic() == 0.01
    assert clock.when(START_MS) == pytest.approx(200.01)


def test_faults_are_bounded() -> None:
    scheduler = Scheduler(3)
    told: list[str] = []
    injector = Injector(Faults(**dict.fromkeys(["stall", "zombie"], 1.0), most=4), scheduler, told.append)
    scheduler.now = 10_000.0
    hits = 0
    for _ in range(1000):
        hits += injector.hit("stall")
        scheduler.now += 1000
    assert hits == len(told) <= 4 and not injector.hit("slot_crash")


def test_failing_storage_has_its_effect_or_not() -> None:
    """Both kinds of failure come with the same error: the caller cannot tell."""
    effects = set()
    for seed in range(60):
        for kind in ("storage_error", "storage_error_after", "partial_file"):
            store = store_with(Faults(**{kind: 1.0}), seed)
            store.files.world.scheduler.now = 1000.0
            try:
                store.write_file("a", [b"12", b"34"])
            except SnapshotError:
                effects.add((kind, store.files.world.files.get("a")))
    assert effects == {("storage_error", None), ("storage_error_after", b"1234"), ("partial_file", b"12")}
