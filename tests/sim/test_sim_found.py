"""Engine bugs that the simulator found, each pinned where it was."""

from __future__ import annotations

import pytest
from sim_graphs import GRAPHS, faults_of, simulation_of

import penstock.coordinator.job_storage
from penstock.coordinator.checkpoint_coordinator import CheckpointCoordinator
from penstock.coordinator.commits import CommitQueue
from penstock.coordinator.events import RequestKind
from penstock.coordinator.job_directory import job_directory
from penstock.coordinator.settings import JobSettings
from penstock.core.clock import Now
from penstock.core.errors import CorruptSnapshotError, FencedError
from penstock.core.ids import Epoch, Generation, MonoMs, WallMs
from penstock.snapshot.repository import Repository
from penstock.testing import Faults
from penstock.testing.sim.environment import entered
from penstock.testing.sim.run import Run
from penstock.testing.sim.simulation import Simulation
from penstock.testing.sim.storage import SimStore


def test_waiting_for_the_last_snapshots_does_not_spin() -> None:
    """With all tasks finished and a snapshot in flight, a periodic one stayed due for ever: the driver
    was woken without a pause until the acknowledgement came."""
    plan = Simulation(GRAPHS["chain"])._jobs[0].jobs[2].plan
    settings = JobSettings(interval_ms=50, timeout_ms=400, max_concurrent=2)
    desk = CheckpointCoordinator(plan, "job", settings, {}, CommitQueue(0, 0))
    desk.new_attempt(Generation(1), Epoch(0))
    desk.start(MonoMs(0))
    out, _ = desk.on_time(Now(MonoMs(50), WallMs(1)), {}, False)
    assert len(out) == 1
    assert desk.on_time(Now(MonoMs(100), WallMs(2)), {}, True) == ([], None)
    assert desk.next_wake() == 450


def test_a_fenced_driver_does_not_speak_of_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver hung while it read a snapshot; another one took over and tidied up.  The files were gone
    when the first went on, and it told its user that the snapshot was damaged."""
    simulation = Simulation(GRAPHS["repartition"])
    run = Run(simulation._jobs, 1, Faults(most=0))
    world, (life,) = run._world, run._lives
    auditor = life.auditor
    gone = CorruptSnapshotError("chk-1/state is missing")

    def read_nothing(*arguments: object) -> None:
        raise gone

    monkeypatch.setattr(penstock.coordinator.job_storage, "restored_job", read_nothing)
    with entered(world):
        life.begin()
        assert world.scheduler.run(lambda: auditor.published >= 2, 5_000, 10_000)
        driver = life.drivers[0]
        with pytest.raises(CorruptSnapshotError):
            driver.storage.claim(False)

        def read_late(*arguments: object) -> None:
            Repository(SimStore(world, auditor, 0), job_directory("simulated"), "other").claim()
            raise gone

        monkeypatch.setattr(penstock.coordinator.job_storage, "restored_job", read_late)
        with pytest.raises(FencedError):
            driver.storage.claim(False)


def test_a_damaged_entry_below_a_fence_is_not_taken_for_an_empty_journal() -> None:
    """The newest publication rotted after a restart had put a fence behind it.  The history ended above the
    damage, no snapshot was found in it, and the job began anew: all its output came twice."""
    simulation = Simulation(GRAPHS["repartition"])
    run = Run(simulation._jobs, 1, Faults(most=0))
    world, (life,) = run._world, run._lives
    auditor = life.auditor
    with entered(world):
        life.begin()
        assert world.scheduler.run(lambda: auditor.published >= 2, 5_000, 10_000)
        store = SimStore(world, auditor, 0)
        Repository(store, job_directory("simulated"), "second").claim()
        entries = sorted(name for name in world.files if "/journal/" in name)
        world.files[entries[-2]] = world.files[entries[-2]][:20]
        third = Repository(store, job_directory("simulated"), "third")
        third.claim()
        with pytest.raises(CorruptSnapshotError, match="may have announced a snapshot"):
            third.latest_valid()


def test_a_driver_that_was_replaced_does_not_say_that_the_job_has_stopped() -> None:
    """It hung behind the publication of the savepoint that the job was to end with, and another driver went
    on from there.  People were told that the job had stopped; they started it from the savepoint, and what
    had been committed meanwhile came twice."""
    simulation = Simulation(GRAPHS["chain"])
    run = Run(simulation._jobs, 1, Faults(most=0))
    world, (life,) = run._world, run._lives
    auditor = life.auditor
    with entered(world):
        life.begin()
        assert world.scheduler.run(lambda: auditor.published >= 2, 5_000, 10_000)
        driver = life.drivers[0]
        driver.ask(RequestKind.STOP)
        assert world.scheduler.run(lambda: driver.coordinator.checkpoints.final_published, 5_000, 10_000)
        Repository(SimStore(world, auditor, 0), job_directory("simulated"), "other").claim()
        assert world.scheduler.run(lambda: not driver.running, 5_000, 10_000)
    assert driver.ended_with is None
    assert any("is complete, but another driver may go on with the job" in text for _, text in world.story)


@pytest.mark.parametrize(
    ("graph", "seed"),
    [
        pytest.param(
            "pressed_timers", 7694, id="interrupted while it stops because it is fenced: never ended"
        ),
        pytest.param("unaligned_inputs", 8243, id="records in flight unreadable: an open writer stayed open"),
    ],
)
def test_seeds_that_failed_once(graph: str, seed: int) -> None:
    simulation_of(graph).check(seed, faults_of(graph))
