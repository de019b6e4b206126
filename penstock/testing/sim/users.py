"""Those who come by a simulated job: some want a snapshot of it, one starts another program in its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.coordinator.events import RequestKind
from penstock.testing.sim.driver import SimDriver
from penstock.testing.sim.environment import SimulatedEnvironment

_LOOK_MS = (10.0, 60.0)
_AWAY_MS = (20.0, 1500.0)
_WISHES = {
    RequestKind.SAVEPOINT: "savepoint",
    RequestKind.CHECKPOINT: "checkpoint_asked",
    RequestKind.STOP: "stop",
    RequestKind.DRAIN: "drain",
}


class Users:
    """They ask any driver that runs, also one that has been replaced without noticing.

    ``parallelisms`` are those that somebody may want; ``mistake`` is called when somebody takes the
    job's name for another program.
    """

    def __init__(
        self,
        world: SimulatedEnvironment,
        drivers: list[SimDriver],
        parallelisms: Sequence[int],
        mistake: Callable[[], None],
    ) -> None:
        self._world = world
        self._drivers = drivers
        self._parallelisms = parallelisms
        self._mistake = mistake

    def look(self) -> None:
        """Look at the job, now and again later."""
        running = [driver for driver in self._drivers if driver.running]
        for kind, wish in _WISHES.items():
            if running and self._world.faults.hit(wish):
                self._world.rng.choice(running).ask(kind)
        if running and self._world.faults.hit("rescale_in_place"):
            self._rescale(self._world.rng.choice(running))
        if running and self._world.room is None and self._world.faults.hit("slots_leave"):
            self._slots_leave()
        if running and self._world.faults.hit("interrupt"):
            self._world.rng.choice(running).interrupt()
        if self._world.faults.hit("stranger"):
            self._mistake()
        scheduler = self._world.scheduler
        scheduler.after(scheduler.between(*_LOOK_MS), self.look)

    def _slots_leave(self) -> None:
        """A machine is gone, and comes back after a while."""
        world = self._world
        room = world.room = world.rng.randrange(0, max(self._parallelisms))
        world.tell(f"there is room for {room} slots")
        for driver in self._drivers:
            driver.lose_slots(room)

        def come_back() -> None:
            world.room = None
            world.tell("all slots are there again")

        world.scheduler.after(world.scheduler.between(*_AWAY_MS), come_back)

    def _rescale(self, driver: SimDriver) -> None:
        others = [parallelism for parallelism in self._parallelisms if parallelism != driver.parallelism]
        driver.rescale(self._world.rng.choice(others))


def starts_in_vain(world: SimulatedEnvironment, make: Callable[[], SimDriver]) -> None:
    """Start the program that ``make`` gives, and check that nobody can tell afterwards that it was there."""
    before = dict(world.files)
    with world.faults.paused():
        driver = make()
        world.tell("another program starts under the name of the job")
        try:
            driver.storage.claim(checksums=False)
        except Exception as error:
            world.tell(f"it is refused: {error}")
        else:
            raise world.broken("another program under the job's name was let at its state")
    touched = sorted(
        name for name in before.keys() | world.files.keys() if before.get(name) != world.files.get(name)
    )
    if touched:
        raise world.broken(f"a start that was refused changed {', '.join(touched)}")
