"""The driver of a job: carries out what the coordinator decides.

It has no thread and opens nothing by itself: an event loop calls it (``event_loop.py``; the simulator has one
of its own), and everything that blocks goes through a port (``ports.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from penstock.coordinator.client_requests import ClientRequests
from penstock.coordinator.connectors import JobConnectors
from penstock.coordinator.coordinator import Coordinator
from penstock.coordinator.events import (
    Answer,
    CancelRequested,
    Claim,
    ClaimFailed,
    Commit,
    CommitFailed,
    Discover,
    DiscoveryFailed,
    EndJob,
    Event,
    Held,
    Instruction,
    LayOut,
    LookForSlots,
    PlanChanged,
    Publish,
    PublishFailed,
    Regain,
    ReportFailure,
    RequestKind,
    Rescaled,
    SamplesWanted,
    Send,
    SendAll,
    SlotSaid,
    SlotsAsked,
    Stalled,
    StartAttempt,
    StatusChanged,
    StopAttempt,
    Tick,
)
from penstock.coordinator.failure_reporting import FailureReporter
from penstock.coordinator.job_history import JobHistory
from penstock.coordinator.ports import DriverPorts
from penstock.coordinator.reporting import JobReporter
from penstock.coordinator.scaling_settings import ScalingSettings
from penstock.coordinator.scaling_watch import ScalingWatch
from penstock.core.clock import Now, mono_ms
from penstock.core.discreet import log_of
from penstock.core.errors import SnapshotError, as_error
from penstock.core.ids import MonoMs, SlotId, Subtask
from penstock.core.job import JobStatus
from penstock.core.log_place import at_attempt
from penstock.core.messages import (
    DriverMessage,
    DriverMessageTaken,
    Heartbeat,
    Output,
    Remark,
    Samples,
    TakeSamples,
    ToSlot,
)
from penstock.graph.plan import Plan

_log = log_of(__name__)

OnEnd = Callable[[JobStatus, Exception | None], None]
"""Called once, on the event loop's thread, when everything of the job is wound up."""


