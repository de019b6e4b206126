"""A simulated driver: the real runner with its threads replaced by scheduled actions.

It may vanish between two instructions or between two operations on the storage, and it may stand still
while another driver takes the job over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import count

from penstock.coordinator.coordinator import Coordinator
from penstock.coordinator.events import (
    Commit,
    EndJob,
    Event,
    Instruction,
    Publish,
    RequestKind,
    SendAll,
    SlotSaid,
    SnapshotRequest,
    SnapshotRequested,
    Start,
    Tick,
)
from penstock.coordinator.origin import named
from penstock.coordinator.runner import JobRunner
from penstock.coordinator.settings import JobSettings
from penstock.core.errors import CorruptSnapshotError, FencedError
from penstock.core.job import JobID, JobStatus
from penstock.core.messages import AbortSnapshot, SnapshotAck, TriggerSnapshot
from penstock.graph.plan import Plan
from penstock.snapshot.repository import Repository
from penstock.testing.sim.audit import SAVED, Auditor
from penstock.testing.sim.cluster import SimCluster
from penstock.testing.sim.faults import SIMULATED
from penstock.testing.sim.growth import remembered
from penstock.testing.sim.memory import ChannelBound
from penstock.testing.sim.process import Process
from penstock.testing.sim.requests import Line, SimBook
from penstock.testing.sim.scheduler import VirtualClock
from penstock.testing.sim.storage import ROOT, SimStore
from penstock.testing.sim.world import World

_WORK_MS = (0.5, 10.0)
_SLOW_MS = (50.0, 500.0)
_HANG_MS = (100.0, 1200.0)
_SLOW_COMMIT_MS = (100.0, 900.0)


class _Vanished(BaseException):
    """The driver's process ended in the middle of something."""


def _vanish() -> None:
    raise _Vanished


class _Retired(BaseException):
    """The job was finished before this driver could begin."""


@dataclass(frozen=True, slots=True)
class SimJob:
    """A compiled job as a driver gets it."""

    name: str
    plan: Plan
    plan_bytes: bytes
    settings: JobSettings
    directory: str
    inline_limit: int
    process: Process | None = None
    """The driver's, if the job is a script: its slots then have processes of their own."""


class _Lane:
    """Work that is done one after the other, as a pool of one thread would."""

    def __init__(self) -> None:
        self.free_at = self.answered_at = 0.0
        self.jobs: deque[Callable[[], None]] = deque()


