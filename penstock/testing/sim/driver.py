"""A simulated driver process: the real driver, called by an event loop that is actions of the scheduler.

It may vanish between two instructions or between two operations on the storage, and it may stand still
while another driver takes the job over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import count

from penstock.coordinator.coordinator import Coordinator
from penstock.coordinator.driver import JobDriver
from penstock.coordinator.events import (
    Commit,
    EndJob,
    Event,
    Instruction,
    Publish,
    RequestKind,
    Rescaled,
    SendAll,
    SlotSaid,
    SnapshotRequested,
    Start,
    Tick,
)
from penstock.coordinator.job_storage import JobStorage, StorageOptions
from penstock.coordinator.layout import Planner
from penstock.coordinator.ports import DriverPorts, EventQueue, Lanes
from penstock.coordinator.restore_source import requested_snapshot
from penstock.coordinator.settings import JobSettings
from penstock.core.errors import CorruptSnapshotError, FencedError
from penstock.core.job import JobID, JobStatus
from penstock.core.messages import AbortSnapshot, SnapshotAck, TriggerSnapshot
from penstock.graph.plan import Plan
from penstock.snapshot.repository import Repository
from penstock.testing.sim.audit import SAVED, Auditor
from penstock.testing.sim.cluster import SimCluster
from penstock.testing.sim.driver_ports import AtOnce, AuditedStorage, SimLane
from penstock.testing.sim.environment import SimulatedEnvironment
from penstock.testing.sim.faults import SIMULATED
from penstock.testing.sim.limits import ChannelBound
from penstock.testing.sim.process import Process
from penstock.testing.sim.requests import Lineage, SimClients
from penstock.testing.sim.scheduler import Action, VirtualClock
from penstock.testing.sim.storage import ROOT, SimStore

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
    planner: Planner
    process: Process | None = None
    """The driver's, if the job is a script: its slots then have processes of their own."""


