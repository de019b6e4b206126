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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from penstock.coordinator.cluster import Cluster
from penstock.coordinator.coordinator import Coordinator
from penstock.coordinator.ends import JobEnds
from penstock.coordinator.events import (
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
    Instruction,
    Publish,
    PublishDone,
    PublishFailed,
    ReportFailure,
    Send,
    SendAll,
    SlotSaid,
    Start,
    StartAttempt,
    StatusChanged,
    StopAttempt,
    Tick,
)
from penstock.coordinator.restore import restored_job
from penstock.core.clock import Clock
from penstock.core.errors import CorruptSnapshotError
from penstock.core.ids import Epoch, SlotId, Subtask
from penstock.core.job import JobStatus
from penstock.core.messages import DriverMessage, DriverMessageTaken, Heartbeat
from penstock.graph.plan import Plan
from penstock.snapshot.finding import Found
from penstock.snapshot.repository import Repository
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
        initial: Found | None = None,
        retained: int = 1,
        allow_non_restored: bool = False,
    ) -> None:
        self.status = JobStatus.CREATED
        self.restarts = 0
        self.last_failure: Exception | None = None
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
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._storage_pool = ThreadPoolExecutor(1, "penstock-storage")
        self._commit_pool = ThreadPoolExecutor(1, "penstock-commit")
        self._discovery_pool = ThreadPoolExecutor(1, "penstock-discovery")
        self._ends = JobEnds(plan)
        self._ended = False
        self._actions = self._action_table()

    def start(self) -> None:
        """Begin; everything happens on other threads."""
        self.post(Start())
        threading.Thread(target=self._think, daemon=True, name="penstock-brain").start()

    def post(self, event: Event) -> None:
        """Give the coordinator an event, from any thread."""
        self._events.put(event)

    def cancel(self) -> None:
        """Ask for the end of the job."""
        self.post(CancelRequested())

    def _think(self) -> None:
        while not self._ended:
            wake = self._coordinator.next_wake()
            timeout = None if wake is None else max(0.0, (wake - self._now()) / 1000)
            try:
                event: Event = self._events.get(timeout=timeout)
            except queue.Empty:
                event = Tick()
            try:
                for instruction in self._coordinator.handle(self._for_us(event), self._now()):
                    self._carry_out(instruction)
            except Exception as error:
                _log.exception("the coordinator of job %r failed", self._plan.job_name)
                self._end(EndJob(JobStatus.FAILED, error, delete_snapshots=False))

    def _for_us(self, event: Event) -> Event:
        """Take out what is not the coordinator's; a flood of that must not keep the time from it."""
        if isinstance(event, SlotSaid) and isinstance(event.message, DriverMessage):
            self._ends.deliver(event.message)
            self._cluster.send(event.slot, DriverMessageTaken())
            return Tick()
        if isinstance(event, SlotSaid) and isinstance(event.message, Heartbeat):
            self.metrics.update(event.message.metrics)
            return Tick()
        return event

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
            Commit: lambda i: self._background(self._commit_pool, lambda: self._ends.commit(i), CommitFailed),
            ReportFailure: self._report,
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
            except Exception as error:
                self.post(failed(error))

        pool.submit(run)

    def _send_all(self, instruction: SendAll) -> None:
        for slot in range(self._plan.slots):
            self._cluster.send(SlotId(slot), instruction.message)

    def _set_status(self, instruction: StatusChanged) -> None:
        self.status = instruction.status
        if instruction.status is JobStatus.RESTARTING:
            self.restarts += 1

    def _report(self, instruction: ReportFailure) -> None:
        self.last_failure = instruction.error
        _log.warning(
            "job %r failed and restarts in %.1f s: %s",
            self._plan.job_name,
            instruction.restart_in_ms / 1000,
            instruction.error,
        )

    # --- storage ----------------------------------------------------------------------------

    def _claim(self, checksums: bool) -> Event:
        repository = self._repository
        generation, _ = repository.claim()
        found = repository.latest_valid(checksums=checksums) or self._initial
        last = repository.next_epoch() - 1
        if found is None:
            return Claimed(generation, Epoch(last), None)
        last = max(last, found.manifest.epoch)
        store: SnapshotStore = repository.root
        if found.location.root != store.url:
            store = open_store(found.location.root, create=False)
        permit = repository.permit_restored(found.manifest)
        try:
            restored = restored_job(self._plan, found, store, permit, self._allow_non_restored)
        except CorruptSnapshotError:
            repository.permit_restored(found.manifest)  # a newer driver's retention is no damage
            raise
        return Claimed(generation, Epoch(last), restored)

    def _publish(self, instruction: Publish) -> Event:
        manifest = replace(instruction.manifest, created_ms=self._clock.now_ms())
        permit = self._repository.publish(manifest)
        try:
            self._repository.retain(self._retained)
        except Exception as error:
            _log.warning("old checkpoints could not be removed: %s", error)
        return PublishDone(instruction.manifest.epoch, permit)

    # --- the end ----------------------------------------------------------------------------

    def _end(self, instruction: EndJob) -> None:
        self._ended = True
        self._cluster.close()
        if instruction.delete_snapshots:
            self._storage_pool.submit(self._drop).result()
        self._discovery_pool.shutdown(wait=False)
        for pool in (self._storage_pool, self._commit_pool):
            pool.shutdown(wait=True)  # a job that has ended changes nothing any more
        self._ends.close()
        self._drain()
        self.status = instruction.status
        self._on_end(instruction.status, instruction.error)

    def _drop(self) -> None:
        try:
            self._repository.drop_all()
        except Exception as error:
            _log.warning("the checkpoints of the finished job could not be removed: %s", error)

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
