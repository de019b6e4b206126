"""A started job, as clients, the command line and the registry see it."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from copy import deepcopy
from typing import Any

from penstock.common._job_view import JobView
from penstock.common.job_execution_result import JobExecutionResult
from penstock.coordinator.assemble import Assembled
from penstock.coordinator.coordinator import Coordinator
from penstock.coordinator.driver import JobDriver
from penstock.coordinator.events import RequestKind
from penstock.coordinator.job_history import JobHistory
from penstock.coordinator.job_view import view_of
from penstock.coordinator.resuming import what_is_kept
from penstock.core.clock import Clock
from penstock.core.discreet import log_of
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, JobFailedError
from penstock.core.ids import SlotId
from penstock.core.job import JobID, JobStatus
from penstock.core.messages import ToSlot

_log = log_of(__name__)


class JobResult:
    """Where the end of a job is waited for.  Its clock starts when it is made."""

    def __init__(self, job: Assembled, clock: Clock) -> None:
        self.finished: Future[JobExecutionResult] = Future()
        """Done when the job has; fails if the job did."""
        self.stopped: Future[None] = Future()
        """Done when the job has ended, however."""
        self.listeners: list[Callable[[JobStatus], None]] = []
        """Called at the end, on the thread that ends the job, before those who wait for the result."""
        self._job = job
        self._clock = clock
        self._started = clock.monotonic()
        # A client must not be able to take one of them back: the end of the job could not be told.
        self.finished.set_running_or_notify_cancel()
        self.stopped.set_running_or_notify_cancel()

    def now_ms(self) -> int:
        """The time, by the clock of the job."""
        return self._clock.now_ms()

    def resolve(self, status: JobStatus, error: Exception | None) -> None:
        """The job is over.  Called once, by what runs it, on the thread that ended it."""
        runtime = int((self._clock.monotonic() - self._started) * 1000)
        name = self._job.plan.job_name
        for listener in self.listeners:
            try:
                listener(status)
            except Exception:
                _log.exception("the end of job %r was not heard everywhere", name)
        self.stopped.set_result(None)
        if status is JobStatus.FINISHED:
            self.finished.set_result(JobExecutionResult(self._job.job_id, runtime))
        elif status is JobStatus.CANCELED:
            self.finished.set_exception(
                JobFailedError(f"job {name!r} was cancelled", code=Code.JOB_CANCELLED)
            )
        else:
            self.finished.set_exception(JobFailedError(f"job {name!r} failed: {error}", cause=error))


class RunningJob(ABC):
    """A started job. Implements ``JobHandle``, what a ``JobClient`` steers.

    Every method may be called from any thread, at any time, also behind the end of the job.
    """

    def __init__(self, job: Assembled, result: JobResult) -> None:
        self.job = job
        self.page: Callable[[], str] | None = None
        """Makes an address of its page that lets one browser in, if it has a page."""
        self.page_url: str | None = None
        """Where its page is, if it has one."""
        self.run_id = uuid.uuid4().hex
        """Of this run; another one of the same job has another."""
        self.history: JobHistory
        """What happened to it."""
        self.savepoints_asked = 0
        """A user may go back to one of them when the job is over."""
        self._result = result

    @property
    def job_id(self) -> JobID:
        """Which job it is."""
        return self.job.job_id

    @property
    def listeners(self) -> list[Callable[[JobStatus], None]]:
        """Called at the end of the job, before those who wait for the result."""
        return self._result.listeners

    def now_ms(self) -> int:
        """The time, by the clock of the job."""
        return self._result.now_ms()

    @abstractmethod
    def status(self) -> JobStatus:
        """Where the job is in its life."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """How the job stands, in plain values: what lists and progress lines show."""

    @abstractmethod
    def cancel(self) -> Future[None]:
        """Stop the job without a snapshot; done when it has stopped."""

    @abstractmethod
    def interrupt(self) -> Future[None]:
        """Stop the job; its checkpoints stay, whatever the retention, if it could go on from them."""

    @abstractmethod
    def what_is_kept(self) -> str:
        """What the interrupted job could go on from, and how, in one line."""

    @abstractmethod
    def request(
        self, kind: RequestKind, directory: str | None = None, accepted: Callable[[], None] | None = None
    ) -> tuple[str, Future[str]]:
        """Ask for a snapshot: the request's id, and the place of the snapshot to come.

        ``accepted`` is called when there is a directory for it; if there cannot be, the future fails first.
        """

    def rescale(
        self, parallelism: int, accepted: Callable[[], None] | None = None
    ) -> tuple[str, Future[str]]:
        """Ask for another parallelism: the request's id, and the checkpoint that the job goes on from.

        ``accepted`` is called when nothing speaks against it; else the future fails first.
        """
        refused: Future[str] = Future()
        refused.set_exception(ConfigError("a job in BATCH mode has no slots of its own to be rescaled"))
        return "", refused

    def sample(self) -> None:
        """Have the slots look what they spend their time with, if there are any; the history has it soon."""
        return

    def ask(self, message: ToSlot, slot: SlotId | None = None) -> None:
        """Ask a slot, or all, if there are any; the history has the answers soon."""
        return

    def result(self) -> Future[JobExecutionResult]:
        """Done when the job has; fails if the job did."""
        return self._result.finished

    def progress(self, told: int = 0) -> tuple[int, list[dict[str, Any]]]:
        """How many entries there have been, and those behind the first ``told`` that are kept."""
        total, entries = self.history.progress(told)
        which = {"id": self.job_id.hex, "runId": self.run_id, "name": self.job.plan.job_name}
        return total, [{**which, **deepcopy(entry)} for entry in entries]  # users change what they get

    def on_progress(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called when there is another entry. It must not block."""
        self.history.on_progress(wake)

    def view(self) -> JobView:
        """The job as people see it."""
        return view_of(self)

    def page_link(self) -> str | None:
        """An address of its page that lets one browser in, if it has a page."""
        return None if self.page is None or self.result().done() else self.page()

    def trigger_savepoint(self, directory: str | None) -> Future[str]:
        """Take a savepoint while the job goes on; its path."""
        return self.request(RequestKind.SAVEPOINT, directory)[1]

    def stop_with_savepoint(self, drain: bool, directory: str | None) -> Future[str]:
        """Take a savepoint and end the job; its path."""
        return self.request(RequestKind.DRAIN if drain else RequestKind.STOP, directory)[1]