class SimDriver(EventQueue):
    """One driver process. ``gone`` is called when it vanishes or hangs: somebody may start another."""

    def __init__(
        self,
        world: SimulatedEnvironment,
        auditor: Auditor,
        job: SimJob,
        number: str,
        gone: Callable[[SimDriver], None],
        line: Lineage,
    ) -> None:
        self.number = number
        self.line = line
        self.running = True
        self.error: Exception | None = None
        self._stopped = False
        self._world = world
        self._scheduler = world.scheduler
        self._auditor = auditor
        self._gone = gone
        self._plan = job.plan
        self._process = job.process
        self._hung_until = 0.0
        self._stands_still = False
        self._put_off: list[Action] = []
        self._events: deque[Event] = deque()
        self._tick_at: float | None = None
        self._aborted: set[int] = set()
        self._commits_slowly = world.faults.turns_out("slow_commits", f"driver {number}")
        slots = SimStore(world, auditor, job.inline_limit).sub(job.directory)
        self.coordinator = Coordinator(
            job.plan, job.plan_bytes, JobID.of_name(job.name).hex, job.settings, world.rng
        )
        self._cluster = SimCluster(
            world,
            slots,
            ChannelBound.of(job.plan, auditor.limits),
            job.process is not None,
            job.plan.settings.local_backup,
        )
        clock = VirtualClock(world.scheduler)
        self.storage = self._make_storage(job, clock)
        self._clients = SimClients(world, auditor, number)
        lanes, clients = self._make_lanes(), self._clients
        ports = DriverPorts(clock, self._cluster, self, lanes, self.storage, clients, job.planner)
        self._driver = JobDriver(job.plan, self.coordinator, ports, self._on_ended)

    # --- ports ------------------------------------------------------------------------------

    def _make_storage(self, job: SimJob, clock: VirtualClock) -> AuditedStorage:
        world, auditor = self._world, self._auditor
        store = SimStore(world, auditor, job.inline_limit, self._on_storage, _vanish)
        repository = Repository(store, job.directory, owner=f"{world.rng.getrandbits(64):016x}")
        numbers = count(1)
        real = JobStorage(
            job.plan,
            JobID.of_name(job.name).hex,
            repository,
            clock,
            lambda url, create=True: store.at(url),
            StorageOptions(job.settings.retained, claim=self.line.claims, savepoints=f"{ROOT}/{SAVED}"),
            requested_snapshot(self.line.start),
            f"driver {self.number}",
            new_name=lambda: f"{self.number}-{next(numbers)}",
        )
        return AuditedStorage(real, world, auditor, self.coordinator, self.number, self._retire_if_finished)

    def _make_lanes(self) -> Lanes:
        def lane(takes: Callable[[], float]) -> SimLane:
            return SimLane(self._scheduler, takes, self._when_awake, self.post)

        between = self._scheduler.between
        discovery = lane(lambda: between(*_WORK_MS))
        return Lanes(lane(self._storing_takes), lane(self._committing_takes), discovery, AtOnce(self.post))

    def _storing_takes(self) -> float:
        slow = self._world.faults.hit("slow_storage", f"driver {self.number}")
        return self._scheduler.between(*(_SLOW_MS if slow else _WORK_MS))

    def _committing_takes(self) -> float:
        took = self._scheduler.between(*_WORK_MS)
        return self._scheduler.between(*_SLOW_COMMIT_MS) if self._commits_slowly else took

    def post(self, event: Event) -> None:
        """Events are handled in order, when the driver does not hang."""
        if self.running:
            self._events.append(event)
            self._when_awake(self._handle_next)

    def drain(self) -> Iterator[Event]:
        while self._events:
            yield self._events.popleft()

    # --- the event loop ---------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        self._world.tell(f"driver {self.number} starts with parallelism {self._plan.slots}")
        self.post(Start())

    def ask(self, kind: RequestKind) -> None:
        """A client wants a snapshot."""
        name, _ = self._driver.request(kind)
        self._world.tell(f"driver {self.number} is asked for {kind.noun} {name}")

    def rescale(self, parallelism: int) -> None:
        """A client wants another parallelism."""

        def ask() -> None:
            name, _ = self._driver.rescale(parallelism)
            self._world.tell(f"driver {self.number} is asked for {parallelism} slots, request {name}")

        self._when_awake(ask)

    def lose_slots(self, room: int) -> None:
        """There is room for so many only: the others vanish."""
        self._cluster.lose(room)

    def interrupt(self) -> None:
        """Somebody presses Ctrl-C: the job ends, and its checkpoints stay."""
        self._driver.cancel(keep=True)
        self._world.tell(f"driver {self.number} is interrupted")

    def _when_awake(self, action: Action) -> None:
        """Run ``action`` now or when the driver wakes up, as part of this process."""

        def run() -> None:
            if self._stands_still:  # perhaps longer than it hangs: until others that hang within it go on
                self._put_off.append(run)
            elif self._scheduler.now < self._hung_until:
                self._scheduler.at(self._hung_until, run)
            elif self.running:
                self._world.acting = self
                try:
                    with self._process.inside() if self._process else nullcontext():
                        action()
                except _Vanished:
                    self._crash()
                except _Retired:
                    self._leave()

        self._scheduler.after(0.0, run)

    def _handle_next(self) -> None:
        event = self._events.popleft() if self._events else Tick()
        self._narrate_event(event)
        for instruction in self._driver.decide(event):
            self._maybe_vanish(instruction)
            self._narrate(instruction)
            self._driver.carry_out(instruction)
        self._plan_tick()

    def _maybe_vanish(self, instruction: Instruction) -> None:
        kind = type(instruction).__name__
        if isinstance(instruction, EndJob):
            return  # a driver that has finished is not started again
        if self._world.faults.hit("driver_crash", f"driver {self.number} before {kind}"):
            raise _Vanished
        if self._world.faults.hit("driver_hang", f"driver {self.number} at {kind}"):
            self._hang()

    def _plan_tick(self) -> None:
        wake = self._driver.next_wake()
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

    def _narrate_event(self, event: Event) -> None:
        if isinstance(event, SnapshotRequested):
            self._clients.given(event.request)
        elif isinstance(event, SlotSaid) and isinstance(event.message, SnapshotAck):
            ack = event.message
            self._world.tell(
                f"epoch {ack.epoch} acknowledged by {ack.snapshot.subtask} of {event.generation}"
            )

    def _narrate(self, instruction: Instruction) -> None:
        if isinstance(instruction, SendAll) and isinstance(instruction.message, TriggerSnapshot):
            self._world.tell(f"epoch {instruction.message.epoch} triggered by driver {self.number}")
        elif isinstance(instruction, SendAll) and isinstance(instruction.message, AbortSnapshot):
            self._aborted.add(int(instruction.message.epoch))
            self._world.tell(f"epoch {instruction.message.epoch} aborted")
        elif isinstance(instruction, Publish):
            epoch = instruction.manifest.epoch
            self._world.tell(f"epoch {epoch} complete, driver {self.number} publishes")
            if int(epoch) in self._aborted:
                raise self._world.broken(f"epoch {epoch} is published although it was aborted")
        elif isinstance(instruction, Commit):
            self._world.tell(f"driver {self.number} commits up to epoch {instruction.permit.epoch}")
        elif isinstance(instruction, Rescaled):
            self._world.tell(f"driver {self.number}: {instruction.text}")
        elif isinstance(instruction, EndJob):
            endings = [answer for answer in instruction.answers if answer.request.kind.ends_job]
            self._stopped = any(answer.error is None for answer in endings)

    # --- trouble ----------------------------------------------------------------------------

    def _on_storage(self, operation: str) -> None:
        """Called before every operation on the storage: the places where two drivers can meet."""
        if self._auditor.dropping or self.storage.has_dropped:
            return
        what = f"driver {self.number} before a {operation}"
        if self._world.faults.hit("driver_crash_in_storage", what):
            raise _Vanished
        if self._world.faults.hit("driver_hang_in_storage", what):
            self._hang()
            self._stands_still = True
            self._scheduler.stand_still(self._hung_until)
            self._stands_still = False
            for action in self._put_off:
                self._scheduler.after(0.0, action)
            self._put_off.clear()
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

    # --- how it stands ----------------------------------------------------------------------

    @property
    def parallelism(self) -> int:
        """That of its job now."""
        return self._driver.parallelism

    @property
    def status(self) -> JobStatus:
        """That of its job."""
        return self._driver.status

    @property
    def ended_with(self) -> str | None:
        """The savepoint that the job was ended with, if somebody was told so."""
        return self._clients.ended_with

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
        return self.coordinator.generation != 0

    # --- ends -------------------------------------------------------------------------------

    def _crash(self) -> None:
        """The process is gone; its slots may live on for a while."""
        self._leave()
        self._world.tell(f"driver {self.number} is gone")
        self._auditor.maybe_rot(self.coordinator.generation)
        self._gone(self)

    def _leave(self) -> None:
        self.running = False
        self._cluster.close()

    def _on_ended(self, status: JobStatus, error: Exception | None) -> None:
        if self._driver.not_wound_up is not None:
            raise self._world.broken(f"driver {self.number} did not wind up: {self._driver.not_wound_up!r}")
        self._world.check_closed(self, f"driver {self.number}")
        self.running = False
        self.error = error
        finished = status is JobStatus.FINISHED
        by_itself = finished and not self._stopped
        self.line.finished = self.line.finished or by_itself or self.ended_with is not None
        self._world.tell(f"driver {self.number} ends: {status.name}{f' ({error})' if error else ''}")
        if by_itself:
            self._auditor.finished = True
        else:
            self._gone(self)
