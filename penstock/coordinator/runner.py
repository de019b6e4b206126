"""Carries out what the coordinator decides.

Threads: one *brain* thread takes events from a queue, asks the coordinator and dispatches; storage,
commits and split discovery each have a thread of their own, so that a slow one delays no other.  Their
results come back as events.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from penstock.coordinator.asked import RequestBook, discard_unfinished, savepoint_place
from penstock.coordinator.cluster import Cluster
from penstock.coordinator.coordinator import Coordinator
from penstock.coordinator.ends import JobEnds
from penstock.coordinator.events import (
    Answer,
    CancelRequested,
    Claim,
    Claimed,
    ClaimFailed,
    Commit,
    CommitFailed,
    Discover,
    DiscoveryFailed,
    EndJob,
    Event,
    Held,
    Instruction,
    Publish,
    PublishDone,
    PublishFailed,
    ReportFailure,
    RequestKind,
    SavepointWritten,
    Send,
    SendAll,
    SlotSaid,
    SnapshotRequest,
    SnapshotRequested,
    Stalled,
    Start,
    StartAttempt,
    StatusChanged,
    StopAttempt,
    Tick,
)
from penstock.coordinator.failure_teller import FailureTeller
from penstock.coordinator.looking import Look
from penstock.coordinator.origin import Named, dispose_claimed, line_origin
from penstock.coordinator.restore import restored_job
from penstock.coordinator.resuming import tell_beginning, tell_resuming
from penstock.coordinator.telling import Teller
from penstock.coordinator.who import Signature
from penstock.core.clock import Clock
from penstock.core.errors import CorruptSnapshotError, SnapshotError, as_error
from penstock.core.ids import Epoch, Generation, SlotId, Subtask
from penstock.core.job import JobStatus
from penstock.core.messages import DriverMessage, DriverMessageTaken, Heartbeat, Remark, TriggerSnapshot
from penstock.graph.plan import Plan
from penstock.snapshot.repository import Repository, write_savepoint
from penstock.snapshot.storage import SnapshotStore
from penstock.snapshot.store import open_store

_log = logging.getLogger("penstock")


class JobRunner:
    """Runs one job on a cluster, from start to end."""

    def __init__(
        self,
        plan: Plan,
        coordinator: Coordinator,
        cluster: Cluster,
        repository: Repository,
        clock: Clock,
        on_end: Callable[[JobStatus, Exception | None], None],
        initial: Named | None = None,
        retained: int = 1,
        allow_non_restored: bool = False,
        claim: bool = False,
        late_ms: int = 0,
        driver: str | None = None,
    ) -> None:
        self.status = JobStatus.CREATED
        self.restarts = 0
        self.last_failure: Exception | None = None
        self.teller = Teller(plan.job_name, late_ms)
        self.metrics: dict[Subtask, dict[str, float]] = {}
        """The newest metrics of each subtask, about a second old."""
        self._plan = plan
        self._coordinator = coordinator
        self._cluster = cluster
        self._repository = repository
        self._clock = clock
        self._on_end = on_end
        self._initial = initial
        self._retained = retained
        self._allow_non_restored = allow_non_restored
        self._look = Look(repository, plan, initial, allow_non_restored)
        self._claimable = initial.found if initial is not None and claim else None
        self._published = 0
        self._since: Generation | None = None
        self._book = RequestBook()
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._storage_pool = ThreadPoolExecutor(1, "penstock-storage")
        self._commit_pool = ThreadPoolExecutor(1, "penstock-commit")
        self._discovery_pool = ThreadPoolExecutor(1, "penstock-discovery")
        self._ends = JobEnds(plan)
        self._failures = FailureTeller(plan.job_name)
        self._signature = Signature(plan.job_name, repository, driver)
        self._ended = False
        self._actions = self._action_table()

    def start(self) -> None:
        """Begin; everything happens on other threads."""
        self.post(Start())
        threading.Thread(target=self._think, daemon=True, name="penstock-brain").start()

    def post(self, event: Event) -> None:
        """Give the coordinator an event, from any thread."""
        self._events.put(event)

    def cancel(self, keep: bool = False) -> None:
        """Ask for the end of the job; its checkpoints stay if ``keep``."""
        self.post(CancelRequested(keep))

    def request(
        self, kind: RequestKind, directory: str | None, default: str | None, job_id: str
    ) -> tuple[str, Future[str]]:
        """Ask for a snapshot, from any thread: the request's id, and the place of the snapshot to come."""
        name, future = self._book.enter()

        def prepare() -> None:
            try:
                place = None
                if kind is not RequestKind.CHECKPOINT:
                    place = savepoint_place(directory, default, job_id, self._repository.root.url)
                self.post(SnapshotRequested(SnapshotRequest(name, kind, place)))
            except Exception as error:
                self._book.fail(name, error)

        if not future.done():
            threading.Thread(target=prepare, daemon=True, name="penstock-request").start()
        return name, future

    def _think(self) -> None:
        while not self._ended:
            try:
                event = self._next_event()
                for instruction in self._coordinator.handle(self._for_us(event), self._now()):
                    self._carry_out(instruction)
            except BaseException as error:
                _log.exception("the coordinator of job %r failed", self._plan.job_name)
                self._end(EndJob(JobStatus.FAILED, as_error(error), delete_snapshots=False))

    def _next_event(self) -> Event:
        wake = self._coordinator.next_wake()
        timeout = None if wake is None else max(0.0, (wake - self._now()) / 1000)
        try:
            return self._events.get(timeout=timeout)
        except queue.Empty:
            return Tick()

    def _for_us(self, event: Event) -> Event:
        """Take out what is not the coordinator's; a flood of that must not keep the time from it."""
        self.last_failure = self._failures.heard(event, self._now()) or self.last_failure
        if not isinstance(event, SlotSaid):
            return event
        message = event.message
        if isinstance(message, DriverMessage):
            self._ends.deliver(message)
            self._cluster.send(event.slot, DriverMessageTaken())
            return Tick()
        if isinstance(message, Heartbeat):
            self.metrics.update(message.metrics)
        self.teller.hear(event.generation, message, self._now)
        return Tick() if isinstance(message, Heartbeat | Remark) else event

    def _action_table(self) -> dict[type, Callable[[Any], None]]:
        """What to do for each kind of instruction."""
        cluster = self._cluster
        return {
            Claim: lambda i: self._background(
                self._storage_pool, lambda: self._claim(i.checksums), ClaimFailed
            ),
            Discover: lambda i: self._background(
                self._discovery_pool,
                lambda: self._ends.discover(i),
                lambda error: DiscoveryFailed(i.generation, i.operator_id, error),
            ),
            StartAttempt: lambda i: cluster.start_attempt(i.generation, i.slots, self.post),
            StopAttempt: lambda i: cluster.stop_attempt(i.generation, i.reason),
            Send: lambda i: cluster.send(i.slot, i.message),
            SendAll: self._send_all,
            Publish: lambda i: self._background(
                self._storage_pool,
                lambda: self._publish(i),
                lambda error: PublishFailed(i.manifest.epoch, error),
            ),
            Answer: self._answer,
            Commit: lambda i: self._background(self._commit_pool, lambda: self._ends.commit(i), CommitFailed),
            ReportFailure: self._report,
            Stalled: self.teller.on_stalled,
            Held: self.teller.on_held,
            StatusChanged: self._set_status,
            EndJob: self._end,
        }

    def _carry_out(self, instruction: Instruction) -> None:
        self._actions[type(instruction)](instruction)

    def _now(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def _background(
        self, pool: ThreadPoolExecutor, work: Callable[[], Event], failed: Callable[[Exception], Event]
    ) -> None:
        def run() -> None:
            try:
                self.post(work())
            except BaseException as error:
                self.post(failed(as_error(error)))

        pool.submit(run)

    def _send_all(self, instruction: SendAll) -> None:
        message = instruction.message
        if isinstance(message, TriggerSnapshot):
            message = replace(message, triggered_ms=self._clock.now_ms())  # slots know only the calendar
        for slot in range(self._plan.slots):
            self._cluster.send(SlotId(slot), message)

    def _set_status(self, instruction: StatusChanged) -> None:
        self.status = instruction.status
        self.teller.stalled = None
        if instruction.status is JobStatus.RESTARTING:
            self.restarts += 1

    def _report(self, instruction: ReportFailure) -> None:
        self.last_failure = self._failures.failed(instruction.error, instruction.restart_in_ms, self._now())

    def _answer(self, instruction: Answer) -> None:
        self._book.answer(instruction, self._repository.root.url)
        location = instruction.request.location
        if instruction.discard and location is not None:
            self._background(self._storage_pool, lambda: self._discard(location), lambda error: Tick())

    def _discard(self, location: str) -> Event:
        try:
            discard_unfinished(self._savepoint_store(location))
        except Exception as error:
            _log.warning("what is left of a failed savepoint could not be removed: %s", error)
        return Tick()

    # --- storage ----------------------------------------------------------------------------

    def _claim(self, checksums: bool) -> Event:
        self._cluster.check()
        repository = self._repository
        found = self._look(checksums=checksums)  # refused here, whoever runs the job goes on
        generation, _ = repository.claim()
        if self._since is None:
            self._since = generation
            self._signature.sign()
        if repository.moved_on():
            found = self._look(checksums=checksums, fenced=True)
        self._sweep()
        last = repository.next_epoch() - 1
        if found is None:
            tell_beginning(self._plan, repository.root)
            return Claimed(generation, Epoch(last), None)
        last = max(last, found.manifest.epoch)
        store: SnapshotStore = repository.root
        if found.location.root != store.url:
            store = open_store(found.location.root, create=False)
        permit = repository.permit_restored(found.manifest)
        ours = store is repository.root and found.manifest.generation >= self._since
        try:
            restored = restored_job(self._plan, found, store, permit, self._allow_non_restored, ours)
        except CorruptSnapshotError:
            repository.permit_restored(found.manifest)  # a newer driver's retention is no damage
            if not checksums:
                return self._claim(checksums=True)  # lengths do not show all damage
            raise
        restored = replace(restored, origin=line_origin(found, self._initial))
        tell_resuming(self._plan, found, restored, self._clock.now_ms())
        return Claimed(generation, Epoch(last), restored)

    def _sweep(self) -> None:
        """No gang runs between a claim and its start: what the last one left half done stays so."""
        try:
            self._repository.sweep_shared()
        except (SnapshotError, OSError) as error:
            _log.warning("shared files that nobody needs could not be removed: %s", error)

    def _publish(self, instruction: Publish) -> Event:
        manifest = replace(instruction.manifest, created_ms=self._clock.now_ms())
        place = None if instruction.location is None else self._savepoint_store(instruction.location)
        if instruction.beside:
            assert place is not None
            self._repository.permit_restored(manifest)  # a driver that was fenced makes no savepoints either
            write_savepoint(place, manifest, self._repository.signing)
            return SavepointWritten(manifest.epoch)
        permit = self._repository.publish(manifest, place)
        self._published += 1
        try:
            self._repository.retain(self._retained)
            if self._claimable is not None and self._published >= self._retained:
                claimed, self._claimable = self._claimable, None
                if claimed.location.root != self._repository.root.url:  # retention sees to the job's own
                    dispose_claimed(claimed)
        except Exception as error:
            _log.warning("old checkpoints could not be removed: %s", error)
        return PublishDone(instruction.manifest.epoch, permit)

    def _savepoint_store(self, location: str) -> SnapshotStore:
        """The directory of a savepoint; the simulator has its own."""
        return open_store(location, create=False)

    # --- the end ----------------------------------------------------------------------------

    def _end(self, instruction: EndJob) -> None:
        """Wind up; whatever goes wrong with that, whoever waits for the job hears of its end."""
        if self._ended:
            return
        self._ended = True
        try:
            self._wind_up(instruction)
        except Exception:
            _log.exception("job %r has ended, but not all of it could be wound up", self._plan.job_name)
            self._book.close()
        finally:
            self.status = instruction.status
            cause = self._failures.cause_of(instruction.error)
            self._on_end(instruction.status, self._signature.explained(cause))

    def _wind_up(self, instruction: EndJob) -> None:
        self._cluster.close()
        doubt = self._storage_pool.submit(self._drop).result() if instruction.delete_snapshots else None
        self._discovery_pool.shutdown(wait=False)
        for pool in (self._storage_pool, self._commit_pool):
            pool.shutdown(wait=True)  # a job that has ended changes nothing any more
        if instruction.abandoned:
            self._ends.abandon(self._plan.job_name, instruction.abandoned)
        self._ends.close()
        self._signature.remove()
        self._drain()
        self.teller.at_end()
        self.status = instruction.status
        self._answer_last(instruction, doubt)

    def _drop(self) -> Exception | None:
        """Remove the checkpoints; gives back why it is not certain that the job was ours to the end."""
        if not self._repository.is_claimed:
            return None  # what lies there is not this driver's
        try:
            self._repository.claim()
        except Exception as error:
            return error
        try:
            self._repository.drop_all()
        except Exception as error:
            _log.warning("the checkpoints of the finished job could not be removed: %s", error)
        return None

    def _answer_last(self, instruction: EndJob, doubt: Exception | None) -> None:
        for answer in instruction.answers:
            last = answer
            if doubt is not None and answer.error is None:
                # Whoever goes on from the savepoint must be the only one who goes on.
                what = f"the savepoint {answer.where} is complete, but another driver may go on with the job"
                last = replace(answer, error=SnapshotError(f"{what}: {doubt}"))
            self._book.answer(last, self._repository.root.url)
            if last.discard and last.request.location is not None:
                self._discard(last.request.location)
        self._book.close()

    def _drain(self) -> None:
        """Printed lines and collected rows that are still in the queue belong to the job."""
        while True:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                return
            try:
                self._for_us(event)
            except Exception as error:
                _log.warning("a sink's last message was not delivered: %s", error)