class StreamingJob(RunningJob):
    """A job in STREAMING mode: a driver runs it."""

    def __init__(
        self, job: Assembled, result: JobResult, driver: JobDriver, coordinator: Coordinator
    ) -> None:
        super().__init__(job, result)
        self.driver = driver
        self.history = driver.history
        self.coordinator = coordinator

    def status(self) -> JobStatus:
        return self.driver.status

    def facts(self) -> dict[str, Any]:
        checkpoints = self.coordinator.checkpoints
        history = checkpoints.history[-1:]
        received = [values.get("numRecordsIn", 0) for values in list(self.driver.metrics.values())]
        return {
            "id": self.job_id.hex,
            "name": self.job.plan.job_name,
            "status": self.status().name,
            "restarts": self.driver.restarts,
            "checkpoints": checkpoints.completed,
            "last_checkpoint": history[0] if history else None,
            "records_in": int(sum(received)),
            "outputs_dropped": self.coordinator.commits.dropped,
            "under_way": checkpoints.pending(),
            "late_dropped": self.driver.reporter.late_dropped,
            "stalled": self.driver.reporter.stalled,
            "held": checkpoints.held,
            "stages": None,
        }

    def cancel(self) -> Future[None]:
        self.driver.cancel()
        return self._result.stopped

    def interrupt(self) -> Future[None]:
        self.driver.cancel(keep=not self.job.is_aside)
        return self._result.stopped

    def rescale(
        self, parallelism: int, accepted: Callable[[], None] | None = None
    ) -> tuple[str, Future[str]]:
        return self.driver.rescale(parallelism, accepted)

    def sample(self) -> None:
        self.driver.sample()

    def ask(self, message: ToSlot, slot: SlotId | None = None) -> None:
        self.driver.ask(message, slot)

    def what_is_kept(self) -> str:
        job = self.job
        root = None if job.is_aside else job.repository.root
        return what_is_kept(job.plan.job_name, self.status(), root, job.configuration)

    def request(
        self, kind: RequestKind, directory: str | None = None, accepted: Callable[[], None] | None = None
    ) -> tuple[str, Future[str]]:
        self.savepoints_asked += kind is not RequestKind.CHECKPOINT
        return self.driver.request(kind, directory, accepted)
