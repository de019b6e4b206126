"""PyFlink's ``common.job_client``: the handle of a running job.

``env.execute_async()`` returns a :class:`JobClient`.  What really steers the job is the
:class:`JobHandle` behind it, made by whoever runs the job.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from penstock.common.completable_future import CompletableFuture
from penstock.common.job_execution_result import JobExecutionResult
from penstock.core.job import JobID, JobStatus

__all__ = ["JobClient", "JobHandle"]


class JobHandle(Protocol):
    """What a job's runner offers. Methods may be called from any thread and must not block."""

    @property
    def job_id(self) -> JobID:
        """Which job it is."""
        ...

    def status(self) -> JobStatus:
        """Where the job is in its life."""
        ...

    def cancel(self) -> Future[None]:
        """Stop the job without a snapshot; done when it has stopped."""
        ...

    def interrupt(self) -> Future[None]:
        """Stop the job as Ctrl-C does: what it could go on from is kept; done when it has stopped."""
        ...

    def what_is_kept(self) -> str:
        """What an interrupted job could go on from, and how, in one line."""
        ...

    def result(self) -> Future[JobExecutionResult]:
        """Done when the job has; fails if the job did."""
        ...

    def trigger_savepoint(self, directory: str | None) -> Future[str]:
        """Take a savepoint while the job goes on; its path."""
        ...

    def stop_with_savepoint(self, drain: bool, directory: str | None) -> Future[str]:
        """Take a savepoint and end the job; its path."""
        ...


class JobClient:
    """Steers a running job; from ``env.execute_async()``. Safe to use from any thread.

    Methods return at once, with a future: ``client.trigger_savepoint("/backup").result()`` waits.

    >>> def run(stream):
    ...     stream.print()
    ...     client = env.execute_async("two numbers")
    ...     client.get_job_execution_result().result()  # waits for the end
    ...     return client.get_job_status().result()
    >>> run(env.from_collection([1, 2]))
    1
    2
    <JobStatus.FINISHED: 6>
    """

    def __init__(self, handle: JobHandle) -> None:
        self._handle = handle

    @property
    def handle(self) -> JobHandle:
        """The engine's own view of the job: more than PyFlink offers, such as its checkpoint history."""
        return self._handle

    def get_job_id(self) -> JobID:
        """Which job it is."""
        return self._handle.job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Where the job is in its life."""
        return CompletableFuture.completed(self._handle.status())

    def cancel(self) -> CompletableFuture[None]:
        """Stop the job without a snapshot."""
        return CompletableFuture(self._handle.cancel())

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Take a savepoint and end the job; the savepoint's path.

        Advancing to the end of event time fires all windows and timers first: for a job that will not
        be resumed.
        """
        return CompletableFuture(
            self._handle.stop_with_savepoint(advance_to_end_of_event_time, savepoint_directory)
        )

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint while the job goes on; its path."""
        return CompletableFuture(self._handle.trigger_savepoint(savepoint_directory))

    def get_accumulators(self) -> CompletableFuture[dict[str, object]]:
        """Always empty while the job runs: use metrics."""
        return CompletableFuture.completed({})

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Done when the job has; its ``result()`` raises if the job failed."""
        return CompletableFuture(self._handle.result())
