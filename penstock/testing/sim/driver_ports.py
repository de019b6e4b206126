"""The ports of a simulated driver: lanes that are actions of the scheduler, and a storage that is checked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from penstock.coordinator.coordinator import Coordinator
from penstock.coordinator.events import Claimed, Event, Publish, PublishDone, SavepointWritten
from penstock.coordinator.ports import Failed, Lane, Storage, Work, Worker
from penstock.core.errors import FencedError
from penstock.graph.plan import Plan
from penstock.testing.sim.audit import Auditor
from penstock.testing.sim.environment import SimulatedEnvironment
from penstock.testing.sim.limits import remembered
from penstock.testing.sim.scheduler import Action, Scheduler

T = TypeVar("T")
Post = Callable[[Event], None]


class SimLane(Lane):
    """Work that takes its time, one piece after the other, as a pool of one thread would do it.

    ``takes`` says how long the next piece takes; ``when_awake`` runs an action as part of the driver.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        takes: Callable[[], float],
        when_awake: Callable[[Action], None],
        post: Post,
    ) -> None:
        self._scheduler = scheduler
        self._takes = takes
        self._when_awake = when_awake
        self._post = post
        self._free_at = self._answered_at = 0.0
        self._pieces: deque[Action] = deque()

    def submit(self, work: Work, failed: Failed) -> None:
        self._free_at = max(self._free_at, self._scheduler.now) + self._takes()
        self._pieces.append(lambda: self._do(work, failed))
        self._scheduler.at(self._free_at, lambda: self._when_awake(self._do_next))

    def _do(self, work: Work, failed: Failed) -> None:
        try:
            event = work()
        except Exception as error:
            event = failed(error)
        # Its effect is there; that the event loop learns of it takes a moment more.
        answer_at = self._scheduler.now + self._scheduler.between(0.0, 5.0)
        self._answered_at = max(self._answered_at + 1e-6, answer_at)
        self._scheduler.at(self._answered_at, lambda: self._post(event))

    def _do_next(self) -> None:
        if self._pieces:
            self._pieces.popleft()()

    def wait_for(self, work: Callable[[], T]) -> T:
        self._finish()
        return work()

    def close(self, wait: bool) -> None:
        if wait:
            self._finish()

    def _finish(self) -> None:
        while self._pieces:
            self._do_next()


class AtOnce(Worker):
    """Work that is done when it is submitted."""

    def __init__(self, post: Post) -> None:
        self._post = post

    def submit(self, work: Work, failed: Failed) -> None:
        try:
            event = work()
        except Exception as error:
            event = failed(error)
        self._post(event)


class AuditedStorage(Storage):
    """The real storage of a driver; what must hold behind each call is checked.

    ``retire`` is called before a claim, and may end the driver there.
    """

    def __init__(
        self,
        real: Storage,
        world: SimulatedEnvironment,
        auditor: Auditor,
        coordinator: Coordinator,
        driver: str,
        retire: Callable[[], None],
    ) -> None:
        self.url = real.url
        self.has_dropped = False
        """Nothing of the job is left: who starts it now starts it anew, as it should."""
        self._real = real
        self._world = world
        self._auditor = auditor
        self._coordinator = coordinator
        self._driver = driver
        self._retire = retire

    def change_plan(self, plan: Plan) -> None:
        self._real.change_plan(plan)

    def claim(self, checksums: bool) -> Claimed:
        self._retire()
        return self._real.claim(checksums)

    def publish(self, instruction: Publish) -> PublishDone | SavepointWritten:
        before = self._world.faults.total
        event = self._real.publish(instruction)
        known = remembered(self._coordinator)
        if known > self._auditor.limits.remembered:
            raise self._world.broken(f"driver {self._driver} remembers {known} things")
        if self._world.faults.total == before and not instruction.standalone:
            self._auditor.check_tidy()
        return event

    def new_savepoint(self, directory: str | None) -> str:
        return self._real.new_savepoint(directory)

    def discard(self, location: str) -> None:
        self._real.discard(location)

    def drop(self) -> Exception | None:
        before = self._world.faults.total
        self._auditor.dropping = True
        try:
            doubt = self._real.drop()
        finally:
            self._auditor.dropping = False
        if self._world.faults.total == before and not isinstance(doubt, FencedError):
            if doubt is not None:
                raise self._world.broken(f"the snapshots could not be dropped: {doubt}") from doubt
            self._auditor.check_dropped()
        if doubt is None:
            self.has_dropped = True
            self._auditor.begin_anew()
        return doubt

    def release(self) -> None:
        self._real.release()

    def explained(self, error: Exception | None) -> Exception | None:
        return self._real.explained(error)