class SimDriver(JobRunner):
    """One driver process. ``gone`` is called when it vanishes or hangs: somebody may start another."""

    def __init__(
        self,
        world: World,
        auditor: Auditor,
        job: SimJob,
        number: str,
        gone: Callable[[SimDriver], None],
        line: Line,
    ) -> None:
        self.number = number
        self.line = line
        self.process = job.process
        self.ended_with: str | None = None
        """The savepoint that the job was ended with."""
        self.running = True
        self.error: Exception | None = None
        self._stopped = False
        self._world = world
        self._scheduler = world.scheduler
        self._auditor = auditor
        self._gone = gone
        self._hung_until = 0.0
        self._over = False
        """Nothing of the job is left in the storage: whoever starts it now starts it anew, as it should."""
        self._mail: deque[Event] = deque()
        self._tick_at: float | None = None
        self._given_up: set[int] = set()
        self._names = count(1)
        self._commits_slowly = world.faults.turns_out("slow_commits", f"driver {number}")
        clock = VirtualClock(world.scheduler)
        mine = self._mine = SimStore(world, auditor, job.inline_limit, self._on_storage, _vanish)
        slots = SimStore(world, auditor, job.inline_limit, lambda operation: None).sub(job.directory)
        self.brain = coordinator = Coordinator(
            job.plan, job.plan_bytes, JobID.of_name(job.name).hex, job.settings, world.rng
        )
        repository = Repository(mine, job.directory, owner=f"{world.rng.getrandbits(64):016x}")
        super().__init__(
            job.plan,
            coordinator,
            SimCluster(world, slots, ChannelBound.of(job.plan, auditor.limits), job.process is not None),
            repository,
            clock,
            self._on_ended,
            initial=named(line.start),
            retained=job.settings.retained,
            claim=line.claims,
        )
        self._book: SimBook = SimBook(world, auditor)
        pools = (self._storage_pool, self._commit_pool, self._discovery_pool)
        self._lanes = {pool: _Lane() for pool in pools}

    # --- events -----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        self._world.tell(f"driver {self.number} starts with parallelism {self._plan.slots}")
        self.post(Start())

    def post(self, event: Event) -> None:
        """Give the coordinator an event; it is handled in order, when the driver does not hang."""
        if self.running:
            self._mail.append(event)
            self._when_awake(self._think)

    def ask(self, kind: RequestKind) -> None:
        """Somebody wants a snapshot."""
        name = f"{self.number}-{next(self._names)}"
        place = None if kind is RequestKind.CHECKPOINT else f"{ROOT}/{SAVED}/{name}"
        request = SnapshotRequest(name, kind, place)
        self._world.tell(f"driver {self.number} is asked for {kind.noun} {name}")
        self._book.write_down(request)
        self.post(SnapshotRequested(request))

    def _savepoint_store(self, location: str) -> SimStore:
        return self._mine.at(location)

    def _when_awake(self, action: Callable[[], None]) -> None:
        """Run ``action`` now or when the driver wakes up, as part of this process."""

        def run() -> None:
            if self._scheduler.now < self._hung_until:
                self._scheduler.at(self._hung_until, run)
            elif self.running:
                self._world.acting = self
                try:
                    with self.process.inside() if self.process else nullcontext():
                        action()
                except _Vanished:
                    self.crash()
                except _Retired:
                    self._leave()

        self._scheduler.after(0.0, run)

    def _think(self) -> None:
        event = self._mail.popleft() if self._mail else Tick()
        if isinstance(event, SnapshotRequested):
            self._book.given(event.request)
        for instruction in self._coordinator.handle(self._for_us(event), self._now()):
            self._maybe_vanish(instruction)
            self._carry_out(instruction)
        self._plan_tick()

    def _for_us(self, event: Event) -> Event:
        if isinstance(event, SlotSaid) and isinstance(event.message, SnapshotAck):
            ack = event.message
            self._world.tell(
                f"epoch {ack.epoch} acknowledged by {ack.snapshot.subtask} of {event.generation}"
            )
        return super()._for_us(event)

    def _maybe_vanish(self, instruction: Instruction) -> None:
        kind = type(instruction).__name__
        if isinstance(instruction, EndJob):
            return  # a driver that has finished is not started again
        if self._world.faults.hit("driver_crash", f"driver {self.number} before {kind}"):
            raise _Vanished
        if self._world.faults.hit("driver_hang", f"driver {self.number} at {kind}"):
            self._hang()

    def _plan_tick(self) -> None:
        wake = self._coordinator.next_wake()
        if wake is None or not self.running:
            return
        time = max(float(wake), self._scheduler.now) + 0.01
        if self._tick_at is None or time < self._tick_at or self._tick_at <= self._scheduler.now:
            self._tick_at = time
            self._scheduler.at(time, lambda: self._tick(time))

    def _tick(self, time: float) -> None:
        if self._tick_at == time:
            self._tick_at = None
            self.post(Tick())

    def _carry_out(self, instruction: Instruction) -> None:
        self._narrate(instruction)
        super()._carry_out(instruction)

    def _narrate(self, instruction: Instruction) -> None:
        if isinstance(instruction, SendAll) and isinstance(instruction.message, TriggerSnapshot):
            self._world.tell(f"epoch {instruction.message.epoch} triggered by driver {self.number}")
        elif isinstance(instruction, SendAll) and isinstance(instruction.message, AbortSnapshot):
            self._given_up.add(int(instruction.message.epoch))
            self._world.tell(f"epoch {instruction.message.epoch} given up")
        elif isinstance(instruction, Publish):
            epoch = instruction.manifest.epoch
            self._world.tell(f"epoch {epoch} complete, driver {self.number} publishes")
            if int(epoch) in self._given_up:
                raise self._world.broken(f"epoch {epoch} is published although it was given up")
        elif isinstance(instruction, Commit):
            self._world.tell(f"driver {self.number} commits up to epoch {instruction.permit.epoch}")

    # --- work beside the brain --------------------------------------------------------------

    def _background(
        self, pool: ThreadPoolExecutor, work: Callable[[], Event], failed: Callable[[Exception], Event]
    ) -> None:
        lane = self._lanes[pool]
        slow = pool is self._storage_pool and self._world.faults.hit("slow_storage", f"driver {self.number}")
        took = self._scheduler.between(*(_SLOW_MS if slow else _WORK_MS))
        if pool is self._commit_pool and self._commits_slowly:
            took = self._scheduler.between(*_SLOW_COMMIT_MS)
        lane.free_at = max(lane.free_at, self._scheduler.now) + took

        def run() -> None:
            try:
                event = work()
            except Exception as error:
                event = failed(error)
            # Its effect is there; that the brain learns of it takes a moment more.
            answer_at = self._scheduler.now + self._scheduler.between(0.0, 5.0)
            lane.answered_at = max(lane.answered_at + 1e-6, answer_at)
            self._scheduler.at(lane.answered_at, lambda: self.post(event))

        lane.jobs.append(run)
        self._scheduler.at(lane.free_at, lambda: self._when_awake(lambda: self._next_job(lane)))

    def _next_job(self, lane: _Lane) -> None:
        if lane.jobs:
            lane.jobs.popleft()()

    def _on_storage(self, operation: str) -> None:
        """Called before every operation on the storage: the places where two drivers can meet."""
        if self._auditor.dropping or self._over:
            return
        what = f"driver {self.number} before a {operation}"
        if self._world.faults.hit("driver_crash_in_storage", what):
            raise _Vanished
        if self._world.faults.hit("driver_hang_in_storage", what):
            self._hang()
            self._scheduler.stand_still(self._hung_until)
            self._world.acting = self
            self._world.tell(f"driver {self.number} goes on with its {operation}")
            self._retire_if_finished()

    def _hang(self) -> None:
        self._hung_until = self._scheduler.now + self._scheduler.between(*_HANG_MS)
        self._gone(self)

    def _retire_if_finished(self) -> None:
        """A driver that begins after the end starts the job anew, as it should: not what is tested here."""
        if self.line.finished and not self.has_claimed:
            raise _Retired

    def _claim(self, checksums: bool) -> Event:
        self._retire_if_finished()
        return super()._claim(checksums)

    @property
    def has_refused(self) -> bool:
        """Whether it would not start from a damaged journal in which no snapshot was ever published."""
        return isinstance(self.error, CorruptSnapshotError) and self._auditor.may_be_refused

    @property
    def has_failed_badly(self) -> bool:
        """Whether it ended without a reason: its storage worked, and nobody else took the job over."""
        excused = isinstance(self.error, FencedError) or SIMULATED in str(self.error) or self.has_refused
        return not self.running and self.error is not None and not excused

    @property
    def has_claimed(self) -> bool:
        """Whether the job was ever this driver's."""
        return self.brain.generation != 0

    def _publish(self, instruction: Publish) -> Event:
        before = self._world.faults.total
        event = super()._publish(instruction)
        known = remembered(self.brain)
        if known > self._auditor.limits.remembered:
            raise self._world.broken(f"driver {self.number} remembers {known} things")
        if self._world.faults.total == before and not instruction.beside:
            self._auditor.check_tidy()
        return event

    # --- ends -------------------------------------------------------------------------------

    def crash(self) -> None:
        """The process is gone; its slots may live on for a while."""
        self._leave()
        self._world.tell(f"driver {self.number} is gone")
        self._auditor.maybe_rot(self.brain.generation)
        self._gone(self)

    def _leave(self) -> None:
        self.running = False
        self._cluster.close()

    def _end(self, instruction: EndJob) -> None:
        for lane in self._lanes.values():
            while lane.jobs:
                self._next_job(lane)
        doubt = self._drop() if instruction.delete_snapshots else None
        if instruction.delete_snapshots and doubt is None:
            self._over = True
            self._auditor.begin_anew()
        self._ends.close()
        self._world.check_closed(self, f"driver {self.number}")
        while self._mail:
            self._for_us(self._mail.popleft())
        self._answer_last(instruction, doubt)
        endings = [answer for answer in instruction.answers if answer.request.kind.ends_job]
        self._stopped = any(answer.error is None for answer in endings)
        self.ended_with = endings[0].where if self._stopped and doubt is None else None
        self.status = instruction.status
        self._leave()
        self._on_end(instruction.status, instruction.error)

    def _drop(self) -> Exception | None:
        before = self._world.faults.total
        self._auditor.dropping = True
        try:
            doubt = super()._drop()
        finally:
            self._auditor.dropping = False
        if self._world.faults.total == before and not isinstance(doubt, FencedError):
            if doubt is not None:
                raise self._world.broken(f"the snapshots could not be dropped: {doubt}") from doubt
            self._auditor.check_dropped()
        return doubt

    def _on_ended(self, status: JobStatus, error: Exception | None) -> None:
        self.error = error
        finished = status is JobStatus.FINISHED
        by_itself = finished and not self._stopped
        self.line.finished = self.line.finished or by_itself or self.ended_with is not None
        self._world.tell(f"driver {self.number} ends: {status.name}{f' ({error})' if error else ''}")
        if by_itself:
            self._auditor.finished = True
        else:
            self._gone(self)