class JobDriver:
    """Runs one job through its ports, from start to end.

    Call order: :meth:`decide` for an event, :meth:`carry_out` for each instruction it gives, in turn; again
    for the next event, or for a tick when :meth:`next_wake` has come, until :attr:`has_ended`.  Should any of
    them raise, :meth:`fail`.  All of this from one thread.  :meth:`cancel` and :meth:`request` may be called
    from any, and attributes read.
    """

    def __init__(
        self,
        plan: Plan,
        coordinator: Coordinator,
        ports: DriverPorts,
        on_end: OnEnd,
        late_ms: int = 0,
        scaling: ScalingSettings | None = None,
    ) -> None:
        self.status = JobStatus.CREATED
        self.restarts = 0
        self.last_failure: Exception | None = None
        self.has_ended = False
        self.not_wound_up: Exception | None = None
        """What kept the end of the job from being tidy."""
        self.job_name = plan.job_name
        self.reporter = JobReporter(plan.job_name, late_ms)
        self.metrics: dict[Subtask, dict[str, float]] = {}
        """The newest metrics of each subtask, about a second old."""
        self._plan = plan
        self._coordinator = coordinator
        self._on_end = on_end
        self._scaling = ScalingWatch(scaling)
        self._clock = ports.clock
        self._cluster = ports.cluster
        self._events = ports.events
        self._lanes = ports.lanes
        self._storage = ports.storage
        self._clients = ports.clients
        self._requests = ClientRequests(ports, self._scaling)
        self._connectors = JobConnectors(plan)
        self._failures = FailureReporter(plan.job_name)
        self._begun = 0
        """Attempts behind the first."""
        self._ending: EndJob | None = None
        self._actions = self._action_table()
        self._decided_at = Now.of(ports.clock)
        self.history = JobHistory(plan, self._decided_at.wall)

    # --- from any thread --------------------------------------------------------------------

    def cancel(self, keep: bool = False) -> None:
        """Ask for the end of the job; its checkpoints stay if ``keep``."""
        self._events.post(CancelRequested(keep))

    def request(
        self, kind: RequestKind, directory: str | None = None, accepted: Callable[[], None] | None = None
    ) -> tuple[str, Future[str]]:
        """Ask for a snapshot: the request's id, and the place of the snapshot to come.

        ``accepted`` is called, on another thread, when there is a directory for it; else the future fails.
        """
        return self._requests.snapshot(kind, directory, accepted)

    def rescale(
        self, parallelism: int, accepted: Callable[[], None] | None = None
    ) -> tuple[str, Future[str]]:
        """Ask for another parallelism: the request's id, and the checkpoint that the job goes on from.

        The future is done when all tasks run, and fails if the job goes on as before.  ``accepted`` is
        called, on another thread, when nothing is known that speaks against it.
        """
        return self._requests.rescale(parallelism, self._plan, accepted)

    def sample(self) -> None:
        """Ask the slots what they spend their time with; the history has it a second later."""
        self._events.post(SamplesWanted())

    def ask(self, message: ToSlot, slot: SlotId | None = None) -> None:
        """Ask a slot, or all; the history has the answers when they come to answer."""
        self._events.post(SlotsAsked(message, slot))

    @property
    def parallelism(self) -> int:
        """That of steps without one of their own."""
        return self._plan.parallelism

    # --- from the event loop ----------------------------------------------------------------

    def next_wake(self) -> MonoMs | None:
        """When a tick is due at the latest."""
        return self._coordinator.next_wake()

    def decide(self, event: Event) -> list[Instruction]:
        """What is to be done about an event."""
        taken = self._intercept(event)
        self._decided_at = now = Now.of(self._clock)
        self.history.heard(event, now)
        return self._coordinator.handle(taken, now)

    def carry_out(self, instruction: Instruction) -> None:
        """Do it, or set it going; the event that says what came of it is posted."""
        self.history.did(instruction, self._decided_at)
        self._actions[type(instruction)](instruction)

    def fail(self, error: BaseException) -> None:
        """The event loop itself has failed: the job ends here, whatever it is at."""
        _log.error("the coordinator of job %r failed", self._plan.job_name, exc_info=error)
        if self._ending is None:
            self.carry_out(EndJob(JobStatus.FAILED, as_error(error), delete_snapshots=False))
        elif not self.has_ended:
            self._leave_as_it_is(as_error(error))
            self._tell_end(self._ending)

    def _intercept(self, event: Event) -> Event:
        """Take out what is not the coordinator's; a flood of that must not keep the time from it."""
        cause = self._failures.heard(event, self._now())
        if cause is not None:
            self.last_failure = cause
            self.history.explained(cause)
        if isinstance(event, SamplesWanted):
            self._send_all(SendAll(TakeSamples()))
            return Tick()
        if isinstance(event, SlotsAsked):
            if self._ending is None:
                self._pass_on(event)
            return Tick()
        if not isinstance(event, SlotSaid):
            return event
        message = event.message
        if isinstance(message, DriverMessage):
            self._connectors.deliver(message)
            self._cluster.send(event.slot, DriverMessageTaken())
            return Tick()
        if isinstance(message, Heartbeat):
            self.metrics.update(message.metrics)
            self._scale()
        self.reporter.hear(event.generation, message, self._now)
        return Tick() if isinstance(message, Heartbeat | Remark | Samples | Output) else event

    def _scale(self) -> None:
        """Rescale the job if its load asks for that."""
        now = self._now()
        if not self._scaling.is_due(now):
            return
        self._requests.find_room()
        decision = self._scaling.heard(self.metrics, now)
        if decision is not None:
            self.carry_out(Rescaled(decision.text))
            self.rescale(decision.parallelism)[1].add_done_callback(self.reporter.on_scaled)

    def _now(self) -> MonoMs:
        return mono_ms(self._clock)

    # --- what is done -----------------------------------------------------------------------

    def _action_table(self) -> dict[type, Callable[[Any], None]]:
        """What to do for each kind of instruction."""
        cluster, lanes, storage = self._cluster, self._lanes, self._storage
        return {
            Claim: lambda i: lanes.storage.submit(lambda: self._claim(i), ClaimFailed),
            Discover: lambda i: lanes.discovery.submit(
                lambda: self._connectors.discover(i),
                lambda error: DiscoveryFailed(i.generation, i.operator_id, error),
            ),
            StartAttempt: lambda i: cluster.start_attempt(i.generation, i.slots, self._events.post),
            StopAttempt: lambda i: cluster.stop_attempt(i.generation, i.reason),
            Send: lambda i: cluster.send(i.slot, i.message),
            SendAll: self._send_all,
            Publish: lambda i: lanes.storage.submit(
                lambda: storage.publish(i), lambda error: PublishFailed(i.manifest.epoch, error)
            ),
            LookForSlots: self._requests.look,
            LayOut: lambda i: self._requests.lay_out(i, self._plan),
            Regain: lambda i: self._requests.regain(i, self._plan),
            Answer: self._answer,
            Commit: lambda i: lanes.commits.submit(lambda: self._connectors.commit(i), CommitFailed),
            ReportFailure: self._report,
            Stalled: self.reporter.on_stalled,
            Held: self.reporter.on_held,
            StatusChanged: self._set_status,
            PlanChanged: self._change_plan,
            Rescaled: self.reporter.on_rescaled,
            EndJob: self._end,
        }

    def _claim(self, instruction: Claim) -> Event:
        self._cluster.check()
        return self._storage.claim(instruction.checksums)

    def _send_all(self, instruction: SendAll) -> None:
        for slot in range(self._plan.slots):
            self._cluster.send(SlotId(slot), instruction.message)

    def _pass_on(self, event: SlotsAsked) -> None:
        if event.slot is None:
            self._send_all(SendAll(event.message))
        else:
            self._cluster.send(event.slot, event.message)

    def _set_status(self, instruction: StatusChanged) -> None:
        self.status = instruction.status
        self.reporter.stalled = None
        is_running = instruction.status is JobStatus.RUNNING
        self._scaling.changed(self._plan if is_running else None, self._now())
        if instruction.status is JobStatus.RESTARTING:
            self.restarts += not instruction.planned
            self._begun += 1
            at_attempt(self._begun)

    def _change_plan(self, instruction: PlanChanged) -> None:
        plan = self._plan = instruction.plan
        self.metrics = {}
        self._connectors.change_plan(plan)
        self._storage.change_plan(plan)

    def _report(self, instruction: ReportFailure) -> None:
        self.last_failure = self._failures.failed(instruction.error, instruction.restart_in_ms, self._now())
        self.history.failed(self.last_failure, self._decided_at.wall)

    def _answer(self, instruction: Answer) -> None:
        self._clients.answer(instruction, self._storage.url)
        location = instruction.request.location
        if instruction.discard and location is not None:
            self._lanes.storage.submit(lambda: self._discard(location), lambda error: Tick())

    def _discard(self, location: str) -> Event:
        self._storage.discard(location)
        return Tick()

    # --- the end ----------------------------------------------------------------------------

    def _end(self, instruction: EndJob) -> None:
        """Wind up; whatever goes wrong with that, clients that wait for the job hear of its end."""
        self._ending = instruction
        try:
            self._wind_up(instruction)
        except Exception as error:
            self._leave_as_it_is(error)
        self._tell_end(instruction)

    def _tell_end(self, instruction: EndJob) -> None:
        self.has_ended = True
        self.status = instruction.status
        cause = self._failures.cause_of(instruction.error)
        if cause is not None:
            self.history.failed(cause, self._decided_at.wall)
        self._on_end(instruction.status, self._storage.explained(cause))

    def _leave_as_it_is(self, error: Exception) -> None:
        name = self._plan.job_name
        _log.error("job %r has ended, but not all of it could be wound up", name, exc_info=error)
        self.not_wound_up = error
        self._clients.close()

    def _wind_up(self, instruction: EndJob) -> None:
        """In this order: clients are told nothing before all of it has happened.

        1. The cluster is closed: slots that are left cannot reach the driver.
        2. The checkpoints go, if none is kept, behind whatever the storage is still at.
        3. The lanes come to rest: a job that has ended changes nothing any more.
        4. Committers are told what never will be committed, and closed.
        5. Printed lines and collected rows that are still in the queue are delivered.
        6. Clients that wait for a snapshot get their answers.
        """
        self._cluster.close()
        lanes = self._lanes
        doubt = lanes.storage.wait_for(self._storage.drop) if instruction.delete_snapshots else None
        lanes.discovery.close(wait=False)
        lanes.storage.close(wait=True)
        lanes.commits.close(wait=True)
        if instruction.abandoned:
            self._connectors.abandon(self._plan.job_name, instruction.abandoned)
        self._connectors.close()
        self._storage.release()
        self._deliver_left()
        self.reporter.at_end()
        self.status = instruction.status
        self._answer_last(instruction, doubt)

    def _deliver_left(self) -> None:
        for event in self._events.drain():
            try:
                self._intercept(event)
            except Exception as error:
                _log.warning("a sink's last message was not delivered: %s", error)

    def _answer_last(self, instruction: EndJob, doubt: Exception | None) -> None:
        for answer in instruction.answers:
            last = answer
            if doubt is not None and answer.error is None:
                # A job that goes on from the savepoint must be the only one that goes on.
                what = f"the savepoint {answer.where} is complete, but another driver may go on with the job"
                last = replace(answer, error=SnapshotError(f"{what}: {doubt}"))
            self._clients.answer(last, self._storage.url)
            if last.discard and last.request.location is not None:
                self._storage.discard(last.request.location)
        self._clients.close()
