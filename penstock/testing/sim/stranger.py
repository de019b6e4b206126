"""Another program under the name of a job that has state: it is refused, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable

from penstock.testing.sim.driver import SimDriver
from penstock.testing.sim.environment import World


def starts_in_vain(world: World, make: Callable[[], SimDriver]) -> None:
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
